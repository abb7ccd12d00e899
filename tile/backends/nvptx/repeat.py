"""Repeat launches: all that differs is written into a prepared block of memory, in one call.

The block holds what `cuLaunchKernelEx` takes, the kernel's parameters, and their addresses. It is
called through ctypes with objects made beforehand: converting eleven arguments of `cuLaunchKernel`
in cuda.bindings takes longer than the launch itself.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from cuda.bindings import driver as cuda

from tile.backends.base import Grid, Repeat
from tile.backends.nvptx import driver
from tile.backends.nvptx.tensor_maps import MapMaker

# A CUlaunchConfig: the grid's and the programs' extents, shared bytes; the stream, the address of
# attributes, and how many.
_CONFIG = "=7I4xQQI4x"
_CONFIG_BYTES = struct.calcsize(_CONFIG)
_SLOT = 8  # bytes that each parameter is given

# How parameters are packed, each as wide as a slot.
FORMATS = {
    "bool": "?7x",
    "int32": "i4x",
    "int64": "q",
    "uint64": "Q",
    "float32": "f4x",
}


class _Block(NamedTuple):
    """What one launch at a time uses."""

    data: Any  # the configuration and the parameters
    config: Any  # where `data` is
    pointers: Any  # where the parameters' addresses are
    context: Any  # a place for the current context
    place: Any  # where that is
    addresses: Any  # the array that is at `pointers`


def repeat_launch(
    loaded: driver.Loaded,
    where: driver.Device,
    threads: int,
    stream: Callable[[], int],
    formats: Sequence[str],
    taken: Sequence[bool],
    maps: Sequence[MapMaker] = (),
) -> Repeat | None:
    """How to launch a loaded kernel again, with one value for each of `formats`.

    `taken` says which of them are the kernel's parameters. Behind these it takes `maps`, which an
    ordinary launch makes. None where the driver is too old.
    """
    launch = driver.direct("cuLaunchKernelEx", waits=True)
    current_context = driver.direct("cuCtxGetCurrent", waits=False)
    if launch is None or current_context is None:
        return None
    function = ctypes.c_void_p(int(loaded.function))
    wanted = where.context
    shared = loaded.shared_bytes
    pack_into = struct.Struct(_CONFIG + "".join(formats)).pack_into
    size = _CONFIG_BYTES + _SLOT * len(formats)
    parameters = [at for at, is_taken in enumerate(taken) if is_taken]
    used = [_CONFIG_BYTES + _SLOT * at for at in parameters]
    lookups = [maker.lookup(parameters) for maker in maps]
    # Each launch takes a block out and puts it back, so no two use one: not threads, and not a
    # launch that a signal or the garbage collector starts amid another.
    blocks: list[_Block] = []

    def repeat(grid: Grid, values: tuple[Any, ...]) -> bool:
        try:
            block = blocks.pop()
        except IndexError:
            block = _block(size, used, len(maps))
        data, config, pointers, context, place, addresses = block
        try:
            pack_into(data, 0, *grid, threads, 1, 1, shared, stream(), 0, 0, *values)
        except (OverflowError, struct.error):  # such as a float that is infinite in 32 bits
            return False
        if current_context(place) or context.value != wanted:
            return False
        made = [lookup(values) for lookup in lookups]  # kept alive until the launch
        for at, found in enumerate(made, len(used)):
            if found is None:
                return False
            addresses[at] = found.address
        status = launch(config, function, pointers, None)
        blocks.append(block)
        if status:
            raise loaded.refused(cuda.CUresult(status), grid, threads)
        return True

    return repeat


def _block(size: int, used: Sequence[int], maps: int) -> _Block:
    data = ctypes.create_string_buffer(size)
    start = ctypes.addressof(data)
    pointers = (ctypes.c_void_p * max(1, len(used) + maps))(*[start + at for at in used])
    context = ctypes.c_size_t()
    config, listed, place = ctypes.byref(data), ctypes.byref(pointers), ctypes.byref(context)
    return _Block(data, config, listed, context, place, pointers)
