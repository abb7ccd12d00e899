"""The dot product of tiles."""

from __future__ import annotations

from tile.ir import semantics
from tile.ir.core import Operation
from tile.ir.declare import op
from tile.ir.op_definition import Trait
from tile.ir.types import (
    BF16,
    F16,
    F32,
    F64,
    FP8,
    I8,
    I32,
    U8,
    Precision,
    Scalar,
    Tile,
    Type,
    require,
    with_shape,
)

# The accumulator's element types, by element type of the operands.
ACCUMULATORS: dict[Scalar, tuple[Scalar, ...]] = {
    F16: (F32, F16),
    BF16: (F32,),
    F32: (F32,),
    F64: (F64,),
    I8: (I32,),
    U8: (I32,),
    **dict.fromkeys(FP8, (F32, F16)),
}

# From this value on, `max_num_imprecise_acc` of a dot does not limit imprecise accumulation.
UNLIMITED = 1 << 30


@op(
    any_extents=True,
    traits={Trait.DOT},
    semantics=lambda a, b, acc, *, input_precision, max_num_imprecise_acc: semantics.dot(
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
    """Return `a @ b + acc` over the last two axes; a third, leading axis is a batch axis.

    Products are exact and summed at the accumulator's precision, in unspecified order: the error is
    at most k units in the last place of the sum of their magnitudes. This holds for f32 operands
    after the rounding by `input_precision`; with tf32, their relative error is less than 2^-10,
    since tensor cores that read operands from memory truncate them to 10 bits of mantissa.

    For 8-bit floats, up to `max_num_imprecise_acc` products may be summed with only 13 bits after
    the leading one before they are added to the accumulator; from 2^30 on, all products may, across
    consecutive dots as well.
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
        left == right or (left.is_fp8() and right.is_fp8()),
        f"dot takes operands of one element type, not {left} and {right}; cast one of them",
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


def is_multiplied(op: Operation, index: int) -> bool:
    """Return True if operand `index` of an operation is the `a` or the `b` of a dot."""
    return index < 2 and op.has_trait(Trait.DOT)


def takes_registers(op: Operation) -> bool:
    """Return True for a dot whose `a` and `b` are in registers while it executes."""
    return op.has_trait(Trait.DOT) and not op.has_trait(Trait.IN_FLIGHT)
