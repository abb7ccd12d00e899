"""What the driver makes of PTX, kept on disk: making it takes longer than all else in a first call.

The driver has a cache of its own, where it can write one; ours is there with the kernels.
"""

from __future__ import annotations

import warnings

from tile import store
from tile.backends.nvptx import driver
from tile.errors import ExecutionError

_CUBIN = "cubin"


def assembled(ptx: str, kernel: str, where: driver.Device) -> bytes:
    """An image for a device, which is the current one, made by the driver or found on disk.

    It is a cubin; or the PTX itself where the driver's linker refuses it, since its loader may take
    it all the same, and says better what is wrong if it does not.
    """
    kept = store.current()
    if kept is None:
        return driver.image(ptx)
    key = "\n".join([_CUBIN, str(driver.version()), where.architecture, kernel, ptx])
    found = kept.get(key)
    if found is not None and _CUBIN in found.parts:
        return found.parts[_CUBIN]
    try:
        cubin = driver.link(ptx, kernel)
    except ExecutionError as error:
        warnings.warn(
            f"`{kernel}` is compiled from PTX in every process that launches it, since there is no "
            f"binary to be kept: {error.message}",
            RuntimeWarning,
            stacklevel=2,
        )
        return driver.image(ptx)
    kept.put(key, store.Entry(f"{kernel}, assembled for {where.architecture}", {}, {_CUBIN: cubin}))
    return cubin
