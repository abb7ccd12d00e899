"""Kernels loaded from binaries that ptxas made of PTX, kept on disk; without ptxas, from PTX.

Making them takes longer than all else in a first call. The driver's own compiler is as good, and
keeps what it makes where it can write, but gives nobody a binary. Its linker does, of relocatable
code alone: of a kernel that may be linked with others, the assembler tries less to save registers
(89 instead of 64 in a layer norm of 16384 columns and 16 warps), and fewer programs run at once.
"""

from __future__ import annotations

from tile import store
from tile.backends.nvptx import driver, ptxas
from tile.errors import BackendError, ExecutionError

_CUBIN = "cubin of a whole program"


def load(
    ptx: str, kernel: str, where: driver.Device, shared_bytes: int, *, cooperative: bool
) -> driver.Loaded:
    """A kernel on a device, which is the current one."""
    cubin = _assembled(ptx, kernel, where)
    if cubin is not None:
        try:
            return driver.Loaded(cubin, kernel, shared_bytes, cooperative=cooperative)
        except (
            BackendError,
            ExecutionError,
        ):  # a driver that is older than ptxas may not take what that makes
            pass
    return driver.Loaded(driver.image(ptx), kernel, shared_bytes, cooperative=cooperative)


def _assembled(ptx: str, kernel: str, where: driver.Device) -> bytes | None:
    """A cubin, made now or found on disk; None where nothing is kept, or ptxas cannot make it.

    What is wrong with PTX that it refuses, the driver's loader says better.
    """
    kept = store.current()
    if kept is None:
        return None
    key = "\n".join([_CUBIN, str(driver.version()), where.architecture, kernel, ptx])
    found = kept.get(key)
    if found is not None and _CUBIN in found.parts:
        return found.parts[_CUBIN]
    program = ptxas.find()
    if program is None:
        return None
    try:
        cubin, _ = ptxas.assemble(ptx, where.architecture, program)
    except BackendError:
        return None
    kept.put(key, store.Entry(f"{kernel}, assembled for {where.architecture}", {}, {_CUBIN: cubin}))
    return cubin
