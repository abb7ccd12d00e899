"""Comparisons: `setp` into one or two predicates, and `set` (PTX ISA 8.5, 9.7.6).

An ordered comparison of floats with a NaN is false; an unordered one, whose name ends in `u`, is
true.
"""

from __future__ import annotations

from tile.ir.expressions import Expression
from tile.ir.ops import arith
from tile.ir.ops.arith import Predicate
from tile.ir.types import F32
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
        return ~_ordered(_UNORDERED[name].negated, x, y)
    return _ordered(_PREDICATES[name], x, y)


def _ordered(predicate: Predicate, x: Expression, y: Expression) -> Expression:
    """Return a comparison that is false with a NaN, which `ne` is not."""
    if predicate is Predicate.NE and x.is_float:
        return x.is_(Predicate.LT, y) | x.is_(Predicate.GT, y)
    return x.is_(predicate, y)


def compared(op: Opcode, x: Expression, y: Expression, *other: Expression) -> Expression:
    """Return the comparison, combined with a predicate if there is another operand."""
    holds = compare(op, x, y)
    return combined(op, holds, *other) if other else holds


def combined(op: Opcode, holds: Expression, other: Expression) -> Expression:
    """Return a comparison combined with a predicate."""
    return holds.apply(COMBINATIONS[op.one_of(COMBINATIONS)], other)


def as_number(op: Opcode, *operands: Expression) -> Expression:
    """Return all ones, or 1.0 for a float, where the comparison holds, else 0."""
    holds, element = compared(op, *operands), op.types[0].element
    return holds.select(holds.constant(1.0 if element is F32 else -1, element), 0)


_NAMES, _HOW = "|".join(COMPARISONS), "|".join(COMBINATIONS)
_TYPES = "b16 b32 b64 u16 s16 u32 s32 u64 s64 f16 bf16 f32 f64"
_RESULTS = "u32 s32 f32"

RULES = [
    *rules(f"setp.{_NAMES}", _TYPES, "i1: t t", compared, "ftz"),
    *rules(f"set.{_NAMES}", _RESULTS, "t: t1 t1", as_number, "ftz", more=[_TYPES]),
    *rules(f"setp.{_NAMES}.{_HOW}", _TYPES, "i1: t t i1", compared, "ftz"),
    *rules(f"set.{_NAMES}.{_HOW}", _RESULTS, "t: t1 t1 i1", as_number, "ftz", more=[_TYPES]),
]
