"""The mapping between the scalar types of the IR and NumPy's dtypes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import ml_dtypes
import numpy as np

from tile.errors import ArgumentTypeError
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
