"""Launch stubs: built-in functions that convert the arguments of a call and launch a kernel.

A `Block` is the memory that a launch passes to the driver: its first content, and the moves that
write arguments of the call into it. Machine code does that in a block on its own stack, so threads,
signal handlers and finalizers may launch at the same time. It releases the GIL while the driver
runs, which waits when many launches are pending. The code is the same for all kernels,
`launch_stub.ll`, and reads a table. LLVM compiles it once; the compilation cache keeps it for other
processes, which load no LLVM for it.

Where there is no memory for code (other systems than Linux, or a policy of the system), and in
Python without a GIL, where this is not tested, a function of Python does the same in 2 us more.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tile._lazy import lazy_import
from tile.backends.capabilities import FastLaunch
from tile.cache import CacheEntry, current_cache

if TYPE_CHECKING:
    from tile.backends.nvptx.host_compiler import machine_code
else:
    machine_code = lazy_import("tile.backends.nvptx.host_compiler", "machine_code")

# A CUlaunchConfig: the extents of the grid; the extents of a program and its bytes of shared
# memory; the stream; the address of the attributes, and their number.
CONFIG = struct.Struct("=7I4xQ16s")
_STREAM = 32  # the stream's offset

_FORMATS = "Qqif?"  # by their numbers in `launch_stub.ll`

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

    format: as in `struct`, one of `_FORMATS`.
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

    report: the record of a kernel with assertions; it launches while the first number is 0.
    attributes: alive as long as the stub, since the block has their address.
    """

    launch: Any
    function: int
    stream: Callable[[], int]
    report: ctypes.Array[ctypes.c_int32]
    attributes: Any


def launch_stub(block: Block, driver: Driver) -> FastLaunch:
    """Return a function of `block.arguments` arguments that launches; see `FastLaunchable.bind`."""
    code = _code()
    return _python_stub(block, driver) if code is None else code.stub(block, driver)


class _Code:
    """The machine code, which lives as long as the process."""

    def __init__(self, code: bytes) -> None:
        self._memory = _executable(code)
        self._name = ctypes.create_string_buffer(b"fast_launch")
        start = np.frombuffer(self._memory, np.uint8).ctypes.data
        fastcall = 0x0080
        method = struct.pack("=QQi4xQ", ctypes.addressof(self._name), start, fastcall, 0)
        self._method = ctypes.create_string_buffer(method)  # a PyMethodDef
        python = ctypes.pythonapi
        self._api = [_address(getattr(python, name)) for name in _API]
        types = ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p
        self._new = ctypes.PYFUNCTYPE(*types)(("PyCFunction_NewEx", python))

    def stub(self, block: Block, driver: Driver) -> FastLaunch:
        table = [
            *self._api,
            _address(driver.launch),
            driver.function,
            id(driver.stream),
            ctypes.addressof(driver.report),
            block.arguments,
            len(block.moves),
            len(block.content) // _WORD,
            block.addresses,
            block.config,
        ]
        moves = [
            struct.pack("=IIiI", _FORMATS.index(one.format), one.argument, one.item, one.offset)
            for one in block.moves
        ]
        data = struct.pack(f"={len(table)}Q", *table) + b"".join(moves) + block.content
        stub: FastLaunch = self._new(ctypes.addressof(self._method), (data, driver), None)
        return stub


@functools.cache
def _code() -> _Code | None:
    """Return the machine code; None if there cannot be any."""
    if sys.implementation.name != "cpython" or "t" in getattr(sys, "abiflags", ""):
        return None
    try:
        return _Code(_machine_code())
    except (AttributeError, ImportError, OSError):
        return None


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _executable(code: bytes) -> mmap.mmap:
    """Return memory with the code, mapped from a file in memory: it is never writable."""
    file = os.memfd_create("tile-launch-stub")
    try:
        os.write(file, code)
        return mmap.mmap(file, len(code), prot=mmap.PROT_READ | mmap.PROT_EXEC)
    finally:
        os.close(file)


def _machine_code() -> bytes:
    """Return the code from the compilation cache, or compile it."""
    text = Path(__file__).with_suffix(".ll").read_text()
    text = text.replace("TUPLE_ITEMS", str(tuple.__basicsize__))
    text = text.replace("BYTES_DATA", str(bytes.__basicsize__ - 1))
    machine = os.uname().machine
    key = f"launch stub\n{machine}\n{text}"
    cache = current_cache()
    entry = None if cache is None else cache.get(key)
    if entry is not None:
        return entry.parts["code"]
    code = machine_code(text)
    if cache is not None:
        cache.put(key, CacheEntry(f"launch stub for {machine}", parts={"code": code}))
    return code


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
