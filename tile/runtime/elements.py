"""Element types of arrays: the mapping from NumPy dtypes to IR scalars, and its errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from tile.errors import ArgumentTypeError
from tile.ir.dtypes import SCALARS
from tile.ir.types import Scalar

Array = np.ndarray[Any, np.dtype[Any]]
DType = np.dtype[Any]

NAMES = ", ".join(dtype.name for dtype in SCALARS)


def element_type(dtype: DType, label: str) -> Scalar:
    """Return the scalar type of elements of `dtype`.

    Raises `ArgumentTypeError`, naming `label`, for dtypes that kernels do not support.
    """
    scalar = SCALARS.get(dtype)
    if scalar is None:
        raise ArgumentTypeError(f"{label} has dtype {dtype}; {_advice(dtype)}")
    return scalar


def _advice(dtype: DType) -> str:
    if dtype.names is not None:
        return f"kernels take no structured arrays: pass a field of it, as in x[{dtype.names[0]!r}]"
    if not dtype.isnative:
        return (
            "its bytes are in the other order than this machine's: "
            "convert it with x.astype(x.dtype.newbyteorder('='))"
        )
    if dtype.kind == "O":
        return f"kernels work on numbers, not on Python objects: convert it, as in {_EXAMPLE}"
    if dtype.kind == "c":
        return (
            "kernels have no complex numbers: pass x.real and x.imag, "
            f"or x.view(np.float{dtype.itemsize * 4}), which alternates them"
        )
    return f"kernels work on {NAMES}: convert it, as in {_EXAMPLE}"


_EXAMPLE = "x.astype(np.float32)"
