"""SIMD video instructions, such as `vadd4`, on fields of 8 or 16 bits (PTX ISA 8.5, 9.7.19)."""

from __future__ import annotations

from collections.abc import Callable

from tile.ir.expressions import Expression, total
from tile.ir.types import I64
from tile.transforms.expand_inline_asm.integers import clamp, field_of
from tile.transforms.expand_inline_asm.rules import Compute, Opcode, rules


def _average(x: Expression, y: Expression) -> Expression:
    """Return (x + y + 1) / 2, rounded away from zero where the sum is negative."""
    total_ = x + y
    return (total_ + (total_ >= 0).select(x.constant(1), 0)) >> 1


_LANE: dict[str, Callable[[Expression, Expression], Expression]] = {
    "vadd": Expression.__add__,
    "vsub": Expression.__sub__,
    "vavrg": _average,
    "vabsdiff": lambda x, y: x.maximum(y) - x.minimum(y),
    "vmin": Expression.minimum,
    "vmax": Expression.maximum,
}


def lanewise(lane: Callable[[Expression, Expression], Expression], bits: int) -> Compute:
    """Return the instruction that applies `lane` to each pair of fields of `bits` bits.

    With `add`, the results are added to the third operand; `sat` clamps each to its type.
    """

    def apply(op: Opcode, x: Expression, y: Expression, z: Expression) -> Expression:
        of_result, *signs = (name == "s32" for name in op.names)
        results = []
        for at in range(0, 32, bits):
            pair = (_field(v, at, bits, is_signed=s) for v, s in zip((x, y), signs, strict=True))
            results.append(_fitted(op, lane(*pair), bits, is_signed=of_result).cast(z.element))
        if op.has("add"):
            return total([z, *results])
        mask = (1 << bits) - 1
        return total([(result & mask) << (at * bits) for at, result in enumerate(results)])

    return apply


def _field(x: Expression, position: int, bits: int, *, is_signed: bool) -> Expression:
    """Return a field as i64, in which no result overflows."""
    field = field_of(x, position, bits, is_signed=is_signed)
    return (field.signed() if is_signed else field).cast(I64)


def _fitted(op: Opcode, x: Expression, bits: int, *, is_signed: bool) -> Expression:
    if not op.has("sat"):
        return x
    low = -(1 << (bits - 1)) if is_signed else 0
    return clamp(x, low, low + (1 << bits) - 1)


RULES = [
    rule
    for name, lane in _LANE.items()
    for count in (2, 4)
    for rule in rules(
        f"{name}{count}",
        "u32 s32",
        "u32: u32 u32 u32",
        lanewise(lane, 32 // count),
        "sat add",
        more=["u32 s32", "u32 s32"],
    )
]
