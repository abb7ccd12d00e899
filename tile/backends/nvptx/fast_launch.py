"""The launch fast path: prepared functions that launch a kernel like an earlier launch.

A launch passes a block of memory to the driver: the addresses of the parameters, the configuration
for `cuLaunchKernelEx`, and the parameters. A stub (`tile.backends.nvptx.launch_stub`) fills in what
varies, and is the fast launch of most kernels. For a kernel with tensor maps a generated function
looks these up, by the arguments that they depend on, and passes their addresses to the stub:

    def fast_launch(x, y, z, v0, v1):
        map0 = maps0[v0]
        if map0 is None:
            return False
        return launch(x, y, z, v0, v1, map0.address)

Replays of `tile.ops` fix the grid and all numbers, too: then only the rest is written, and a value
of several parameters once. A stub does not check whether the kernel's context is current. The
driver rejects the launch if it is not, and what it rejects is done, or explained, by an ordinary
launch.

From compute capability 9.0 on, a launch has attributes. Every `num_ctas` consecutive programs along
axis 0 may form a *cluster*: they run at the same time on nearby multiprocessors. And programs may
start before the launch that precedes theirs is complete. What they compute depends on neither.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tile.backends.base import Grid
from tile.backends.capabilities import BoundLaunch, FastLaunch, Item, Passed
from tile.backends.nvptx.address_reader import address_reader
from tile.backends.nvptx.descriptor_maker import descriptor_maker
from tile.backends.nvptx.driver import Device
from tile.backends.nvptx.inline_cache import inline_cache
from tile.backends.nvptx.launch_metadata import MAP_ALIGNMENT
from tile.backends.nvptx.launch_stub import (
    CONFIG,
    MAP,
    Block,
    Driver,
    Move,
    has_native_stubs,
    launch_stub,
)
from tile.backends.nvptx.loaded_module import Loaded
from tile.backends.nvptx.tensor_maps import MapEncoder
from tile.errors import ArgumentValueError
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

    They are in clusters of `size` programs, all of them if that is `required`, and `dependent` ones
    may start before the launch that precedes them is complete.
    """

    def __init__(
        self, kernel: str, size: int, *, required: bool = False, dependent: bool = False
    ) -> None:
        self.kernel = kernel
        self.size = size
        self.required = required
        self.dependent = dependent
        # The attributes without clusters, and with them.
        flag = _ATTRIBUTE.pack(_DEPENDENT, 1, 0, 0) if dependent else b""
        extents = _ATTRIBUTE.pack(_CLUSTER, size, 1, 1)
        self._memory = ctypes.create_string_buffer(flag + extents)
        start, count = ctypes.addressof(self._memory), int(dependent)
        self.alone = _ATTRIBUTES.pack(start, count) if dependent else NO_ATTRIBUTES
        self.clustered = _ATTRIBUTES.pack(start, count + 1)
        self._warned = False

    @classmethod
    def on(
        cls, device: Device, kernel: str, size: int, *, required: bool, dependent: bool
    ) -> LaunchAttributes:
        """Return those of launches on a device, which may have neither."""
        size = size if device.has_clusters else 1
        dependent = dependent and device.has_dependent_launches
        return cls(kernel, size, required=required, dependent=dependent)

    def size_for(self, extent: int) -> int:
        """Return the programs of a cluster in a launch whose grid has that extent along axis 0.

        It is 1, with a warning the first time, if the extent is not a multiple of the size. Raises
        `ArgumentValueError` if clusters are required.
        """
        if extent % self.size == 0:
            return self.size
        if self.required:
            raise ArgumentValueError(
                f"`{self.kernel}` gathers numbers of num_ctas={self.size} programs of a cluster, "
                f"and {extent} programs along axis 0 of the grid are no multiple of that"
            )
        if not self._warned:
            self._warned = True
            warn(
                f"`{self.kernel}` is launched without clusters: {extent} programs along axis 0 of "
                f"the grid are not a multiple of num_ctas={self.size}"
            )
        return 1

    def packed(self, extent: int) -> bytes:
        """Return the end of a CUlaunchConfig for such a launch, valid while this object lives."""
        return self.clustered if self.size_for(extent) > 1 else self.alone


_WIDTH = 8  # bytes of each parameter in a block, and of each address
# Formats of parameters by dtype, as in `struct`.
FORMATS = {"bool": "?", "int32": "i", "int64": "q", "uint64": "Q", "float32": "f"}

_TEXT = """
def fast_launch({taken}):{maps}
    return {launch}({passed})
"""

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
        if number is None:
            return self
        return struct.pack(f"={self.format}", number).ljust(_WIDTH, b"\0")


class _Template(NamedTuple):
    """The tensor map of the array at `base`, a parameter, to whose address `addend` is added."""

    base: Parameter
    addend: int
    map: bytes


class _Call(NamedTuple):
    """The arguments of a fast launch, in this order: extents, tuples, and values."""

    extents: int
    tuples: int
    values: int

    @property
    def names(self) -> list[str]:
        return [
            *"xyz"[: self.extents],
            *(f"items{of}" for of in range(self.tuples)),
            *(f"v{at}" for at in range(self.values)),
        ]

    def move(self, parameter: Parameter, offset: int) -> Move:
        """Return what writes a parameter that varies."""
        value = parameter.value
        if isinstance(value, Item):
            return Move(parameter.format, self.extents + value.of, value.at, offset)
        assert isinstance(value, Passed)
        return Move(parameter.format, self.extents + self.tuples + value.at, -1, offset)


