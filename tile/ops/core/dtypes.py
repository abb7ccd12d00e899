"""The dtypes that ops take."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from tile.ops.core.new_arrays import DType

F16, F32, F64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
BF16 = np.dtype(ml_dtypes.bfloat16)
I8, I32, I64 = np.dtype(np.int8), np.dtype(np.int32), np.dtype(np.int64)
FLOATS: tuple[DType, ...] = (F16, BF16, F32, F64)
INDICES: tuple[DType, ...] = (I32, I64)


def accumulator(dtype: DType) -> DType:
    """Return the type of the arithmetic on elements of `dtype`, as `widen` has it in kernels."""
    return F64 if dtype == F64 else F32
