"""NumPy's dtypes and the IR's: which array holds which type, and tables keyed by dtype."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tile.errors import ArgumentTypeError, TypeRuleError
from tile.ir import types
from tile.ir.types import Pointer, Scalar

Array: TypeAlias = npt.NDArray[Any]
Dtype: TypeAlias = np.dtype[Any]
Unary: TypeAlias = Callable[[Array], Array]
Binary: TypeAlias = Callable[[Array, Array], Array]
V = TypeVar("V")

_BY_NAME: dict[str, Dtype] = {
    "i1": np.dtype(np.bool_),
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "u8": np.dtype(np.uint8),
    "u16": np.dtype(np.uint16),
    "u32": np.dtype(np.uint32),
    "u64": np.dtype(np.uint64),
    "f8e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}
_SCALARS: dict[Dtype, Scalar] = {_BY_NAME[ty.name]: ty for ty in types.ALL}
ADDRESS = np.dtype(np.int64)

BOOL = _BY_NAME["i1"]
SIGNED = tuple(_BY_NAME[ty.name] for ty in types.SIGNED)
UNSIGNED = tuple(_BY_NAME[ty.name] for ty in types.UNSIGNED)
INTEGERS = SIGNED + UNSIGNED
FP8 = tuple(_BY_NAME[ty.name] for ty in types.FP8)
F16, BF16, F32, F64 = FLOATS = tuple(_BY_NAME[ty.name] for ty in types.FLOATS)
BITS = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}


class ByDtype(dict[Dtype, V]):
    """What an operation does on arrays of each dtype; another dtype is a `TypeRuleError`."""

    def __init__(self, name: str, entries: Mapping[Dtype, V]) -> None:
        super().__init__(entries)
        self.name = name

    def __missing__(self, dtype: Dtype) -> V:
        known = ", ".join(_SCALARS[key].name for key in self)
        found = _SCALARS[dtype].name if dtype in _SCALARS else str(dtype)
        raise TypeRuleError(f"{self.name} is not defined on {found}; it takes {known}")


class Choices(dict[str, V]):
    """The values of an attribute; asking for another one is a `TypeRuleError` that lists them."""

    def __init__(self, attribute: str, entries: Mapping[str, V]) -> None:
        super().__init__(entries)
        self.attribute = attribute

    def __missing__(self, key: str) -> V:
        raise TypeRuleError(f"{self.attribute} is one of {', '.join(self)}, not {key!r}")


def each(dtypes: Iterable[Dtype], value: V) -> dict[Dtype, V]:
    """The same entry for several dtypes."""
    return dict.fromkeys(dtypes, value)


def quiet() -> np.errstate:
    """A context manager inside which NumPy gives no floating-point or division warnings.

    The functions of this package do not guard themselves, since entering costs as much as a small
    operation does: whoever runs many of them holds this once around all. Overflow, division by zero
    and invalid operations are defined results here and not errors.
    """
    return np.errstate(all="ignore")


def numpy_dtype(ty: Scalar | Pointer) -> Dtype:
    """The dtype of arrays that hold `ty`; pointers are 64-bit addresses."""
    return ADDRESS if isinstance(ty, Pointer) else _BY_NAME[ty.name]


def scalar_of(dtype: npt.DTypeLike) -> Scalar:
    """The type of an array's elements; `ArgumentTypeError` for a dtype that no type has."""
    found = np.dtype(dtype)
    scalar = _SCALARS.get(found)
    if scalar is not None:
        return scalar
    notes = ["the array's byte order is not this machine's"] if not found.isnative else []
    raise ArgumentTypeError(
        f"dtype {found} has no type here; supported are {', '.join(map(str, _SCALARS))}",
        notes=notes,
    )