@dataclass(frozen=True)
class FastLauncher:
    """Makes functions that launch a loaded kernel with parameters of which some are fixed.

    After its other parameters the kernel takes `maps`, which an ordinary launch encodes. launch:
    the driver's function. report, replace: as in `Driver`.
    """

    loaded: Loaded
    threads: int
    launch: Any
    stream: Callable[[], int]
    parameters: Sequence[Parameter]
    maps: Sequence[MapEncoder]
    attributes: LaunchAttributes
    report: ctypes.Array[ctypes.c_int32]
    replace: Any

    def bound(self) -> BoundLaunch:
        count = sum(one.number is None for one in self.parameters)
        run = self._function(self.parameters, count)
        return BoundLaunch(run, self._fixed, inline_cache, descriptor_maker, address_reader)

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
        passed = [one for one in parameters if one.passed]
        tuples = {one.value.of for one in passed if isinstance(one.value, Item)}
        call = _Call(3 if grid is None else 0, len(tuples), count)
        attributes = self.attributes
        clustered = grid is None and attributes.size > 1
        if clustered:
            packed = [attributes.clustered, attributes.alone]
        else:
            packed = [attributes.alone if grid is None else attributes.packed(grid[0])]
        driver = Driver(
            self.launch,
            int(self.loaded.function),
            self.stream,
            self.report,
            attributes,
            self.replace,
        )
        numbers = [one.number for one in passed]
        maps = self._templates(passed, numbers)
        stubs = [launch_stub(self._block(passed, call, grid, one, maps), driver) for one in packed]
        looked_up = [] if maps is not None else self.maps
        if not looked_up and not clustered:
            return stubs[0]
        names: dict[str, Any] = {"launch": stubs[0], "alone": stubs[-1]}
        names["size_for"] = attributes.size_for
        keys = []
        for at, encoder in enumerate(looked_up):
            names[f"maps{at}"] = encoder.lookup(numbers)
            keys.append(
                ", ".join([passed[n].word for n in encoder.parameters if numbers[n] is None])
            )
        exec(_code(call, tuple(keys), clustered), names)
        launch_function: FastLaunch = names["fast_launch"]
        return launch_function

    def _templates(
        self, passed: Sequence[Parameter], numbers: Sequence[Any]
    ) -> list[_Template] | None:
        """Return the maps that are parts of blocks; None if a launch looks them up."""
        if not self.maps or self.replace is None or not has_native_stubs():
            return None
        templates = []
        for encoder in self.maps:
            template = encoder.template(numbers)
            if template is None:
                return None
            templates.append(_Template(passed[encoder.parameters[0]], *template))
        return templates

    def _block(
        self,
        passed: Sequence[Parameter],
        call: _Call,
        grid: Grid | None,
        attributes: bytes,
        templates: Sequence[_Template] | None,
    ) -> Block:
        """Return the block of launches; the stub takes the addresses of other maps after a call's.

        Parameters with the same data have one address.
        """
        every = [one.data for one in passed]
        maps = _WIDTH * len(every)
        config = maps + _WIDTH * len(self.maps)
        first = config + CONFIG.size
        offsets = {data: first + _WIDTH * at for at, data in enumerate(dict.fromkeys(every))}
        names = len(call.names)
        moves = [] if grid else [Move("i", axis, -1, config + 4 * axis) for axis in range(3)]
        moves += [call.move(one, at) for one, at in offsets.items() if isinstance(one, Parameter)]
        end = first + _WIDTH * len(offsets)
        own_maps = b""
        addresses = [offsets[data] for data in every]
        for base, addend, template in templates or []:
            own_maps += bytes(-(end + len(own_maps)) % MAP_ALIGNMENT)
            addresses.append(end + len(own_maps))
            moves.append(call.move(base, addresses[-1])._replace(format=MAP))
            own_maps += template + struct.pack("=q", addend)
        others = 0 if templates else len(self.maps)
        moves += [Move("Q", names + at, -1, maps + _WIDTH * at) for at in range(others)]
        program = self.threads, 1, 1, self.loaded.shared_bytes
        content = [
            struct.pack(f"={len(addresses)}Q", *addresses),
            bytes(_WIDTH * others),
            CONFIG.pack(*(grid or (0, 0, 0)), *program, 0, attributes),
            *(data if isinstance(data, bytes) else bytes(_WIDTH) for data in offsets),
            own_maps,
        ]
        return Block(names + others, b"".join(content), len(addresses), config, tuple(moves))


@functools.cache
def _code(call: _Call, maps: tuple[str, ...], clustered: bool) -> Any:
    """Compile `fast_launch`, which looks up tensor maps, and clusters by the extent of the grid.

    maps: the values by which each map is found.
    """
    taken = call.names
    text = _TEXT.format(
        taken=", ".join(taken),
        maps="".join(_MAP.format(at=at, key=key) for at, key in enumerate(maps)),
        launch="(launch if size_for(x) > 1 else alone)" if clustered else "launch",
        passed=", ".join([*taken, *(f"map{at}.address" for at in range(len(maps)))]),
    )
    return compile(text, GENERATED, "exec")
