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
starts inside another. The function does not check whether the kernel's context is current. The
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
from typing import Any, NamedTuple

from tile.backends.capabilities import FastLaunch
from tile.backends.nvptx import driver
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
_PROGRAM = struct.Struct("=4I4x")
_CONFIG = f"3I{_PROGRAM.size}sQ{len(NO_ATTRIBUTES)}s"
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
def fast_launch(x, y, z, {values}):{report}{maps}
    try:
        block = pop()
    except IndexError:
        block = new_block()
    data, config, pointers = block
    try:
        pack_into(data, start, {addresses}x, y, z, program, stream(), {rest}, {values})
    except (OverflowError, struct_error):  # such as a float that is infinite in 32 bits
        return False
    status = launch(config, function, pointers, None)
    push(block)
    return not status
"""

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
    """An argument of a launch, and how the fast path passes it.

    `value` is the fixed value, or None for an argument that each launch gets, packed by `format`.
    The kernel does not take arguments that are not `passed`.
    """

    format: str
    passed: bool = True
    value: Any = None

    @property
    def data(self) -> bytes:
        return struct.pack(f"={self.format}", self.value)


class _Block(NamedTuple):
    """The memory of one launch at a time."""

    data: Any
    config: Any  # by reference: the configuration in `data`
    pointers: Any  # by reference: the addresses of the parameters in `data`


class _BlockLayout:
    """The layout of a block: addresses, those of maps last; configuration; parameters."""

    def __init__(self, parameters: Sequence[Parameter], maps: int) -> None:
        self.varying = [at for at, one in enumerate(parameters) if one.value is None]
        self.passed = [at for at, one in enumerate(parameters) if one.passed]
        fixed = [at for at in self.passed if parameters[at].value is not None]
        self.start = _WIDTH * len(self.passed)  # of what each launch writes
        self.config = self.start + _WIDTH * maps
        formats = "".join(parameters[at].format for at in self.varying)
        self.packing = struct.Struct(f"={maps}Q{_CONFIG}{formats}")
        end = self.start + self.packing.size
        first = end - _WIDTH * len(self.varying)
        offsets = {at: first + _WIDTH * n for n, at in enumerate([*self.varying, *fixed])}
        self._offsets = [offsets[at] for at in self.passed]
        self._fixed = b"".join([parameters[at].data for at in fixed])
        self._size = end + len(self._fixed)

    def block(self) -> _Block:
        """Return a new block, with everything in it that is the same for each launch."""
        data = ctypes.create_string_buffer(self._size)
        origin = ctypes.addressof(data)
        addresses = [origin + offset for offset in self._offsets]
        struct.pack_into(f"={len(addresses)}Q", data, 0, *addresses)
        ctypes.memmove(origin + self._size - len(self._fixed), self._fixed, len(self._fixed))
        return _Block(data, ctypes.byref(data, self.config), ctypes.byref(data))


def build_fast_launch(
    loaded: Loaded,
    threads: int,
    stream: Callable[[], int],
    parameters: Sequence[Parameter],
    maps: Sequence[MapEncoder],
    attributes: LaunchAttributes,
    report: ctypes.Array[ctypes.c_int32] | None,
) -> FastLaunch | None:
    """Return a function that launches a loaded kernel, with a value for each varying parameter.

    After its other parameters the kernel takes `maps`, which an ordinary launch encodes. `report`
    is the record of a kernel with assertions. None if the driver is too old.
    """
    launch = driver.direct("cuLaunchKernelEx")
    if launch is None:
        return None
    layout = _BlockLayout(parameters, len(maps))
    blocks: list[_Block] = []
    clustered = attributes.size > 1
    names = {
        "pop": blocks.pop,
        "push": blocks.append,
        "new_block": layout.block,
        "pack_into": layout.packing.pack_into,
        "start": layout.start,
        "struct_error": struct.error,
        "program": _PROGRAM.pack(threads, 1, 1, loaded.shared_bytes),
        "rest": attributes.packed if clustered else attributes.alone,
        "stream": stream,
        "launch": launch,
        "function": ctypes.c_void_p(int(loaded.function)),
        "report": report,  # its first number says whether an assertion was false
    }
    values = [parameters[at].value for at in layout.passed]
    variables = {at: f"v{n}" for n, at in enumerate(layout.varying)}
    keys = []
    for number, encoder in enumerate(maps):
        names[f"maps{number}"] = encoder.lookup(values)
        varying = [layout.passed[n] for n in encoder.parameters if values[n] is None]
        keys.append(", ".join([variables[at] for at in varying]))
    exec(_code(len(layout.varying), tuple(keys), clustered, report is not None), names)
    launch_function: FastLaunch = names["fast_launch"]
    return launch_function


@functools.cache
def _code(count: int, maps: tuple[str, ...], clustered: bool, reports: bool) -> Any:
    """Compile `fast_launch` for so many values, with maps by some of them, clusters, a report."""
    text = _TEXT.format(
        values=", ".join(f"v{at}" for at in range(count)),
        report=_REPORT if reports else "",
        maps="".join(_MAP.format(at=at, key=key) for at, key in enumerate(maps)),
        addresses="".join(f"map{at}.address, " for at in range(len(maps))),
        rest="rest(x)" if clustered else "rest",
    )
    return compile(text, GENERATED, "exec")
