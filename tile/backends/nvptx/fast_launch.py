"""The launch fast path: one call writes everything that varies into a prepared block of memory.

The block holds the addresses of the parameters, the configuration for `cuLaunchKernelEx`, and the
parameters, of which the fixed ones are written once. `cuLaunchKernelEx` is called through ctypes
with prepared objects: converting the eleven arguments of `cuLaunchKernel` in cuda.bindings takes
longer than the launch itself. For a kernel of two parameters the generated function is

    def fast_launch(x, y, z, v0, v1):
        try:
            block = pop()
        except IndexError:
            block = new_block()
        data, config, pointers = block
        try:
            pack_into(data, start, x, y, z, program, stream(), rest, v0, v1)
        except (OverflowError, struct_error):
            return False
        status = launch(config, function, pointers, None)
        push(block)
        return not status

For a kernel with tensor maps it first looks these up, by the arguments that they depend on, and
writes their addresses in front of `x`. A launch takes a block out and puts it back, so that no two
launches use the same one: neither threads, nor a launch that a signal or the garbage collector
starts inside another. Replays of `tile.ops` fix the grid and all numbers, too: then only the rest
is written, and a value of several parameters once. The function does not check whether the kernel's
context is current. The driver rejects the launch if it is not, and what it rejects is done, or
explained, by an ordinary launch.

From compute capability 9.0 on, a launch has attributes. Every `num_ctas` consecutive programs along
axis 0 may form a *cluster*: they run at the same time on nearby multiprocessors. And programs may
start before the launch that precedes theirs is complete. What they compute depends on neither.
"""

from __future__ import annotations

import ctypes
import functools
import operator
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tile.backends.base import Grid
from tile.backends.capabilities import BoundLaunch, FastLaunch, Item, Passed
from tile.backends.nvptx.driver import Device
from tile.backends.nvptx.loaded_module import Loaded
from tile.backends.nvptx.tensor_maps import MapEncoder
from tile.tracebacks import GENERATED, warn

# A CUlaunchAttribute: its id, and a union of 64 bytes, which has the extents of a cluster
# (CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION), or a flag
# (CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION). And the end of a CUlaunchConfig: the
# address of the attributes, and their number.
_ATTRIBUTE = struct.Struct("=I4x3I52x")
_CLUSTER, _DEPENDENT = 4, 6
_ATTRIBUTES = struct.Struct("=QI4x")
NO_ATTRIBUTES = bytes(_ATTRIBUTES.size)


class LaunchAttributes:
    """The attributes of a kernel's launches on one device.

    They are in clusters of `size` programs, and `dependent` ones may start before the launch that
    precedes them is complete.
    """

    def __init__(self, kernel: str, size: int, *, dependent: bool = False) -> None:
        self.kernel = kernel
        self.size = size
        self.dependent = dependent
        # The attributes without clusters, and with them.
        flag = _ATTRIBUTE.pack(_DEPENDENT, 1, 0, 0) if dependent else b""
        extents = _ATTRIBUTE.pack(_CLUSTER, size, 1, 1)
        self._memory = ctypes.create_string_buffer(flag + extents)
        start, count = ctypes.addressof(self._memory), int(dependent)
        self.alone = _ATTRIBUTES.pack(start, count) if dependent else NO_ATTRIBUTES
        self._clustered = _ATTRIBUTES.pack(start, count + 1)
        self._warned = False

    @classmethod
    def on(cls, device: Device, kernel: str, size: int, *, dependent: bool) -> LaunchAttributes:
        """Return those of launches on a device, which may have neither."""
        size = size if device.has_clusters else 1
        return cls(kernel, size, dependent=dependent and device.has_dependent_launches)

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

    def packed(self, extent: int) -> bytes:
        """Return the end of a CUlaunchConfig for such a launch, valid while this object lives."""
        return self._clustered if self.size_for(extent) > 1 else self.alone


# A CUlaunchConfig: the extents of the grid; the extents of a program and its bytes of shared
# memory; the stream; the address of the attributes, and their number. What does not vary is packed
# once.
_GRID = struct.Struct("=3I")
_PROGRAM = struct.Struct("=4I4x")
_WIDTH = 8  # bytes of each parameter, and of each address

# Formats of parameters by dtype, each `_WIDTH` bytes wide.
FORMATS = {
    "bool": "?7x",
    "int32": "i4x",
    "int64": "q",
    "uint64": "Q",
    "float32": "f4x",
}

