"""Dot products of tiles, on BLAS.

Products of f16, bf16 and fp8 elements are exact in f32 (within its range) and summed in f32;
products of 8-bit integers are summed exactly. BLAS chooses the order of a float sum, so float
results are not reproducible bit for bit: the error of a sum of K terms is at most K roundings of
its largest partial sum.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tile.ir.numpy_dtypes import (
    BF16,
    F32,
    F64,
    FP8,
    NARROW_FLOATS,
    SIGNED,
    UNSIGNED,
    Array,
    Binary,
    ByDtype,
    Choices,
    Unary,
    each,
)
from tile.ir.semantics.cast import narrow, widen

INT8 = (SIGNED[0], UNSIGNED[0])
ROWS = 64  # rows of a matmul that keep BLAS busy
SERIAL = 1 << 18  # multiplications of a matmul up to which OpenBLAS starts no threads


def dot(a: Array, b: Array, acc: Array | None = None, input_precision: str = "ieee") -> Array:
    """Return a @ b + acc over the last two axes: (..., M, K), (..., K, N) and (..., M, N).

    Leading axes have equal extents, except that the program axis may have extent 1. Operands are
    f16, bf16, fp8, f32, f64 or 8-bit integers. `acc` is f32 (f64, i32), or f16 or bf16 and then
    rounded once, after the sum; without `acc` the result is f32, f64 or i32. i32 sums wrap.

    `input_precision` applies to f32 operands and is ignored for others:

        ieee    no change
        tf32    rounded to 10 bits of mantissa, ties away from zero
        tf32x3  split into two tf32 terms; the product of the small terms is dropped (2^-21)
        bf16x3  split into two bf16 terms, likewise (2^-16)
        bf16x6  split into three bf16 terms; the six largest products are summed (2^-23)

    The relative error of a product is in parentheses.
    """
    result = _DOT[a.dtype](a, b, input_precision)
    if acc is None:
        return result
    if acc.dtype in NARROW_FLOATS:
        return narrow(result + widen(acc), acc.dtype)
    if acc.shape[0] > result.shape[0]:
        return result + acc
    result += acc
    return result


def round_to_tf32(x: Array) -> Array:
    """Round f32 values to 10 bits of mantissa, ties away from zero (PTX: `cvt.rna.tf32`)."""
    bits = x.view(np.uint32) + np.uint32(0x1000)
    bits &= np.uint32(0xFFFFE000)
    rounded: Array = bits.view(F32)
    nan = np.isnan(x)
    if nan.any():
        rounded = np.where(nan, x, rounded)
    return rounded


def truncate_mantissa(x: Array, bits: int) -> Array:
    """Truncate f32 values to `bits` bits of mantissa, as tensor cores do."""
    truncated: Array = (x.view(np.uint32) & np.uint32(-1 << 23 - bits & 0xFFFFFFFF)).view(F32)
    nan = np.isnan(x)
    return np.where(nan, x, truncated) if nan.any() else truncated


def _round_to_bf16(x: Array) -> Array:
    return x.astype(BF16).astype(F32)


def _matmul(a: Array, b: Array) -> Array:
    """Return NumPy's matmul, with several programs stacked into one if they share `b`.

    At most `ROWS` rows are stacked. More is no faster, and a larger matmul makes OpenBLAS use
    threads, which is many times slower if another process keeps a core busy.
    """
    a, b = _packed(a), _packed(b)
    rows, depth = a.shape[-2:]
    columns = b.shape[-1]
    programs = a.shape[0] if a.ndim > 2 else 1
    group = min(programs, ROWS // rows, SERIAL // (rows * depth * columns))
    if group < 2 or b.size != depth * columns or not a.flags.c_contiguous:
        separate: Array = np.matmul(a, b)
        return separate
    whole = programs - programs % group
    shared = b.reshape(depth, columns)
    result = np.empty((*a.shape[:-1], columns), a.dtype)
    stacked = a[:whole].reshape(-1, group * rows, depth)
    np.matmul(stacked, shared, out=result[:whole].reshape(-1, group * rows, columns))
    np.matmul(a[whole:], shared, out=result[whole:])
    return result


def _packed(x: Array) -> Array:
    """Return `x` itself if BLAS can read its matrices (contiguous along one axis), else a copy."""
    return x if min(x.strides[-2:]) == x.itemsize else np.ascontiguousarray(x)


def _dot_int8(a: Array, b: Array, input_precision: str) -> Array:
    """Multiply in floats, as BLAS has no integers: f32 is exact up to 2^24, and f64 always is."""
    largest = a.shape[-1] * _magnitude(a) * _magnitude(b)
    wide = F32 if largest <= 1 << 24 else F64
    total = _matmul(a.astype(wide), b.astype(wide))
    return (total if largest < 1 << 31 else total.astype(np.int64)).astype(np.int32)


def _magnitude(x: Array) -> int:
    return 1 << 7 if x.dtype == INT8[0] else 1 << 8


def _rounded(rounding: Unary) -> Binary:
    return lambda a, b: _matmul(rounding(a), rounding(b))


def _split_dot(rounding: Unary, count: int, pairs: tuple[tuple[int, int], ...]) -> Binary:
    """Return a dot of operands split into `count` terms: `pairs` of terms, then the largest two."""

    def apply(a: Array, b: Array) -> Array:
        a_terms, b_terms = _split(a, rounding, count), _split(b, rounding, count)
        rest = sum(_matmul(a_terms[i], b_terms[j]) for i, j in pairs)
        # The small term of an infinite operand is NaN, and so are its products with zero.
        return _matmul(a_terms[0], b_terms[0]) + np.where(np.isfinite(rest), rest, np.float32(0))

    return apply


def _split(x: Array, rounding: Unary, count: int) -> list[Array]:
    """Split `x` into a sum of `count` rounded terms, the largest first."""
    terms = [rounding(x)]
    while len(terms) < count:
        x = x - terms[-1]
        terms.append(rounding(x))
    return terms


_SMALL_OF_TWO = ((1, 0), (0, 1))
_SMALL_OF_THREE = ((1, 1), (2, 0), (0, 2), *_SMALL_OF_TWO)
_F32_DOT: Choices[Binary] = Choices(
    "input_precision",
    {
        "ieee": _matmul,
        "tf32": _rounded(round_to_tf32),
        "tf32x3": _split_dot(round_to_tf32, 2, _SMALL_OF_TWO),
        "bf16x3": _split_dot(_round_to_bf16, 2, _SMALL_OF_TWO),
        "bf16x6": _split_dot(_round_to_bf16, 3, _SMALL_OF_THREE),
    },
)
_DOT: ByDtype[Callable[[Array, Array, str], Array]] = ByDtype(
    "dot",
    {
        # f32 holds the products of narrow floats exactly
        **each((*NARROW_FLOATS, *FP8), lambda a, b, precision: _matmul(widen(a), widen(b))),
        F32: lambda a, b, precision: _F32_DOT[precision](a, b),
        F64: lambda a, b, precision: _matmul(a, b),
        **each(INT8, _dot_int8),
    },
)
