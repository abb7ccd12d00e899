"""The C structures of XLA's foreign function interface (FFI), version 0.x, as far as they are read.

XLA calls a handler with the address of a call frame, which has the buffers, the attributes and the
functions of the interface. Every structure starts with its size, which grows when XLA adds fields
at the end, and with a list of extensions.
"""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

MAJOR = 0  # of the interface that these structures are for
EXECUTE = 3  # the stage of a call frame in which a handler runs
METADATA = 1  # the type of the extension by which XLA asks what a handler is
INTERNAL = 13  # an error code

_Pointer = ctypes.c_void_p
_HEADER = [("struct_size", ctypes.c_size_t), ("extension", _Pointer)]


class _Structure(ctypes.Structure):
    """A structure with the two common fields."""

    struct_size: int
    extension: int | None


def _structure(name: str, *fields: tuple[str, Any]) -> Any:
    return type(name, (_Structure,), {"_fields_": [*_HEADER, *fields]})


def _functions(*names: str) -> list[tuple[str, Any]]:
    return [(name, _Pointer) for name in names]


_Version = _structure("_Version", ("major", ctypes.c_int), ("minor", ctypes.c_int))
_Api = _structure(
    "_Api",
    ("version", _Version),
    ("internal", _Pointer),
    *_functions("error_create", "error_get_message", "error_destroy"),
    *_functions("handler_register", "stream_get"),
)
_Buffer = _structure(
    "_Buffer",
    ("dtype", ctypes.c_int),
    ("data", _Pointer),
    ("rank", ctypes.c_int64),
    ("dims", ctypes.POINTER(ctypes.c_int64)),
)
_Buffers = _structure(
    "_Buffers",
    ("size", ctypes.c_int64),
    ("types", _Pointer),
    ("items", ctypes.POINTER(ctypes.POINTER(_Buffer))),
)


class _Bytes(ctypes.Structure):
    _fields_ = (("start", _Pointer), ("size", ctypes.c_size_t))


_Attributes = _structure(
    "_Attributes",
    ("size", ctypes.c_int64),
    ("types", _Pointer),
    ("names", _Pointer),
    ("values", ctypes.POINTER(ctypes.POINTER(_Bytes))),
)
_CallFrame = _structure(
    "_CallFrame",
    ("api", ctypes.POINTER(_Api)),
    ("context", _Pointer),
    ("stage", ctypes.c_int),
    ("arguments", _Buffers),
    ("results", _Buffers),
    ("attributes", _Attributes),
)


class _Metadata(ctypes.Structure):
    _fields_ = (("struct_size", ctypes.c_size_t), ("version", _Version))


class _Extension(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("type", ctypes.c_int),
        ("next", _Pointer),
        ("metadata", ctypes.POINTER(_Metadata)),  # of an extension of that type
    )


_ErrorCreate = _structure("_ErrorCreate", ("message", ctypes.c_char_p), ("code", ctypes.c_int))
_StreamGet = _structure("_StreamGet", ("context", _Pointer), ("stream", _Pointer))
_Function = ctypes.CFUNCTYPE(_Pointer, _Pointer)

Handler = ctypes.CFUNCTYPE(_Pointer, _Pointer)
"""The type of handlers: the address of a call frame to that of an error, None for success."""


@functools.cache
def _minor_version() -> int:
    """Return the minor version of XLA's interface, from the C header that JAX brings."""
    header = Path(jax.ffi.include_dir(), "xla", "ffi", "api", "c_api.h").read_text("utf-8")
    defined = re.search(r"#define XLA_FFI_API_MINOR (\d+)", header)
    return int(defined[1]) if defined else 0


@dataclass(frozen=True)
class Buffer:
    """Memory of an argument or a result of a call; `address` is 0 if it may be for an empty one."""

    address: int
    shape: tuple[int, ...]


class CallFrame:
    """A call of a handler by XLA, which is valid until the handler returns."""

    def __init__(self, address: int) -> None:
        self._frame = _CallFrame.from_address(address)

    def answers(self) -> bool:
        """Answer a question about the handler; return True if the frame was one, not a call."""
        address = self._frame.extension
        while address:
            extension = _Extension.from_address(address)
            if extension.type == METADATA:
                version = extension.metadata.contents.version
                # Fields are only added at the end, so the handler is of XLA's own minor version.
                version.major = MAJOR
                api = self._frame.api
                version.minor = api.contents.version.minor if api else _minor_version()
                return True
            address = extension.next
        return bool(self._frame.stage != EXECUTE)

    @property
    def arguments(self) -> list[Buffer]:
        return list(_buffers(self._frame.arguments))

    @property
    def results(self) -> list[Buffer]:
        return list(_buffers(self._frame.results))

    @property
    def text(self) -> str:
        """The only attribute, which is a text."""
        span = self._frame.attributes.values[0].contents
        return ctypes.string_at(span.start, span.size).decode()

    @property
    def stream(self) -> int:
        """The CUDA stream on which the call is made. Raises `RuntimeError` if there is none."""
        asked = _StreamGet(ctypes.sizeof(_StreamGet), None, self._frame.context, None)
        error = self._call("stream_get", asked)
        if error:
            self._call("error_destroy", _structure_of(error))
            raise RuntimeError("XLA has no stream for a launch")
        return int(asked.stream or 0)

    def error(self, message: str) -> int | None:
        """Return the address of a new error for XLA, which becomes its owner."""
        text = message.encode().replace(b"\0", b"?")
        asked = _ErrorCreate(ctypes.sizeof(_ErrorCreate), None, text, INTERNAL)
        return self._call("error_create", asked)

    def _call(self, name: str, argument: Any) -> int | None:
        function = _Function(getattr(self._frame.api.contents, name))
        address: int | None = function(ctypes.addressof(argument))
        return address


_ErrorDestroy = _structure("_ErrorDestroy", ("error", _Pointer))


def _structure_of(error: int) -> Any:
    return _ErrorDestroy(ctypes.sizeof(_ErrorDestroy), None, error)


def _buffers(buffers: Any) -> Iterator[Buffer]:
    for number in range(buffers.size):
        buffer = buffers.items[number].contents
        yield Buffer(int(buffer.data or 0), tuple(buffer.dims[: buffer.rank]))
