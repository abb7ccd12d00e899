"""`tl.dot_scaled`, the dot of block-scaled tiles, composed of casts, multiplications and a dot.

The formats are those of the Open Compute Project's "Microscaling Formats (MX) Specification" 1.0,
5.3 and 6.3: e2m1 (mxfp4), e4m3 and e5m2 (mxfp8) with a scale of e8m0 for each 32 elements along K.
NVIDIA's nvfp4 has elements of e2m1 with a scale of e4m3 for each 16.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.ir.ops import arith
from tile.ir.types import (
    BF16,
    F8E4M3,
    F8E5M2,
    F16,
    F32,
    I8,
    U8,
    U16,
    U32,
    Scalar,
    with_shape,
)
from tile.language.base.builtin import builtin
from tile.language.base.dtypes import spelled
from tile.language.base.promotion import constant, convert, describe
from tile.language.base.static_args import compile_time, compile_time_bool
from tile.language.base.tensor import Tensor
from tile.language.creation import cast, element_type
from tile.language.linalg import dot
from tile.language.operators import binary, compare, emit
from tile.language.selection import where
from tile.language.shape import join, permute, reshape, trans
from tile.short_repr import short_repr

# The elements of each format. Those of e2m1 are packed: two in a byte, the first in the low bits.
FORMATS: dict[str, Scalar] = {
    "e2m1": U8,
    "e4m3": F8E4M3,
    "e5m2": F8E5M2,
    "bf16": BF16,
    "fp16": F16,
}
BITS = {8: U8, 16: U16}
PACKED = "e2m1"
# Elements along K for each scale, by the type of the scales; those of e8m0 are integers.
SCALED_BY: dict[Scalar, int] = {U8: 32, I8: 32, F8E4M3: 16}
RESULTS = (F32, F16, BF16)


@dataclass(frozen=True)
class _Operand:
    """An operand, its elements unpacked: `...xMxK` for `lhs`, `...xKxN` for `rhs`.

    `along_k` is the axis of K from the right. `scale` has shape `...xMxG` or `...xNxG`.
    """

    name: str
    values: Tensor
    form: str
    scale: Tensor | None
    along_k: int

    @property
    def depth(self) -> int:
        return self.values.shape[self.along_k]


@builtin
def dot_scaled(
    build: Builder,
    lhs: Tensor,
    lhs_scale: Tensor | None,
    lhs_format: str,
    rhs: Tensor,
    rhs_scale: Tensor | None,
    rhs_format: str,
    acc: Tensor | None = None,
    fast_math: bool = False,
    lhs_k_pack: bool = True,
    rhs_k_pack: bool = True,
    out_dtype: Any = F32,
) -> Tensor:
    """The dot of block-scaled tiles `lhs @ rhs`, accumulated onto `acc` if given.

    `lhs` has shape MxK and `rhs` KxN, or with a batch axis in front. Formats are "e2m1", "e4m3",
    "e5m2", "bf16" and "fp16". Elements have the type of their format, or are its bits as
    `tl.uint8` or `tl.uint16`. Those of "e2m1" are pairs in a `tl.uint8`, the first in the low four
    bits: pairs along K, so that this axis is half as long, or along M or N if `lhs_k_pack` or
    `rhs_k_pack` is false.

    `lhs_scale` has shape MxG and `rhs_scale` NxG. Scales of `tl.uint8` are powers of two (e8m0:
    2^(s - 127), and NaN for 255), one for each 32 elements along K; scales of `tl.float8e4nv` are
    numbers, one for each 16. None is a scale of 1. Without NaN among the scales, `fast_math` saves
    two instructions a scale.

    The result and `acc` have type `out_dtype`: float32, or float16 or bfloat16, to which the sum
    is rounded.

    No machine's instruction is used for scales: elements times scales are multiplied by `tl.dot`,
    in float16 if a format is "fp16", else in bfloat16, and summed in float32. An element of 8 bits
    or less times its scale is exact in bfloat16 unless it is beyond 2^127 or below 2^-126; others
    are rounded. Two operands of 8-bit floats without scales are multiplied as they are.

    Raises `CompilationError` for other formats, types and shapes.

        acc = tl.dot_scaled(a, a_scale, "e2m1", b, b_scale, "e4m3", acc)
    """
    left = _operand(build, "lhs", lhs, lhs_scale, lhs_format, lhs_k_pack, -1)
    right = _operand(build, "rhs", rhs, rhs_scale, rhs_format, rhs_k_pack, -2)
    ranks = {len(x.shape) for x in (lhs, rhs)}
    if ranks not in ({2}, {3}):
        raise CompilationError(
            f"Both inputs must be either 2D or 3D; (lhs: {list(lhs.shape)} vs rhs: "
            f"{list(rhs.shape)})"
        )
    if left.depth != right.depth:
        raise CompilationError(
            "Reduction dimension should pack the same number of elements; "
            f"(lhs: {list(lhs.shape)} vs rhs: {list(rhs.shape)}); K is {left.depth} and "
            f"{right.depth}"
        )
    element = _multiplied(left, right)
    is_fast = compile_time_bool(fast_math, "the fast_math of tl.dot_scaled")
    a, b = (_scaled(build, operand, element, is_fast) for operand in (left, right))
    return _accumulated(build, a, b, acc, out_dtype)


def _operand(
    build: Builder, name: str, x: Any, scale: Any, spelling: Any, k_pack: Any, along_k: int
) -> _Operand:
    form = compile_time(spelling, f"the {name}_format of tl.dot_scaled")
    if not isinstance(x, Tensor) or len(x.shape) < 2:
        raise CompilationError(f"the {name} of tl.dot_scaled is a tile, not {describe(x)}")
    if form not in FORMATS:
        raise CompilationError(
            f"Invalid float format: {short_repr(form)}. The {name}_format of tl.dot_scaled is "
            f"one of {', '.join(FORMATS)}"
        )
    packs_k = compile_time_bool(k_pack, f"the {name}_k_pack of tl.dot_scaled")
    if not packs_k and form != PACKED:
        raise CompilationError(
            "only mxfp4 inputs can be packed along a dimension different than K: "
            f"{name}_k_pack is False, and {name}_format is {form}"
        )
    values = _elements(build, x, form)
    if form == PACKED:
        values = _unpacked(build, values, along_k if packs_k else -3 - along_k)
    if not isinstance(scale, Tensor):
        if compile_time(scale, f"the {name}_scale of tl.dot_scaled") is not None:
            raise CompilationError(
                f"the {name}_scale of tl.dot_scaled is a tile or None, not {describe(scale)}"
            )
        return _Operand(name, values, form, None, along_k)
    scale = _checked_scale(build, name, scale, values, along_k)
    return _Operand(name, values, form, scale, along_k)


def _elements(build: Builder, x: Tensor, form: str) -> Tensor:
    """Return the elements in the type of their format, of which `x` may hold the bits."""
    element = FORMATS[form]
    if x.dtype is element:
        return x
    if form == PACKED:
        raise CompilationError(f"e2m1 format must be packed as uint8. Got {spelled(x.dtype)}")
    if x.dtype is not BITS[element.bits]:
        raise CompilationError(
            f"Unexpected dtype for {form}. Got {spelled(x.dtype)}, not {spelled(element)} or "
            f"{spelled(BITS[element.bits])}"
        )
    return cast.emit(build, x, element, bitcast=True)


def _unpacked(build: Builder, x: Tensor, axis: int) -> Tensor:
    """Return the codes of pairs along an axis, -1 or -2, which becomes twice as long."""
    pairs = join.emit(build, binary(build, "&", x, 0xF), binary(build, ">>", x, 4))
    if axis == -2:
        rank = len(pairs.shape)
        pairs = permute.emit(build, pairs, *range(rank - 2), rank - 1, rank - 2)
    shape = list(x.shape)
    shape[axis] *= 2
    return reshape.emit(build, pairs, tuple(shape))


def _checked_scale(
    build: Builder, name: str, scale: Tensor, values: Tensor, along_k: int
) -> Tensor:
    """Return the scales, of e8m0 as `tl.uint8`."""
    if scale.dtype not in SCALED_BY:
        raise CompilationError(
            f"the {name}_scale of tl.dot_scaled has elements tl.uint8 (e8m0) or tl.float8e4nv, not "
            f"{spelled(scale.dtype)}"
        )
    assert isinstance(scale.dtype, Scalar)
    depth, rows = values.shape[along_k], values.shape[-3 - along_k]
    elements = SCALED_BY[scale.dtype]
    expected = (*values.shape[:-2], rows, depth // elements)
    if scale.shape != expected:
        raise CompilationError(
            f"{name}_scale must be a tensor of shape {['...', rows, depth // elements]}. Got "
            f"{list(scale.shape)}; a scale of {spelled(scale.dtype)} is that of {elements} of the "
            f"{depth} elements along K"
        )
    return cast.emit(build, scale, U8, bitcast=True) if scale.dtype is I8 else scale


def _multiplied(left: _Operand, right: _Operand) -> Scalar:
    """Return the element type that the dot multiplies."""
    both = (left, right)
    unscaled = all(x.scale is None for x in both)
    if unscaled and all(x.values.dtype.is_fp8() for x in both):
        return F8E4M3
    return F16 if any(x.form == "fp16" for x in both) else BF16


def _scaled(build: Builder, operand: _Operand, element: Scalar, is_fast: bool) -> Tensor:
    """Return the elements times their scales, rounded to an element type."""
    if element.is_fp8():
        return operand.values
    scale = operand.scale
    if scale is None:
        return _numbers(build, operand, element)
    # f16 has less range than scales, so that elements are scaled in f32.
    factor = F32 if element is F16 else BF16
    values = _numbers(build, operand, factor)
    if operand.along_k == -2:
        scale = trans.emit(build, scale)
    result = _by_groups(build, values, _scales(build, scale, factor, is_fast), operand.along_k)
    return convert(build, result, element)


def _numbers(build: Builder, operand: _Operand, element: Scalar) -> Tensor:
    """Return the elements without their scales, in a type of 16 or 32 bits."""
    if operand.form != PACKED:
        return convert(build, operand.values, element)
    narrow = BF16 if element is F32 else element
    return convert(build, _of_e2m1(build, operand.values, narrow), element)


def _of_e2m1(build: Builder, codes: Tensor, element: Scalar) -> Tensor:
    """Return the numbers of codes of four bits (0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives).

    From 2 on, a code has the exponent and the mantissa of the number. Code 1 is subnormal: 0.5.
    """
    mantissa = element.fp_mantissa_width
    half = (element.exponent_bias - 1) << mantissa  # the bits of 0.5
    bits = convert(build, codes, U16)
    magnitude = binary(build, "&", bits, 7)
    normal = binary(build, "+", binary(build, "<<", magnitude, mantissa - 1), half)
    subnormal = binary(build, "*", magnitude, half)
    number = where.emit(build, compare(build, "<", magnitude, 2), subnormal, normal)
    sign = binary(build, "<<", binary(build, "&", bits, 8), 12)
    return cast.emit(build, binary(build, "|", number, sign), element, bitcast=True)


def _scales(build: Builder, scale: Tensor, element: Scalar, is_fast: bool) -> Tensor:
    """Return the scales as numbers; those of e8m0 are the exponents of f32 and bf16."""
    if scale.dtype is F8E4M3:
        return convert(build, scale, element)
    integer, mantissa = (U32 if element is F32 else U16), element.fp_mantissa_width
    bits = binary(build, "<<", convert(build, scale, integer), mantissa)
    least = constant(build, 1 << (mantissa - 1), bits.type)  # 2^-127, which is subnormal
    bits = emit(build, "max", arith.max_, bits, least)
    if not is_fast:
        nan = (0xFF << mantissa) | (1 << (mantissa - 1))
        bits = where.emit(build, compare(build, "==", scale, 0xFF), nan, bits)
    return cast.emit(build, bits, element, bitcast=True)


def _by_groups(build: Builder, x: Tensor, scale: Tensor, axis: int) -> Tensor:
    """Return `x * scale`, where an element of `scale` is for several of `x` along an axis."""
    at = len(x.shape) + axis
    groups = scale.shape[at]
    split = (*x.shape[:at], groups, x.shape[at] // groups, *x.shape[at + 1 :])
    spread = (*scale.shape[: at + 1], 1, *scale.shape[at + 1 :])
    scaled = binary(build, "*", reshape.emit(build, x, split), reshape.emit(build, scale, spread))
    return reshape.emit(build, scaled, x.shape)


def _accumulated(build: Builder, a: Tensor, b: Tensor, acc: Any, out_dtype: Any) -> Tensor:
    result = element_type(out_dtype, "tl.dot_scaled")
    if result not in RESULTS:
        raise CompilationError(
            f"the out_dtype of tl.dot_scaled is {' or '.join(map(spelled, RESULTS))}, not "
            f"{spelled(result)}"
        )
    ty = with_shape((*a.shape[:-1], b.shape[-1]), result)
    start = constant(build, 0, ty) if acc is None else acc
    if not isinstance(start, Tensor) or start.type != ty:
        raise CompilationError(
            f"the acc of tl.dot_scaled is a tile of the result's type {ty}, not {describe(acc)}"
        )
    total = dot.emit(build, a, b, convert(build, start, F32), max_num_imprecise_acc=0)
    return convert(build, total, result)
