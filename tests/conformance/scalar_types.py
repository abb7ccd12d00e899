"""Kernels in Triton-C that do with one scalar type all that a program can do with a type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np

from tile.frontend.triton_c.c_types import SPELLINGS, promoted
from tile.ir import semantics
from tile.ir.types import ALL, I1, Scalar

Array = np.ndarray[Any, Any]

COUNT = 16
CONSTANTS = (2.5, 7)  # what the kernel's two constants are before they are converted
RESULTS = ("parameters", "constants", "elements", "sums")


def text(ty: Scalar) -> str:
    """Return a kernel with a parameter, constants, tiles and conversions of a type.

    Parameters: a scalar, a pointer to what is loaded, pointers for `RESULTS`, and a pointer for each
    type to which the loaded tile is converted.
    """
    name = SPELLINGS[ty]
    results = ", ".join(f"{name}* {result}" for result in RESULTS[:-1])
    outputs = ", ".join(f"{SPELLINGS[to]}* to_{to}" for to in ALL)
    conversions = "\n    ".join(f"*(to_{to} + i) = ({SPELLINGS[to]})v;" for to in ALL)
    scalar, tile = CONSTANTS
    return f"""
kernel void f({name} x, read_only {name}* loaded, {results}, {SPELLINGS[promoted(ty)]}* sums,
              {outputs}) {{
    int i[{COUNT}] = 0 ... {COUNT};
    {name} v[{COUNT}] = *(loaded + i);
    {name} c = {scalar};
    {name} t[{COUNT}] = {tile};
    *(parameters + i) = x;
    *(constants + i) = i < {COUNT // 2} ? c : t;
    *(elements + i) = v;
    *(sums + i) = v + c;
    {conversions}
}}
"""


def values(ty: Scalar) -> Array:
    """Return what is loaded: small numbers, and the least and the greatest of the type."""
    if ty.is_bool():
        return np.arange(COUNT) % 2 == 1
    dtype = semantics.numpy_dtype(ty)
    if ty.is_int():
        small = [0, 1, 2, 3, 5, 7, 64, 100, *((-1, -2, -3, -100) if ty.signed else (4, 6, 8, 9))]
        numbers = np.array([*small, ty.min_value, ty.max_value], dtype)
    else:
        limits = ml_dtypes.finfo(dtype)
        small = [0.0, 0.25, 0.5, 1.0, 1.5, 1.75, 2.5, 3.5, 7.0, 96.0, -0.0, -0.5, -1.5, -7.0]
        numbers = np.array([*small, float(limits.min), float(limits.max)], dtype)
    return np.resize(numbers, COUNT)


def parameter(ty: Scalar) -> Any:
    """Return the scalar argument, of NumPy's type."""
    return semantics.numpy_dtype(ty).type(1 if ty.is_bool() else 3)


def outputs(ty: Scalar) -> Iterator[Array]:
    """Yield arrays for the results, filled with a number that none of them has."""
    for to in (*([ty] * 3), promoted(ty), *ALL):
        yield np.full(COUNT, 0 if to.is_bool() else 11, semantics.numpy_dtype(to))


def expected(ty: Scalar) -> Iterator[tuple[str, Array, Array]]:
    """Yield the name of each result, its values, and where C defines them."""
    loaded, dtype = values(ty), semantics.numpy_dtype(ty)
    everywhere = np.ones(COUNT, np.bool_)
    constants = [converted(np.array([value]), ty)[0] for value in CONSTANTS]
    yield "parameters", np.full(COUNT, parameter(ty), dtype), everywhere
    yield "constants", np.repeat(np.array(constants, dtype), COUNT // 2), everywhere
    yield "elements", loaded, everywhere
    wide = semantics.numpy_dtype(promoted(ty))
    with np.errstate(over="ignore"):
        sums = loaded.astype(wide) + np.array(constants[0]).astype(wide)
    yield "sums", sums, everywhere
    for to in ALL:
        yield f"to_{to}", converted(loaded, to), holds(loaded, to)


def converted(numbers: Array, to: Scalar) -> Array:
    """Convert as C does: to `bool` by comparison with 0, to integers toward 0 and modulo 2**n."""
    dtype = semantics.numpy_dtype(to)
    if to == I1:
        return numbers != 0
    with np.errstate(all="ignore"):
        if to.is_int() and numbers.dtype.kind not in "iub":
            return np.trunc(numbers.astype(np.float64)).astype(np.int64).astype(dtype)
        return numbers.astype(dtype)


def holds(numbers: Array, to: Scalar) -> Array:
    """Return where a type has a value for a number, as C's conversions need; integers wrap."""
    if to.is_bool() or (to.is_int() and numbers.dtype.kind in "iub"):
        return np.ones(len(numbers), np.bool_)
    exact = [float(number) for number in numbers]
    if to.is_int():
        return np.array([to.min_value <= int(number) <= to.max_value for number in exact])
    greatest = float(ml_dtypes.finfo(semantics.numpy_dtype(to)).max)
    return np.array([abs(number) <= greatest for number in exact])
