"""The mapping between the scalar types of the IR and NumPy's dtypes, and tables keyed by dtype."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import ml_dtypes
import numpy as np

from tile.errors import ArgumentTypeError, TypeRuleError
from tile.ir import types
from tile.ir.types import SCALARS, Pointer, Scalar

if TYPE_CHECKING:
    import numpy.typing as npt

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Dtype: TypeAlias = np.dtype[Any]
DTYPES: dict[str, Dtype] = {
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
    # NumPy and ml_dtypes lack this format. The dtype names it and holds its bits; NumPy computes
    # nothing on it, so that no number is taken for another.
    "f8e4m3b15": np.dtype([("f8e4m3b15", "V1")]),
    "f8e4m3fnuz": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "f8e5m2fnuz": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}
SCALAR_OF_DTYPE: dict[Dtype, Scalar] = {DTYPES[name]: ty for name, ty in SCALARS.items()}
ADDRESS = np.dtype(np.int64)


def numpy_dtype(ty: Scalar | Pointer) -> Dtype:
    """Return the dtype of arrays that hold `ty`; pointers are 64-bit addresses."""
    return ADDRESS if isinstance(ty, Pointer) else DTYPES[ty.ir_name]


def scalar_of(dtype: npt.DTypeLike) -> Scalar:
    """Return the IR type of an array's elements. Raises `ArgumentTypeError` if there is none."""
    dtype = np.dtype(dtype)
    scalar = SCALAR_OF_DTYPE.get(dtype)
    if scalar is not None:
        return scalar
    notes = ["the array's byte order is not this machine's"] if not dtype.isnative else []
    raise ArgumentTypeError(
        f"dtype {dtype} has no type here; supported are {', '.join(map(str, SCALAR_OF_DTYPE))}",
        notes=notes,
    )


Unary: TypeAlias = Callable[[Array], Array]
Binary: TypeAlias = Callable[[Array, Array], Array]
V = TypeVar("V")


BOOL = DTYPES["i1"]
SIGNED = tuple(DTYPES[ty.ir_name] for ty in types.SIGNED)
UNSIGNED = tuple(DTYPES[ty.ir_name] for ty in types.UNSIGNED)
INTEGERS = SIGNED + UNSIGNED
FP8 = tuple(DTYPES[ty.ir_name] for ty in types.FP8)
EMULATED_FP8 = tuple(DTYPES[ty.ir_name] for ty in types.EMULATED_FP8)
ALL_FP8 = FP8 + EMULATED_FP8
F16, BF16, F32, F64 = FLOATS = tuple(DTYPES[ty.ir_name] for ty in types.FLOATS)
NARROW_FLOATS = tuple(DTYPES[ty.ir_name] for ty in types.NARROW_FLOATS)
BITS = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}


class ByDtype(dict[Dtype, V]):
    """Implementations of an operation by dtype; any other dtype raises `TypeRuleError`.

    It can be called, as the operation on operands of the first one's dtype.
    """

    def __init__(self, name: str, entries: Mapping[Dtype, V]) -> None:
        super().__init__(entries)
        self.name = name

    def __call__(self: ByDtype[Callable[..., Array]], x: Array, *others: Array) -> Array:
        return self[x.dtype](x, *others)

    def __missing__(self, dtype: Dtype) -> V:
        accepted = ", ".join(SCALAR_OF_DTYPE[key].ir_name for key in self)
        name = SCALAR_OF_DTYPE[dtype].ir_name if dtype in SCALAR_OF_DTYPE else str(dtype)
        raise TypeRuleError(f"{self.name} is not defined on {name}; it takes {accepted}")


class Choices(dict[str, V]):
    """Implementations by an attribute's value; any other value raises `TypeRuleError`."""

    def __init__(self, attribute: str, entries: Mapping[str, V]) -> None:
        super().__init__(entries)
        self.attribute = attribute

    def __missing__(self, key: str) -> V:
        raise TypeRuleError(f"{self.attribute} is one of {', '.join(self)}, not {key!r}")


def each(dtypes: Iterable[Dtype], value: V) -> dict[Dtype, V]:
    """Return a table with the same entry for several dtypes."""
    return dict.fromkeys(dtypes, value)


def quiet() -> np.errstate:
    """Return a context manager that suppresses NumPy's floating-point and division warnings.

    The functions of this package do not use it themselves, since entering it takes as long as a
    small operation: a caller enters it once around many calls. Overflow, division by zero and
    invalid operations have defined results here and are not errors.
    """
    return np.errstate(all="ignore")
