"""Clusters: adjacent programs of the grid that run at the same time on nearby multiprocessors.

From compute capability 9.0 on, a launch may ask that every `num_ctas` consecutive programs along
axis 0 form one cluster. What they compute does not depend on it.
"""

from __future__ import annotations

import ctypes
import struct

from tile.backends.nvptx.driver import Device
from tile.warn import warn

PORTABLE = 8  # programs of a cluster that every device with clusters supports; some support more

# A CUlaunchAttribute with the extents of a cluster (CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION): its id,
# and a union of 64 bytes. And the end of a CUlaunchConfig: the address of the attributes, and their
# number.
_DIMENSION = struct.Struct("=I4x3I52x")
_IDENTITY = 4
_ATTRIBUTES = struct.Struct("=QI4x")
NO_ATTRIBUTES = bytes(_ATTRIBUTES.size)


class Clusters:
    """The clusters of a kernel's launches on one device: `size` programs each."""

    def __init__(self, kernel: str, size: int) -> None:
        self.kernel = kernel
        self.size = size
        self._attribute = ctypes.create_string_buffer(_DIMENSION.pack(_IDENTITY, size, 1, 1))
        self._attributes = _ATTRIBUTES.pack(ctypes.addressof(self._attribute), 1)
        self._warned = False

    @classmethod
    def on(cls, device: Device, kernel: str, size: int) -> Clusters:
        """Return clusters of a size, or of one program on a device that has no clusters."""
        return cls(kernel, size if device.has_clusters else 1)

    def size_for(self, extent: int) -> int:
        """Return the programs of a cluster in a launch whose grid has that extent along axis 0.

        It is 1, with a warning the first time, if the extent is not a multiple of the size.
        """
        if extent % self.size == 0:
            return self.size
        if not self._warned:
            self._warned = True
            warn(
                f"`{self.kernel}` is launched without clusters: {extent} programs along axis 0 of "
                f"the grid are not a multiple of num_ctas={self.size}"
            )
        return 1

    def attributes(self, extent: int) -> bytes:
        """Return the end of a CUlaunchConfig for such a launch, valid while this object lives."""
        return self._attributes if self.size_for(extent) > 1 else NO_ATTRIBUTES
