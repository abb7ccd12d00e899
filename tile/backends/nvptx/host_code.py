"""Built-in functions of Python made of LLVM IR, for what each launch does on the host.

The code of a file of IR is the same for all functions made of it. Each has its own table of data,
which the code finds in the first item of `self`, a tuple. It refers to no symbol: addresses of
functions are in the table. LLVM compiles it once; the compilation cache keeps it for other
processes, which load no LLVM for it.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

import numpy as np

from tile._lazy import lazy_import
from tile.cache import CacheEntry, current_cache

if TYPE_CHECKING:
    from tile.backends.nvptx.host_compiler import machine_code
else:
    machine_code = lazy_import("tile.backends.nvptx.host_compiler", "machine_code")

# Of a system without files in memory, an installation without LLVM, a policy of the system, and an
# architecture for which LLVM makes no such code.
NO_CODE = (AttributeError, ImportError, OSError, RuntimeError)

_METH_FASTCALL, _METH_KEYWORDS = 0x0080, 0x0002
_WORD = 8  # bytes

# Offsets in objects, which depend on Python's version.
_LAYOUT = {
    "TUPLE_ITEMS": tuple.__basicsize__,
    "TUPLE_SIZE": object.__basicsize__,
    "BYTES_DATA": bytes.__basicsize__ - 1,
    "OBJECT_TYPE": object.__basicsize__ - 8,
}


class HostCode:
    """The machine code of a file, which lives as long as the process, and what makes functions.

    api: the functions of Python whose addresses begin each table. named: the functions take named
    arguments, too.
    """

    def __init__(self, file: str, api: Sequence[str], *, named: bool = False) -> None:
        """Raise one of `NO_CODE` where there can be no such code."""
        self._memory = _executable(_cached_code(file))
        self._name = ctypes.create_string_buffer(file.encode())
        start = np.frombuffer(self._memory, np.uint8).ctypes.data
        flags = _METH_FASTCALL | _METH_KEYWORDS * named
        method = struct.pack("=QQi4xQ", ctypes.addressof(self._name), start, flags, 0)
        self._method = ctypes.create_string_buffer(method)  # a PyMethodDef
        self._api = [address_of(getattr(ctypes.pythonapi, name)) for name in api]
        types = ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p
        self._new = ctypes.PYFUNCTYPE(*types)(("PyCFunction_NewEx", ctypes.pythonapi))

    def function(self, words: Sequence[int], data: bytes, alive: Any) -> Any:
        """Return a function whose table has these words and data, and keeps objects alive."""
        table = struct.pack(f"={len(self._api) + len(words)}Q", *self._api, *words) + data
        return self._new(ctypes.addressof(self._method), (table, alive), None)


@functools.cache
def host_code(file: str, *api: str, named: bool = False) -> HostCode | None:
    """Return the code of a file; None where the system gives no memory for code, or no LLVM.

    Without a GIL it would be right as well, but that is not tested.
    """
    if sys.implementation.name != "cpython" or "t" in getattr(sys, "abiflags", ""):
        return None
    try:
        return HostCode(file, api, named=named)
    except NO_CODE:
        return None


def address_of(function: Any) -> int:
    """Return the address of a function of ctypes."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@functools.cache
def member_offset(kind: type, name: str) -> int:
    """Return the offset of a member of `__slots__` in a class's objects; 0 if it is none."""
    member: Any = kind.__dict__.get(name)
    if not isinstance(member, MemberDescriptorType):
        return 0
    value = object()
    probe: Any = object.__new__(kind)
    member.__set__(probe, value)
    size = (kind.__basicsize__ - object.__basicsize__) // _WORD
    words = (ctypes.c_uint64 * size).from_address(id(probe) + object.__basicsize__)
    offsets = [at for at, word in enumerate(words) if word == id(value)]
    return object.__basicsize__ + _WORD * offsets[0] if len(offsets) == 1 else 0


def _executable(code: bytes) -> mmap.mmap:
    """Return memory with the code, mapped from a file in memory: it is never writable."""
    file = os.memfd_create("tile-host-code")
    try:
        os.write(file, code)
        return mmap.mmap(file, len(code), prot=mmap.PROT_READ | mmap.PROT_EXEC)
    finally:
        os.close(file)


def _cached_code(file: str) -> bytes:
    """Return the machine code of a file from the compilation cache, or compile it."""
    text = Path(__file__).with_name(f"{file}.ll").read_text()
    for name, offset in _LAYOUT.items():
        text = text.replace(name, str(offset))
    machine = os.uname().machine
    key = f"host code\n{machine}\n{text}"
    cache = current_cache()
    entry = None if cache is None else cache.get(key)
    if entry is not None:
        return entry.parts["code"]
    code = machine_code(text)
    if cache is not None:
        cache.put(key, CacheEntry(f"{file} for {machine}", parts={"code": code}))
    return code
