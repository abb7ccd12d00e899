"""What the driver makes of PTX, kept on disk: making it takes longer than all else in a first call.

The driver has a cache of its own, where it can write one; ours is there with the kernels.
"""

from __future__ import annotations

from tile import store
from tile.backends.nvptx import driver

_CUBIN = "cubin"


def assembled(ptx: str, kernel: str, where: driver.Device) -> bytes:
    """A cubin for a device, which is the current one, made by the driver or found on disk."""
    kept = store.current()
    if kept is None:
        return driver.link(ptx, kernel)
    key = "\n".join([_CUBIN, str(driver.version()), where.architecture, kernel, ptx])
    found = kept.get(key)
    if found is not None and _CUBIN in found.parts:
        return found.parts[_CUBIN]
    cubin = driver.link(ptx, kernel)
    kept.put(key, store.Entry(f"{kernel}, assembled for {where.architecture}", {}, {_CUBIN: cubin}))
    return cubin
