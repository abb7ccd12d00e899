"""Kernels as cubins that ptxas assembles and the disk cache keeps; PTX where there is no ptxas.

Assembling takes longer than everything else in a first call. The compiler in the driver is as good,
and caches its results where it can write, but it gives no access to the binary. The linker in the
driver does, but only for relocatable code: ptxas does less to save registers in a kernel that may
be linked with others (89 instead of 64 in a layer norm of 16384 columns and 16 warps), which lowers
occupancy.
"""

from __future__ import annotations

from tile import store
from tile.backends.nvptx import driver, ptxas
from tile.errors import BackendError, ExecutionError

_CUBIN = "cubin of a whole program"


def load(
    ptx: str, kernel: str, device: driver.Device, shared_bytes: int, *, cooperative: bool
) -> driver.Loaded:
    """Load a kernel on a device, which is the current one."""
    cubin = _cubin(ptx, kernel, device)
    if cubin is not None:
        try:
            return driver.Loaded(cubin, kernel, shared_bytes, cooperative=cooperative)
        except (BackendError, ExecutionError):
            pass  # a driver that is older than ptxas may reject its cubins
    return driver.Loaded(driver.image(ptx), kernel, shared_bytes, cooperative=cooperative)


def _cubin(ptx: str, kernel: str, device: driver.Device) -> bytes | None:
    """Return a cubin from the disk cache or ptxas; None without a cache, or if ptxas fails.

    The driver explains better than ptxas what is wrong with rejected PTX.
    """
    cache = store.current()
    if cache is None:
        return None
    key = "\n".join([_CUBIN, str(driver.version()), device.architecture, kernel, ptx])
    entry = cache.get(key)
    if entry is not None and _CUBIN in entry.parts:
        return entry.parts[_CUBIN]
    program = ptxas.find()
    if program is None:
        return None
    try:
        cubin, _ = ptxas.assemble(ptx, device.architecture, program)
    except BackendError:
        return None
    cache.put(
        key, store.Entry(f"{kernel}, assembled for {device.architecture}", {}, {_CUBIN: cubin})
    )
    return cubin
