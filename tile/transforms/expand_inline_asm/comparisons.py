"""Comparisons: `setp` into one or two predicates, and `set` (PTX ISA 8.5, 9.7.6).

An ordered comparison of floats with a NaN is false; an unordered one, whose name ends in `u`, is
true.
"""

from __future__ import annotations

from tile.ir.ops import arith
from tile.ir.ops.arith import Predicate
from tile.ir.types import F32
from tile.transforms.expand_inline_asm.expression import Expression
from tile.transforms.expand_inline_asm.floats import flushed
from tile.transforms.expand_inline_asm.rules import Opcode, rules

# The comparison of each name; those of unsigned integers have names of their own as well.
_PREDICATES = {
    **{predicate.value: predicate for predicate in Predicate},
    "lo": Predicate.LT,
    "ls": Predicate.LE,
    "hi": Predicate.GT,
    "hs": Predicate.GE,
}
_UNORDERED = {f"{predicate.value}u": predicate for predicate in Predicate}
COMPARISONS = (*_PREDICATES, *_UNORDERED, "num", "nan")
COMBINATIONS = {"and": arith.and_, "or": arith.or_, "xor": arith.xor}


def compare(op: Opcode, x: Expression, y: Expression) -> Expression:
    """Return the comparison that the opcode names, as an i1."""
    name = op.one_of(COMPARISONS)
    if op.has("ftz"):
        x, y = flushed(x), flushed(y)
    if name in ("num", "nan"):
        numbers = x.equals(x) & y.equals(y)
        return numbers if name == "num" else ~numbers
    if name in _UNORDERED:
        return ~x.is_(_UNORDERED[name].negated, y) if name != "equ" else _equal_or_nan(x, y)
    if name == "ne" and x.is_float:
        return x.is_(Predicate.LT, y) | x.is_(Predicate.GT, y)
    return x.is_(_PREDICATES[name], y)


def _equal_or_nan(x: Expression, y: Expression) -> Expression:
    return ~(x.is_(Predicate.LT, y) | x.is_(Predicate.GT, y))


def combined(op: Opcode, x: Expression, y: Expression, other: Expression) -> Expression:
    """Return the comparison combined with a predicate."""
    return compare(op, x, y).apply(COMBINATIONS[op.one_of(COMBINATIONS)], other)


def as_number(op: Opcode, x: Expression, y: Expression) -> Expression:
    """Return all ones, or 1.0 for a float, where the comparison holds, else 0."""
    return _number(op, compare(op, x, y))


def _combined_as_number(op: Opcode, x: Expression, y: Expression, other: Expression) -> Expression:
    return _number(op, combined(op, x, y, other))


def _number(op: Opcode, holds: Expression) -> Expression:
    element = op.types[0].element
    one = 1.0 if element is F32 else -1
    return holds.select(holds.constant(one, element), 0)


_TYPES = "b16 b32 b64 u16 s16 u32 s32 u64 s64 f16 bf16 f32 f64"
RULES = [
    *[
        rule
        for name in COMPARISONS
        for rule in (
            *rules(f"setp.{name}", _TYPES, "i1: t t", compare, "ftz"),
            *rules(f"set.{name}", "u32 s32 f32", "t: t1 t1", as_number, "ftz", more=[_TYPES]),
        )
    ],
    *[
        rule
        for name in COMPARISONS
        for how in COMBINATIONS
        for rule in (
            *rules(f"setp.{name}.{how}", _TYPES, "i1: t t i1", combined, "ftz"),
            *rules(
                f"set.{name}.{how}",
                "u32 s32 f32",
                "t: t1 t1 i1",
                _combined_as_number,
                "ftz",
                more=[_TYPES],
            ),
        )
    ],
]
