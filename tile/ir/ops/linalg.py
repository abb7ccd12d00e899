"""The matrix product of tiles."""

from __future__ import annotations

import enum

from tile.ir import numerics
from tile.ir.opdef import op
from tile.ir.types import (
    BF16,
    F16,
    F32,
    F64,
    FP8,
    I8,
    I32,
    U8,
    Scalar,
    Tile,
    Type,
    require,
    with_shape,
)


class Precision(enum.StrEnum):
    """How the factors of an f32 product are rounded before they are multiplied."""

    IEEE = "ieee"  # not at all
    TF32 = "tf32"  # to 10 bits of mantissa, or cut off behind them
    TF32X3 = "tf32x3"  # as a sum of two tf32 numbers each, the least product dropped
    BF16X3 = "bf16x3"
    BF16X6 = "bf16x6"


# The element of the accumulator that each element of the factors allows.
ACCUMULATORS: dict[Scalar, tuple[Scalar, ...]] = {
    F16: (F32, F16),
    BF16: (F32,),
    F32: (F32,),
    F64: (F64,),
    I8: (I32,),
    U8: (I32,),
    **dict.fromkeys(FP8, (F32, F16)),
}


@op(
    meaning=lambda a, b, acc, *, input_precision, max_num_imprecise_acc: numerics.dot(
        a, b, acc, input_precision
    ),
    accepts=tuple(ACCUMULATORS),
    examples=(
        "%a: tile<16x32xf16>, %b: tile<32x16xf16>, %c: tile<16x16xf32> | "
        "%r = dot %a, %b, %c : tile<16x16xf32>",
    ),
)
def dot(
    a: Type,
    b: Type,
    acc: Type,
    *,
    input_precision: Precision = Precision.IEEE,
    max_num_imprecise_acc: int = 0,
) -> Type:
    """The product `a @ b + acc` of the last two axes; a third axis in front is a batch.

    Products are exact and summed at the accumulator's precision, in no promised order: a result is
    off by at most k units in the last place of the sum of their magnitudes. That goes for f32
    factors as `input_precision` rounds them; with tf32 each is off by less than 2^-10 of itself,
    for units that read them from memory leave out what is behind 10 bits.

    Of 8-bit floats, as many products as `max_num_imprecise_acc` may be summed with only 13 bits
    behind the leading one before they are added to the accumulator; from 2^30 on, all, from one
    product to the next.
    """
    require(
        isinstance(a, Tile) and isinstance(b, Tile) and a.rank == b.rank and a.rank in (2, 3),
        f"dot takes two tiles of rank 2 or of rank 3, not {a} and {b}",
    )
    require(
        a.shape[-1] == b.shape[-2] and a.shape[:-2] == b.shape[:-2],
        f"dot takes a ...xMxK and a ...xKxN tile; {list(a.shape)} and {list(b.shape)} do not fit",
    )
    left, right = a.element, b.element
    require(
        left == right or (left in FP8 and right in FP8),
        f"dot takes factors of one element type, not {left} and {right}; cast one of them",
    )
    require(left in ACCUMULATORS, f"dot is not defined on {left}")
    assert isinstance(left, Scalar)
    result = with_shape((*a.shape[:-1], b.shape[-1]), ACCUMULATORS[left][0])
    allowed = [with_shape(result.shape, element) for element in ACCUMULATORS[left]]
    require(
        acc in allowed,
        f"dot of {left} takes an accumulator {' or '.join(map(str, allowed))}, not {acc}",
    )
    return acc