_TEXT = """
def fast_launch({taken}):{report}{maps}
    try:
        block = pop()
    except IndexError:
        block = new_block()
    data, config, pointers, latest = block
    try:{items}
        pack_into(data, start, {packed})
    except (OverflowError, struct_error):  # such as a float that is infinite in 32 bits
        return False
    status = launch(config, function, pointers, None)
    push(block)
    return not status
"""

_ITEMS = """
        if latest[{of}] is not items{of}:
            pack{of}(data, start{of}, *pick{of}(items{of}))
            latest[{of}] = items{of}"""

# An ordinary launch raises the error of an assertion.
_REPORT = """
    if report[0]:
        return False"""

# The local variable keeps the map alive until the launch, even if the cache is cleared meanwhile.
_MAP = """
    map{at} = maps{at}[{key}]
    if map{at} is None:
        return False"""


class Parameter(NamedTuple):
    """An argument of a launch, packed by `format`: fixed, or a value that each launch gets.

    The kernel does not take arguments that are not `passed`.
    """

    format: str
    value: int | float | Passed | Item
    passed: bool = True

    @property
    def number(self) -> int | float | None:
        """The fixed value, or None."""
        return None if isinstance(self.value, Passed | Item) else self.value

    @property
    def word(self) -> str:
        """The source of a value that each launch gets."""
        if isinstance(self.value, Item):
            return f"items{self.value.of}[{self.value.at}]"
        return f"v{self.value.at}" if isinstance(self.value, Passed) else ""

    @property
    def data(self) -> bytes | Parameter:
        """The fixed value in memory, or the parameter itself."""
        number = self.number
        return self if number is None else struct.pack(f"={self.format}", number)


class _Block(NamedTuple):
    """The memory of one launch at a time."""

    data: Any
    config: Any  # by reference: the configuration in `data`
    pointers: Any  # by reference: the addresses of the parameters in `data`
    latest: list[Any]  # the tuples whose items are in `data`


class _Items(NamedTuple):
    """The items of a tuple that a launch takes: their indices, and where they are in a block."""

    indices: Sequence[int]
    start: int
    packing: struct.Struct


class _BlockLayout:
    """The layout of a block: addresses, those of maps last; configuration; parameters.

    Parameters with the same data have one address. has_grid: the grid is fixed.
    """

    def __init__(self, parameters: Sequence[Parameter], maps: int, *, has_grid: bool) -> None:
        every = [one.data for one in parameters if one.passed]
        distinct = dict.fromkeys(every)
        varying = [one for one in distinct if isinstance(one, Parameter)]
        self.values = [one for one in varying if isinstance(one.value, Passed)]
        by_tuple: dict[int, dict[Parameter, int]] = {}
        for one in varying:
            if isinstance(one.value, Item):
                by_tuple.setdefault(one.value.of, {})[one] = one.value.at
        fixed = [data for data in distinct if isinstance(data, bytes)]
        self.start = _WIDTH * len(every)  # of what each launch writes
        self.config = self.start + _WIDTH * maps
        head = f"{_GRID.size + _PROGRAM.size}s" if has_grid else f"3I{_PROGRAM.size}s"
        formats = "".join(one.format for one in self.values)
        self.packing = struct.Struct(f"={maps}Q{head}Q{len(NO_ATTRIBUTES)}s{formats}")
        end = self.start + self.packing.size
        first = end - _WIDTH * len(self.values)
        every_data: list[Parameter | bytes] = [*self.values]
        self.items: list[_Items] = []
        for _, some in sorted(by_tuple.items()):
            packing = struct.Struct("=" + "".join(one.format for one in some))
            self.items.append(_Items([*some.values()], end, packing))
            every_data += some
            end += packing.size
        every_data += fixed
        offsets = {data: first + _WIDTH * n for n, data in enumerate(every_data)}
        self._offsets = [offsets[data] for data in every]
        self._fixed = b"".join(fixed)
        self._size = end + len(self._fixed)

    def block(self) -> _Block:
        """Return a new block, with everything in it that is the same for each launch."""
        data = ctypes.create_string_buffer(self._size)
        origin = ctypes.addressof(data)
        addresses = [origin + offset for offset in self._offsets]
        struct.pack_into(f"={len(addresses)}Q", data, 0, *addresses)
        ctypes.memmove(origin + self._size - len(self._fixed), self._fixed, len(self._fixed))
        latest = [None] * len(self.items)
        return _Block(data, ctypes.byref(data, self.config), ctypes.byref(data), latest)


