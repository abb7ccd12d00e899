"""Replace chains of choices between constants by tables.

Kernels decode numbers of a few bits by `if x == 0: .. elif x == 1: ..`, or by nested `where`. As
comparisons, that takes two instructions for each case, and branches of several of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from tile.ir.builder import Builder
from tile.ir.core import Block, Operation, Value
from tile.ir.effects import constant_of
from tile.ir.expressions import Expression, unsigned
from tile.ir.module import Module
from tile.ir.numpy_dtypes import numpy_dtype
from tile.ir.op_definition import Level
from tile.ir.ops import arith, control, indexing
from tile.ir.ops.arith import Predicate
from tile.ir.passes import module_pass
from tile.ir.types import I32, Scalar, number_of, with_element
from tile.transforms.dce import remove_dead

Number = bool | int | float

LEAST_CASES = 8  # a table is loaded from memory
MOST_ENTRIES = 1 << 10
_UNUSED_SHARE = 4  # a table has at most so many entries for each case


@module_pass("look-up-choices", before=Level.TILE)
def look_up_choices(module: Module) -> None:
    """Look up a number that depends on what an integer equals, of at least 8 cases.

        %c = cmp %x, %0 {predicate = eq} : i1        %i = cast %x {to = i32} : i32
        %r = if %c : f32 {                           %t = table %i {of = u32, entries = ..} : u32
          yield %a                                   %r = bitcast %t {to = f32} : f32
        } else {
          %d = cmp %x, %1 {predicate = eq} : i1
          %s = if %d : f32 { .. }
          yield %s
        }

    Where the integer may be outside of the table, the number of the last `else` is selected.
    """
    for function in module:
        candidates = [(op, _choice(op)) for op in function.walk() if _has_choices(op)]
        choices = [(op, choice) for op, choice in candidates if choice and _pays(choice)]
        done: set[Operation] = set()
        for op, choice in sorted(choices, key=lambda each: -len(each[1].cases)):
            # Parts of a longer chain are in its branches, or unused.
            if op not in done and op.result.uses:
                done.update(op.walk())
                op.replace_by([_looked_up(op, choice)])
        if done:
            remove_dead(function)


@dataclass(frozen=True)
class _Choice:
    """The number of each case of an integer, and that of all others; no integer for a constant."""

    default: Number
    index: Value | None = None
    cases: Mapping[int, Number] = field(default_factory=dict)


def _has_choices(op: Operation) -> bool:
    return op.defn in (arith.select, control.if_) and len(op.results) == 1


def _choice(op: Operation) -> _Choice | None:
    """Return the choice that an operation makes; None if it does anything else."""
    case = _case(op.inputs[0])
    branches = op.inputs[1:]
    if op.defn is control.if_:
        if not all(map(_is_pure, op.regions)):
            return None
        branches = [region.yielded[0] for region in op.regions]
    number, others = constant_of(branches[0]), _of_value(branches[1])
    if case is None or number is None or others is None:
        return None
    index, key = case
    same_shape = with_element(index.type, op.result.type.element) == op.result.type
    if others.index not in (None, index) or not same_shape:
        return None
    return _Choice(others.default, index, {**others.cases, key: number})


def _of_value(value: Value) -> _Choice | None:
    number = constant_of(value)
    if number is not None:
        return _Choice(number)
    return _choice(value.op) if value.op is not None and _has_choices(value.op) else None


def _case(condition: Value) -> tuple[Value, int] | None:
    """Return the integer and the constant that it is compared with."""
    op = condition.op
    if op is None or op.defn is not arith.cmp or op["predicate"] is not Predicate.EQ:
        return None
    index, key = op.inputs[0], constant_of(op.inputs[1])
    is_integer = number_of(index.type).is_int() and not number_of(index.type).is_bool()
    return (index, int(key)) if is_integer and key is not None else None


def _is_pure(region: Block) -> bool:
    """Return True for a branch with nothing but what choices consist of."""
    parts = (arith.const, arith.cmp, arith.select, control.if_, control.yield_)
    return all(op.defn in parts and all(map(_is_pure, op.regions)) for op in region)


def _pays(choice: _Choice) -> bool:
    """Return True if a table has all cases, and not many more entries."""
    size = _size(choice)
    return (
        len(choice.cases) >= LEAST_CASES
        and min(choice.cases) >= 0
        and size <= min(MOST_ENTRIES, _UNUSED_SHARE * len(choice.cases))
    )


def _size(choice: _Choice) -> int:
    return 1 << max(choice.cases).bit_length()


def _looked_up(op: Operation, choice: _Choice) -> Value:
    """Look up the number of a choice in front of an operation."""
    assert choice.index is not None
    build, size = Builder.before(op), _size(choice)
    element = number_of(op.result.type)
    index = Expression(build, choice.index)
    entries = [_bits(choice.cases.get(key, choice.default), element) for key in range(size)]
    stored = build(
        indexing.table, index.cast(I32).value, of=unsigned(element.bits), entries=tuple(entries)
    )
    result = Expression(build, stored).view(element)
    for fits in _bounds(index, size):
        result = fits.select(result, choice.default)
    return result.value


def _bounds(index: Expression, size: int) -> Iterator[Expression]:
    """Yield the conditions under which a table has an entry of an integer."""
    if _greatest(index.value) >= size:
        if size <= index.element.max_value:
            yield index < size
        if index.is_signed:
            yield index >= 0


def _bits(number: Number, element: Scalar) -> int:
    """Return the bits of a number as an unsigned integer."""
    stored = np.array(number).astype(numpy_dtype(element))
    return int(stored.view(f"u{element.bits // 8}"))


def _greatest(index: Value) -> int:
    """Return the greatest value of an integer, if it cannot be negative; else more than that."""
    element, op = number_of(index.type), index.op
    greatest = element.max_value if element.is_int_unsigned() else 1 << element.bits
    if op is None or op.defn not in (arith.and_, arith.shr):
        return greatest
    number = constant_of(op.inputs[1])
    if number is None or number < 0:
        return greatest
    if op.defn is arith.and_:
        return min(greatest, int(number))
    return greatest >> int(number) if element.is_int_unsigned() else greatest
