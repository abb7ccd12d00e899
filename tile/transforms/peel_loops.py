"""Peeling: a loop whose last iteration may be partial, and the masks that only this one needs."""

from __future__ import annotations

from tile.analysis.ranges import Ranges, ranges
from tile.ir.builder import Builder
from tile.ir.core import Operation, Value, clone
from tile.ir.effects import constant_of, iterations
from tile.ir.expressions import Expression, unsigned
from tile.ir.module import Module
from tile.ir.op_definition import Trait
from tile.ir.ops import arith, control, shape
from tile.ir.ops.arith import Predicate
from tile.ir.passes import module_pass
from tile.ir.types import Scalar
from tile.transforms.unroll import is_simple

_COPIES = (shape.splat, shape.broadcast, shape.expand_dims)


@module_pass("peel-loops")
def peel_loops(module: Module) -> None:
    """Split loops into whole iterations without bound checks, and a partial one with them.

    These are loops of a constant step that compare indices less than the step apart from the
    induction variable with the upper bound. Loops with dots, or with loops in them, stay as they
    are, and so do those whose threads exchange values: their loads wait for that, not for masks.

        for %i = %c0 to %n step %c8 {              for %i = %c0 to %m step %c8 {
          %is = splat %i {shape = (8)}               %x = load %p
          %k = add %is, %lanes                       ..
          %m = cmp %k, %ns {predicate = lt}        }
          %x = load %p, %m                         for %i = %m to %n step %c8 {
          ..                                         .. // as before
        }                                          }
    """
    for function in module:
        loops = [op for op in function.walk() if op.defn is control.for_ and _is_candidate(op)]
        if not loops:
            continue
        bounds = ranges(function)
        for loop in loops:
            step = int(constant_of(loop.inputs[2]) or 0)
            checks = _bound_checks(loop, step, bounds) if step > 0 else []
            if checks:
                _peel(loop, step, checks)


def _is_candidate(loop: Operation) -> bool:
    numbers = iterations(loop)
    if numbers is not None and (numbers.stop - numbers.start) % numbers.step == 0:
        return False  # no iteration is partial
    return is_simple(loop) and not any(op.has_trait(Trait.COMBINE) for op in loop.regions[0])


def _bound_checks(loop: Operation, step: int, bounds: Ranges) -> list[Operation]:
    """Return the comparisons of a body that are true in each whole iteration."""
    return [
        op
        for op in loop.regions[0]
        if op.defn is arith.cmp
        and op["predicate"] is Predicate.LT
        and _is_upper_bound(loop, op.inputs[1])
        and _is_in_step(loop, op.inputs[0], step, bounds)
    ]


def _is_upper_bound(loop: Operation, value: Value) -> bool:
    upper, value = loop.inputs[1], _source(value)
    number = constant_of(value)
    return value is upper or (number is not None and number == constant_of(upper))


def _is_in_step(loop: Operation, value: Value, step: int, bounds: Ranges) -> bool:
    """Return True for sums of the induction variable and a number from 0 to `step` - 1."""
    add = _source(value).op
    if add is None or add.defn is not arith.add:
        return False
    for index, offset in (add.inputs, reversed(add.inputs)):
        interval = bounds.of(offset)
        if _source(index) is loop.regions[0].args[0] and interval is not None:
            return interval.low >= 0 and interval.high < step
    return False


def _source(value: Value) -> Value:
    """Return the value whose elements are copied."""
    while value.op is not None and value.op.defn in _COPIES:
        (value,) = value.op.inputs
    return value


def _peel(loop: Operation, step: int, checks: list[Operation]) -> None:
    build = Builder.before(loop)
    lower, upper = loop.inputs[:2]
    split = _split_bound(build, lower, upper, step)
    remainder = clone(loop, {}).move_before(loop)
    loop.move_before(remainder)
    for old, new in zip(loop.results, remainder.results, strict=True):
        old.replace_by(new)
    remainder.set_operands([split, *remainder.inputs[1:3], *loop.results])
    loop.set_operand(1, split)
    for check in checks:
        check.replace_by([Builder.before(check).constant(True, check.result.type)])


def _split_bound(build: Builder, lower: Value, upper: Value, step: int) -> Value:
    """Return the end of the whole iterations.

    It is computed in unsigned integers, which hold the distance of any two bounds.
    """
    assert isinstance(lower.type, Scalar)
    start, stop = Expression(build, lower), Expression(build, upper)
    wide = unsigned(lower.type.bits)
    distance = (stop.cast(wide) - start.cast(wide)).apply(arith.div, step) * step
    end = (start.cast(wide) + distance).cast(lower.type)
    return (start < stop).select(end, stop).value
