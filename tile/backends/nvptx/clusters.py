"""Clusters: programs next to each other on the grid that run at the same time, close together.

Since compute capability 9.0 a launch may ask that every `num_ctas` programs in a row along axis 0
are one cluster. What they compute does not depend on it.
"""

from __future__ import annotations

import ctypes
import struct

from tile.backends.nvptx.driver import Device
from tile.warn import warn

PORTABLE = 8  # programs in a cluster on all devices that have them; some have more

# A CUlaunchAttribute that says a cluster's extents (CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION): its
# number, and a union of 64 bytes. And the end of a CUlaunchConfig: the attributes' address, how
# many there are.
_DIMENSION = struct.Struct("=I4x3I52x")
_IDENTITY = 4
_ATTRIBUTES = struct.Struct("=QI4x")
NO_ATTRIBUTES = bytes(_ATTRIBUTES.size)


class Clusters:
    """How a kernel's launches on one device are clustered: `size` programs at a time."""

    def __init__(self, kernel: str, size: int) -> None:
        self.kernel = kernel
        self.size = size
        self._attribute = ctypes.create_string_buffer(_DIMENSION.pack(_IDENTITY, size, 1, 1))
        self._attributes = _ATTRIBUTES.pack(ctypes.addressof(self._attribute), 1)
        self._warned = False

    @classmethod
    def on(cls, device: Device, kernel: str, size: int) -> Clusters:
        """Those of a launch that asks for clusters of a size, on a device that may have none."""
        return cls(kernel, size if device.has_clusters else 1)

    def along(self, extent: int) -> int:
        """Programs of a cluster of a launch whose grid has that extent along axis 0.

        One where clusters do not fill it, of which a warning tells once.
        """
        if extent % self.size == 0:
            return self.size
        if not self._warned:
            self._warned = True
            warn(
                f"`{self.kernel}` is launched without clusters: {extent} programs along axis 0 of "
                f"the grid are no multiple of num_ctas={self.size}"
            )
        return 1

    def attributes(self, extent: int) -> bytes:
        """The end of a CUlaunchConfig for such a launch, good as long as this object is there."""
        return self._attributes if self.along(extent) > 1 else NO_ATTRIBUTES
