"""Launch stubs: built-in functions that convert the arguments of a call and launch a kernel.

A `Block` is the memory that a launch passes to the driver: its first content, and the moves that
write arguments of the call into it. Machine code (`launch_stub.ll`) does that in a block on its own
stack, so threads, signal handlers and finalizers may launch at the same time. It releases the GIL
while the driver runs, which waits when many launches are pending.

Where there is no such code (`tile.backends.nvptx.host_code`), a function of Python does the same,
in 2 us more.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from tile.backends.capabilities import FastLaunch
from tile.backends.nvptx.host_code import HostCode, address_of, host_code

# A CUlaunchConfig: the extents of the grid; the extents of a program and its bytes of shared
# memory; the stream; the address of the attributes, and their number.
CONFIG = struct.Struct("=7I4xQ16s")
_STREAM = 32  # the stream's offset

MAP = "m"
_FORMATS = "Qqif?" + MAP  # by their numbers in `launch_stub.ll`

_API = (
    "PyLong_AsUnsignedLong",
    "PyLong_AsLong",
    "PyFloat_AsDouble",
    "PyObject_IsTrue",
    "PyErr_Occurred",
    "PyErr_Clear",
    "PyObject_CallNoArgs",
    "Py_DecRef",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
    "PyBool_FromLong",
)
_WORD = 8  # bytes


class Move(NamedTuple):
    """Write an argument of the call, or an item of it (unless -1), at an offset of the block.

    format: as in `struct`, one of `_FORMATS`; or `MAP`, for the address in a tensor map, to which
    the word after the map is added, and which the driver writes.
    """

    format: str
    argument: int
    item: int
    offset: int


class Block(NamedTuple):
    """The memory of a launch: addresses of the parameters, a CUlaunchConfig, and the parameters.

    arguments: their number in a call. content: whole words. addresses: the number of those at the
    beginning that are relative to the block. config: the offset of the CUlaunchConfig.
    """

    arguments: int
    content: bytes
    addresses: int
    config: int
    moves: tuple[Move, ...]


class Driver(NamedTuple):
    """The functions that a launch calls, and the handle of the kernel.

    replace: `cuTensorMapReplaceAddress`, for a block with tensor maps.
    report: the record of a kernel with assertions; it launches while the first number is 0.
    attributes: alive as long as the stub, since the block has their address.
    """

    launch: Any
    function: int
    stream: Callable[[], int]
    report: ctypes.Array[ctypes.c_int32]
    attributes: Any
    replace: Any = None


def has_native_stubs() -> bool:
    """Return True if stubs are machine code, which tensor maps in blocks need."""
    return host_code("launch_stub", *_API) is not None


def launch_stub(block: Block, driver: Driver) -> FastLaunch:
    """Return a function of `block.arguments` arguments that launches; see `FastLaunchable.bind`."""
    code = host_code("launch_stub", *_API)
    return _python_stub(block, driver) if code is None else _native_stub(code, block, driver)


def _native_stub(code: HostCode, block: Block, driver: Driver) -> FastLaunch:
    words = [
        address_of(driver.launch),
        driver.function,
        id(driver.stream),
        ctypes.addressof(driver.report),
        block.arguments,
        len(block.moves),
        len(block.content) // _WORD,
        block.addresses,
        block.config,
        0 if driver.replace is None else address_of(driver.replace),
    ]
    moves = [
        struct.pack("=IIiI", _FORMATS.index(one.format), one.argument, one.item, one.offset)
        for one in block.moves
    ]
    stub: FastLaunch = code.function(words, b"".join([*moves, block.content]), driver)
    return stub


def _python_stub(block: Block, driver: Driver) -> FastLaunch:
    relative = struct.unpack_from(f"={block.addresses}Q", block.content)
    addresses = struct.Struct(f"={block.addresses}Q")
    moves = [(struct.Struct(f"={one.format}").pack_into, *one[1:]) for one in block.moves]
    stream_at = block.config + _STREAM
    function = ctypes.c_void_p(driver.function)

    def launch(*arguments: Any) -> bool:
        if driver.report[0]:
            return False
        data = ctypes.create_string_buffer(block.content)
        start = ctypes.addressof(data)
        addresses.pack_into(data, 0, *[start + offset for offset in relative])
        try:
            for pack_into, argument, item, offset in moves:
                value = arguments[argument]
                pack_into(data, offset, value if item < 0 else value[item])
        except (OverflowError, struct.error):  # such as a float that is infinite in 32 bits
            return False
        struct.pack_into("=Q", data, stream_at, driver.stream())
        return not driver.launch(ctypes.byref(data, block.config), function, data, None)

    return launch
