"""The mapping between NumPy's dtypes and the IR's types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import ml_dtypes
import numpy as np

from tile.errors import ArgumentTypeError
from tile.ir.types import ALL, Pointer, Scalar

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
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}
SCALARS: dict[Dtype, Scalar] = {DTYPES[ty.name]: ty for ty in ALL}
ADDRESS = np.dtype(np.int64)


def numpy_dtype(ty: Scalar | Pointer) -> Dtype:
    """Return the dtype of arrays that hold `ty`; pointers are 64-bit addresses."""
    return ADDRESS if isinstance(ty, Pointer) else DTYPES[ty.name]


def scalar_of(dtype: npt.DTypeLike) -> Scalar:
    """Return the IR type of an array's elements. Raises `ArgumentTypeError` if there is none."""
    dtype = np.dtype(dtype)
    scalar = SCALARS.get(dtype)
    if scalar is not None:
        return scalar
    notes = ["the array's byte order is not this machine's"] if not dtype.isnative else []
    raise ArgumentTypeError(
        f"dtype {dtype} has no type here; supported are {', '.join(map(str, SCALARS))}",
        notes=notes,
    )
