"""Matrix products, on BLAS.

Products of f16, bf16 and fp8 operands are exact in f32 (within its range) and summed in f32, those
of 8-bit integers are summed exactly. BLAS chooses the order of a float sum, so that floats are not
reproducible to the bit: a sum of K terms is off by at most K roundings of its largest partial sum.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tile.ir.dtypes import Array
from tile.ir.numerics.dtypes import (
    BF16,
    F16,
    F32,
    F64,
    FP8,
    SIGNED,
    UNSIGNED,
    Binary,
    ByDtype,
    Choices,
    Unary,
    each,
)
from tile.ir.numerics.narrow import narrow, widen

NARROW = frozenset((F16, BF16))
INT8 = (SIGNED[0], UNSIGNED[0])
ROWS = 64  # rows of a product that keep BLAS busy
SERIAL = 1 << 18  # multiplications up to which OpenBLAS starts no threads


def dot(a: Array, b: Array, acc: Array | None = None, input_precision: str = "ieee") -> Array:
    """The product a @ b + acc over the last two axes: (..., M, K), (..., K, N) and (..., M, N).

    Leading axes have equal extents, apart from the program axis, where 1 stands for any. Operands
    are f16, bf16, fp8, f32, f64 or 8-bit integers. `acc` is f32 (f64, i32), or f16 or bf16 and then
    rounded once, after the sum; without `acc` the result is f32, f64 or i32. i32 sums wrap.

    `input_precision` says what becomes of f32 operands and is of no effect on others:

        ieee    nothing
        tf32    rounded to 10 bits of mantissa, ties away from zero
        tf32x3  a sum of two tf32 parts; the product of the lesser parts is left out (2^-21)
        bf16x3  a sum of two bf16 parts, likewise (2^-16)
        bf16x6  a sum of three bf16 parts; the six greatest products are summed (2^-23)

    The relative error of a product is in parentheses.
    """
    product = _PRODUCT[a.dtype](a, b, input_precision)
    if acc is None:
        return product
    if acc.dtype in NARROW:
        return narrow(product + widen(acc), acc.dtype)
    if acc.shape[0] > product.shape[0]:
        return product + acc
    product += acc
    return product


def round_to_tf32(x: Array) -> Array:
    """f32 values rounded to 10 bits of mantissa, ties away from zero (PTX: `cvt.rna.tf32`)."""
    bits = x.view(np.uint32) + np.uint32(0x1000)
    bits &= np.uint32(0xFFFFE000)
    rounded: Array = bits.view(F32)
    missing = np.isnan(x)
    if missing.any():
        rounded = np.where(missing, x, rounded)
    return rounded


def cut(x: Array, bits: int) -> Array:
    """f32 values without what is behind so many bits of mantissa: as matrix units keep them."""
    found: Array = (x.view(np.uint32) & np.uint32(-1 << 23 - bits & 0xFFFFFFFF)).view(F32)
    missing = np.isnan(x)
    return np.where(missing, x, found) if missing.any() else found


def _round_to_bf16(x: Array) -> Array:
    return x.astype(BF16).astype(F32)


def _matmul(a: Array, b: Array) -> Array:
    """NumPy's matmul, with rows of many programs put in one product where `b` is the same for all.

    They are put together up to `ROWS` only. More is no faster, and a larger product makes OpenBLAS
    use threads, which is many times slower wherever another process keeps a core busy.
    """
    a, b = _packed(a), _packed(b)
    rows, depth = a.shape[-2:]
    columns = b.shape[-1]
    programs = a.shape[0] if a.ndim > 2 else 1
    group = min(programs, ROWS // rows, SERIAL // (rows * depth * columns))
    if group < 2 or b.size != depth * columns or not a.flags.c_contiguous:
        product: Array = np.matmul(a, b)
        return product
    whole = programs - programs % group
    shared = b.reshape(depth, columns)
    result = np.empty((*a.shape[:-1], columns), a.dtype)
    stacked = a[:whole].reshape(-1, group * rows, depth)
    np.matmul(stacked, shared, out=result[:whole].reshape(-1, group * rows, columns))
    np.matmul(a[whole:], shared, out=result[whole:])
    return result


def _packed(x: Array) -> Array:
    """`x` itself where BLAS can read its matrices in place: adjacent elements along one axis."""
    return x if min(x.strides[-2:]) == x.itemsize else np.ascontiguousarray(x)


def _product_exact(a: Array, b: Array, input_precision: str) -> Array:
    """Products of narrow floats, which f32 holds."""
    return _matmul(widen(a), widen(b))


def _product_f32(a: Array, b: Array, input_precision: str) -> Array:
    return _F32_PRODUCT[input_precision](a, b)


def _product_f64(a: Array, b: Array, input_precision: str) -> Array:
    return _matmul(a, b)


def _product_int8(a: Array, b: Array, input_precision: str) -> Array:
    """BLAS has no integers: f32 is exact while no partial sum exceeds 2^24, and f64 always is."""
    largest = a.shape[-1] * _magnitude(a) * _magnitude(b)
    wide = F32 if largest <= 1 << 24 else F64
    total = _matmul(a.astype(wide), b.astype(wide))
    return (total if largest < 1 << 31 else total.astype(np.int64)).astype(np.int32)


def _magnitude(x: Array) -> int:
    return 1 << 7 if x.dtype == INT8[0] else 1 << 8


def _rounded(rounding: Unary) -> Binary:
    return lambda a, b: _matmul(rounding(a), rounding(b))


def _in_parts(rounding: Unary, count: int, pairs: tuple[tuple[int, int], ...]) -> Binary:
    """The product of sums of `count` parts each: `pairs` of parts, then the two greatest."""

    def apply(a: Array, b: Array) -> Array:
        parts_a, parts_b = _parts(a, rounding, count), _parts(b, rounding, count)
        rest = sum(_matmul(parts_a[i], parts_b[j]) for i, j in pairs)
        # An infinite operand has NaN for its lesser part, and so have its products with zero.
        return _matmul(parts_a[0], parts_b[0]) + np.where(np.isfinite(rest), rest, np.float32(0))

    return apply


def _parts(x: Array, rounding: Unary, count: int) -> list[Array]:
    parts = [rounding(x)]
    while len(parts) < count:
        x = x - parts[-1]
        parts.append(rounding(x))
    return parts


_SMALL_OF_TWO = ((1, 0), (0, 1))
_SMALL_OF_THREE = ((1, 1), (2, 0), (0, 2), *_SMALL_OF_TWO)
_F32_PRODUCT: Choices[Binary] = Choices(
    "input_precision",
    {
        "ieee": _matmul,
        "tf32": _rounded(round_to_tf32),
        "tf32x3": _in_parts(round_to_tf32, 2, _SMALL_OF_TWO),
        "bf16x3": _in_parts(_round_to_bf16, 2, _SMALL_OF_TWO),
        "bf16x6": _in_parts(_round_to_bf16, 3, _SMALL_OF_THREE),
    },
)
_PRODUCT: ByDtype[Callable[[Array, Array, str], Array]] = ByDtype(
    "dot",
    {
        **each((F16, BF16, *FP8), _product_exact),
        F32: _product_f32,
        F64: _product_f64,
        **each(INT8, _product_int8),
    },
)
