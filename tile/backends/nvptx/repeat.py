"""Repeat launches: all that differs is written into a prepared block of memory, in one call.

The block holds the parameters' addresses, what `cuLaunchKernelEx` takes, and the parameters, of
which those that are the same each time are there already. It is called through ctypes with objects
made beforehand: converting eleven arguments of `cuLaunchKernel` in cuda.bindings takes longer than
the launch itself. For a kernel of two parameters the function is

    def repeat(x, y, z, v0, v1):
        try:
            block = pop()
        except IndexError:
            block = fresh()
        data, config, pointers = block
        try:
            pack_into(data, start, x, y, z, program, stream(), rest, v0, v1)
        except (OverflowError, struct_error):
            return False
        status = launch(config, function, pointers, None)
        push(block)
        return not status

and one that takes tensor maps looks them up first, by those values that they depend on, and writes
where they are in front of `x`. Each launch takes a block out and puts it back, so no two use one:
not threads, and not a launch that a signal or the garbage collector starts amid another. It does
not ask whether the current context is the kernel's: the driver refuses the launch if it is not, and
what it refuses is done, or explained, by an ordinary launch.
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
from tile.tracebacks import GENERATED

# A CUlaunchConfig: the grid's extents; the program's extents and shared bytes; the stream; the
# address of attributes, and how many. What does not change is packed once.
_PROGRAM = struct.Struct("=4I4x")
_CONFIG = f"3I{_PROGRAM.size}sQ{len(NO_ATTRIBUTES)}s"
_SLOT = 8  # bytes that each parameter is given, and each address

# How parameters are packed, each as wide as a slot.
FORMATS = {
    "bool": "?7x",
    "int32": "i4x",
    "int64": "q",
    "uint64": "Q",
    "float32": "f4x",
}

_TEXT = """
def repeat(x, y, z, {values}):{maps}
    try:
        block = pop()
    except IndexError:
        block = fresh()
    data, config, pointers = block
    try:
        pack_into(data, start, {addresses}x, y, z, program, stream(), {rest}, {values})
    except (OverflowError, struct_error):  # such as a float that is infinite in 32 bits
        return False
    status = launch(config, function, pointers, None)
    push(block)
    return not status
"""

# It is kept alive by its name until the launch, whoever forgets it meanwhile.
_MAP = """
    map{at} = maps{at}[{key}]
    if map{at} is None:
        return False"""


class Slot(NamedTuple):
    """A number among a launch's arguments, and how repeats have it.

    `value` is what it is each time, or None where each repeat is given one, which is packed by
    `format`. What the kernel does not take is not `taken`.
    """

    format: str
    taken: bool = True
    value: Any = None

    @property
    def data(self) -> bytes:
        return struct.pack(f"={self.format}", self.value)


class _Block(NamedTuple):
    """What one launch at a time uses."""

    data: Any
    config: Any  # the place of the configuration there
    pointers: Any  # that of the parameters' addresses


class _Plan:
    """Where things are in a block: addresses, those of maps last; configuration; parameters."""

    def __init__(self, slots: Sequence[Slot], maps: int) -> None:
        self.varying = [at for at, slot in enumerate(slots) if slot.value is None]
        self.taken = [at for at, slot in enumerate(slots) if slot.taken]
        fixed = [at for at in self.taken if slots[at].value is not None]
        self.start = _SLOT * len(self.taken)  # of what each launch writes
        self.config = self.start + _SLOT * maps
        formats = "".join(slots[at].format for at in self.varying)
        self.packing = struct.Struct(f"={maps}Q{_CONFIG}{formats}")
        end = self.start + self.packing.size
        first = end - _SLOT * len(self.varying)
        places = {at: first + _SLOT * n for n, at in enumerate([*self.varying, *fixed])}
        self._places = [places[at] for at in self.taken]
        self._fixed = b"".join([slots[at].data for at in fixed])
        self._size = end + len(self._fixed)

    def block(self) -> _Block:
        """A new one, with all in it that is the same each time."""
        data = ctypes.create_string_buffer(self._size)
        origin = ctypes.addressof(data)
        struct.pack_into(f"={len(self._places)}Q", data, 0, *[origin + at for at in self._places])
        ctypes.memmove(origin + self._size - len(self._fixed), self._fixed, len(self._fixed))
        return _Block(data, ctypes.byref(data, self.config), ctypes.byref(data))


def repeat_launch(
    loaded: driver.Loaded,
    threads: int,
    stream: Callable[[], int],
    slots: Sequence[Slot],
    maps: Sequence[MapMaker],
    clusters: Clusters,
) -> Repeat | None:
    """How to launch a loaded kernel again, with a value for each of `slots` that has none.

    Behind its other parameters it takes `maps`, which an ordinary launch makes; its programs are in
    `clusters`. None where the driver is too old.
    """
    launch = driver.direct("cuLaunchKernelEx")
    if launch is None:
        return None
    plan = _Plan(slots, len(maps))
    blocks: list[_Block] = []
    clustered = clusters.size > 1
    names = {
        "pop": blocks.pop,
        "push": blocks.append,
        "fresh": plan.block,
        "pack_into": plan.packing.pack_into,
        "start": plan.start,
        "struct_error": struct.error,
        "program": _PROGRAM.pack(threads, 1, 1, loaded.shared_bytes),
        "rest": clusters.attributes if clustered else NO_ATTRIBUTES,
        "stream": stream,
        "launch": launch,
        "function": ctypes.c_void_p(int(loaded.function)),
    }
    values = [slots[at].value for at in plan.taken]
    words = {at: f"v{n}" for n, at in enumerate(plan.varying)}
    keys = []
    for number, maker in enumerate(maps):
        names[f"maps{number}"] = maker.known(values)
        differ = [plan.taken[n] for n in maker.parameters if values[n] is None]
        keys.append(", ".join([words[at] for at in differ]))
    exec(_code(len(plan.varying), tuple(keys), clustered), names)
    repeat: Repeat = names["repeat"]
    return repeat


@functools.cache
def _code(count: int, maps: tuple[str, ...], clustered: bool) -> Any:
    """`repeat` for that many values, with maps by some of them, and clusters."""
    text = _TEXT.format(
        values=", ".join(f"v{at}" for at in range(count)),
        maps="".join(_MAP.format(at=at, key=key) for at, key in enumerate(maps)),
        addresses="".join(f"map{at}.address, " for at in range(len(maps))),
        rest="rest(x)" if clustered else "rest",
    )
    return compile(text, GENERATED, "exec")