@dataclass(frozen=True)
class FastLauncher:
    """Makes functions that launch a loaded kernel with parameters of which some are fixed.

    After its other parameters the kernel takes `maps`, which an ordinary launch encodes. launch:
    the driver's function. report: the record of a kernel with assertions.
    """

    loaded: Loaded
    threads: int
    launch: Any
    stream: Callable[[], int]
    parameters: Sequence[Parameter]
    maps: Sequence[MapEncoder]
    attributes: LaunchAttributes
    report: ctypes.Array[ctypes.c_int32] | None

    def bound(self) -> BoundLaunch:
        count = sum(one.number is None for one in self.parameters)
        return BoundLaunch(self._function(self.parameters, count), self._fixed)

    def _fixed(self, grid: Grid, values: Sequence[int | float | Passed | Item]) -> FastLaunch:
        """Return the function for a grid and values; see `BoundLaunch.fixed`."""
        own = [
            one._replace(value=values[one.value.at]) if isinstance(one.value, Passed) else one
            for one in self.parameters
        ]
        count = len({value for value in values if isinstance(value, Passed)})
        try:
            return self._function(own, count, grid)
        except (OverflowError, struct.error):  # an ordinary launch raises the error
            return lambda *_: False

    def _function(
        self, parameters: Sequence[Parameter], count: int, grid: Grid | None = None
    ) -> FastLaunch:
        """Return the function of as many values, and of a grid unless it is fixed."""
        layout = _BlockLayout(parameters, len(self.maps), has_grid=grid is not None)
        blocks: list[_Block] = []
        program = _PROGRAM.pack(self.threads, 1, 1, self.loaded.shared_bytes)
        attributes = self.attributes
        if grid is None:
            head, clustered = program, attributes.size > 1
            rest: Any = attributes.packed if clustered else attributes.alone
        else:
            head, clustered = _GRID.pack(*grid) + program, False
            rest = attributes.packed(grid[0])
        names = {
            "pop": blocks.pop,
            "push": blocks.append,
            "new_block": layout.block,
            "pack_into": layout.packing.pack_into,
            "start": layout.start,
            "struct_error": struct.error,
            "head": head,
            "rest": rest,
            "stream": self.stream,
            "launch": self.launch,
            "function": ctypes.c_void_p(int(self.loaded.function)),
            "report": self.report,  # its first number says whether an assertion was false
        }
        for of, items in enumerate(layout.items):
            names[f"pack{of}"] = items.packing.pack_into
            names[f"start{of}"] = items.start
            names[f"pick{of}"] = _picker(items.indices)
        numbers = [one.number for one in parameters if one.passed]
        passed = [one for one in parameters if one.passed]
        keys = []
        for at, encoder in enumerate(self.maps):
            names[f"maps{at}"] = encoder.lookup(numbers)
            keys.append(
                ", ".join([passed[n].word for n in encoder.parameters if numbers[n] is None])
            )
        packed = tuple(one.word for one in layout.values)
        kind = (grid is not None, clustered, self.report is not None, len(layout.items))
        exec(_code(count, packed, tuple(keys), *kind), names)
        launch_function: FastLaunch = names["fast_launch"]
        return launch_function


def _picker(indices: Sequence[int]) -> Callable[[Sequence[int]], Sequence[int]]:
    """Return a function that returns the items at these indices."""
    if len(indices) < 2:
        return lambda items: [items[at] for at in indices]
    return operator.itemgetter(*indices)


@functools.cache
def _code(
    count: int,
    packed: tuple[str, ...],
    maps: tuple[str, ...],
    has_grid: bool,
    clustered: bool,
    reports: bool,
    tuples: int,
) -> Any:
    """Compile `fast_launch`.

    count: of the values. packed: those to pack. maps: the values by which each map is found.
    has_grid: the grid is fixed. tuples: the number of those that have items.
    """
    extents = [] if has_grid else ["x", "y", "z"]
    items = [f"items{of}" for of in range(tuples)]
    values = [f"v{at}" for at in range(count)]
    text = _TEXT.format(
        taken=", ".join([*extents, *items, *values]),
        items="".join(_ITEMS.format(of=of) for of in range(tuples)),
        report=_REPORT if reports else "",
        maps="".join(_MAP.format(at=at, key=key) for at, key in enumerate(maps)),
        packed=", ".join(
            [
                *(f"map{at}.address" for at in range(len(maps))),
                *(*extents, "head", "stream()", "rest(x)" if clustered else "rest"),
                *packed,
            ]
        ),
    )
    return compile(text, GENERATED, "exec")
