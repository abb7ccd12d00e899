"""Members of types that kernels and libraries read: `x.dtype.name`, `x.dtype.is_int8()`."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, NamedTuple


class FloatFormat(NamedTuple):
    """The bits of a float's mantissa, without the implicit one, and the bias of its exponent."""

    mantissa_width: int
    exponent_bias: int


FLOAT_FORMATS: dict[str, FloatFormat] = {
    "fp8e4nv": FloatFormat(3, 7),
    "fp8e5": FloatFormat(2, 15),
    "fp8e4b15": FloatFormat(3, 15),
    "fp8e4b8": FloatFormat(3, 8),
    "fp8e5b16": FloatFormat(2, 16),
    "fp16": FloatFormat(10, 15),
    "bf16": FloatFormat(7, 127),
    "fp32": FloatFormat(23, 127),
    "fp64": FloatFormat(52, 1023),
}


class Signedness(Enum):
    """The signedness of an integer type."""

    SIGNED = 0
    UNSIGNED = 1


def float_format(name: str) -> FloatFormat:
    """Return the format of a float. Raises `AttributeError` for another type: it has none."""
    if name not in FLOAT_FORMATS:
        raise AttributeError(f"{name} is not a float: it has no mantissa and exponent")
    return FLOAT_FORMATS[name]


def _is_named(name: str) -> Callable[[NamedType], bool]:
    """Return the method `is_<name>`."""

    def is_named(self: NamedType) -> bool:
        return self.name == name

    is_named.__name__ = f"is_{name}"
    is_named.__qualname__ = f"NamedType.is_{name}"
    return is_named


class NamedType:
    """The queries that depend on the name of a type alone."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def name(self) -> str: ...

    is_int1 = _is_named("int1")
    is_int8 = _is_named("int8")
    is_int16 = _is_named("int16")
    is_int32 = _is_named("int32")
    is_int64 = _is_named("int64")
    is_uint8 = _is_named("uint8")
    is_uint16 = _is_named("uint16")
    is_uint32 = _is_named("uint32")
    is_uint64 = _is_named("uint64")
    is_fp8e4nv = _is_named("fp8e4nv")
    is_fp8e4b8 = _is_named("fp8e4b8")
    is_fp8e4b15 = _is_named("fp8e4b15")
    is_fp8e5 = _is_named("fp8e5")
    is_fp8e5b16 = _is_named("fp8e5b16")
    is_fp16 = _is_named("fp16")
    is_bf16 = _is_named("bf16")
    is_fp32 = _is_named("fp32")
    is_fp64 = _is_named("fp64")
    is_void = _is_named("void")

    SINT_TYPES: ClassVar = ["int8", "int16", "int32", "int64"]
    UINT_TYPES: ClassVar = ["int1", "uint8", "uint16", "uint32", "uint64"]
    FP_TYPES: ClassVar = list(FLOAT_FORMATS)
    STANDARD_FP_TYPES: ClassVar = ["fp16", "bf16", "fp32", "fp64"]
    OTHER_TYPES: ClassVar = ["void"]

    @classmethod
    def is_dtype(cls, type_str: str) -> bool:
        """Return True if a text is the name of a scalar type or of `tl.void`."""
        groups = (cls.SINT_TYPES, cls.UINT_TYPES, cls.FP_TYPES, cls.OTHER_TYPES)
        return any(type_str in names for names in groups)

    def is_const(self) -> bool:
        """Return False: the type of a pointer does not tell whether it is only read through."""
        return False

    @property
    def cache_key_part(self) -> str:
        return self.name

    def codegen_name(self) -> str:
        """Return the name in `tl`: `float32` for the type whose name is `fp32`."""
        for prefix, spelled in (("fp", "float"), ("bf", "bfloat")):
            if self.name.startswith(prefix):
                return spelled + self.name.removeprefix(prefix)
        return self.name
