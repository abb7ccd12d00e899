"""Repeat launches: all that differs is written into a prepared block of memory, in one call.

The block holds what `cuLaunchKernelEx` takes, the kernel's parameters, and their addresses. It is
called through ctypes with objects made beforehand: converting eleven arguments of `cuLaunchKernel`
in cuda.bindings takes longer than the launch itself. For a kernel of two parameters the function is

    def repeat(x, y, z, v0, v1):
        try:
            block = pop()
        except IndexError:
            block = fresh()
        data, config, pointers, addresses = block
        try:
            pack_into(data, 0, x, y, z, program, stream(), rest, v0, v1)
        except (OverflowError, struct_error):
            return False
        status = launch(config, function, pointers, None)
        push(block)
        return not status

and one that takes tensor maps looks them up before it launches. Each launch takes a block out and
puts it back, so no two use one: not threads, and not a launch that a signal or the garbage
collector starts amid another. It does not ask whether the current context is the kernel's: the
driver refuses the launch if it is not, and what it refuses is done, or explained, by an ordinary
launch.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tile.backends.base import Repeat
from tile.backends.nvptx import driver
from tile.backends.nvptx.clusters import NO_ATTRIBUTES, Clusters
from tile.backends.nvptx.tensor_maps import MapMaker

# A CUlaunchConfig: the grid's extents; the program's extents and shared bytes; the stream; the
# address of attributes, and how many. What does not change is packed once.
_PROGRAM = struct.Struct("=4I4x")
_CONFIG = f"=3I{_PROGRAM.size}sQ{len(NO_ATTRIBUTES)}s"
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

_TEXT = """
def repeat(x, y, z, {values}):
    try:
        block = pop()
    except IndexError:
        block = fresh()
    data, config, pointers, addresses = block
    try:
        pack_into(data, 0, x, y, z, program, stream(), {rest}, {values})
    except (OverflowError, struct_error):  # such as a float that is infinite in 32 bits
        return False{maps}
    status = launch(config, function, pointers, None)
    push(block)
    return not status
"""

_MAPS = """
    made = [lookup(({values},)) for lookup in lookups]  # kept alive until the launch
    for at, found in enumerate(made, first_map):
        if found is None:
            push(block)
            return False
        addresses[at] = found.address"""


class _Block(NamedTuple):
    """What one launch at a time uses."""

    data: Any  # the configuration and the parameters
    config: Any  # where `data` is
    pointers: Any  # where the parameters' addresses are
    addresses: Any  # the array that is there


def repeat_launch(
    loaded: driver.Loaded,
    threads: int,
    stream: Callable[[], int],
    formats: Sequence[str],
    taken: Sequence[bool],
    maps: Sequence[MapMaker],
    clusters: Clusters,
) -> Repeat | None:
    """How to launch a loaded kernel again, with one value for each of `formats`.

    `taken` says which of them are the kernel's parameters. Behind these it takes `maps`, which an
    ordinary launch makes; its programs are in `clusters`. None where the driver is too old.
    """
    launch = driver.direct("cuLaunchKernelEx")
    if launch is None:
        return None
    packing = struct.Struct(_CONFIG + "".join(formats))
    parameters = [at for at, is_taken in enumerate(taken) if is_taken]
    used = [_CONFIG_BYTES + _SLOT * at for at in parameters]
    blocks: list[_Block] = []
    clustered = clusters.size > 1
    names = {
        "pop": blocks.pop,
        "push": blocks.append,
        "fresh": functools.partial(_block, packing.size, used, len(maps)),
        "pack_into": packing.pack_into,
        "struct_error": struct.error,
        "program": _PROGRAM.pack(threads, 1, 1, loaded.shared_bytes),
        "rest": clusters.attributes if clustered else NO_ATTRIBUTES,
        "stream": stream,
        "launch": launch,
        "function": ctypes.c_void_p(int(loaded.function)),
        "lookups": [maker.lookup(parameters) for maker in maps],
        "first_map": len(used),
    }
    exec(_code(len(formats), bool(maps), clustered), names)
    repeat: Repeat = names["repeat"]
    return repeat


@functools.cache
def _code(count: int, maps: bool, clustered: bool) -> Any:
    """`repeat` for that many values, with tensor maps or without, and clusters."""
    values = ", ".join(f"v{at}" for at in range(count))
    text = _TEXT.format(
        values=values,
        rest="rest(x)" if clustered else "rest",
        maps=_MAPS.format(values=values) if maps else "",
    )
    return compile(text, "<a repeat launch>", "exec")


def _block(size: int, used: Sequence[int], maps: int) -> _Block:
    data = ctypes.create_string_buffer(size)
    start = ctypes.addressof(data)
    pointers = (ctypes.c_void_p * max(1, len(used) + maps))(*[start + at for at in used])
    return _Block(data, ctypes.byref(data), ctypes.byref(pointers), pointers)
