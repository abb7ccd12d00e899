"""Guard integer division: by 0, and of the least integer by -1.

The language defines the second, and leaves the first an arbitrary number: the quotient in a lane
whose result is unused must not matter. LLVM and C make both undefined behavior. Their compilers
conclude that a divisor is not 0, and use that in the code that selects the quotient, too.
"""

from __future__ import annotations

from collections.abc import Iterator

from tile.analysis.interval import Interval
from tile.analysis.ranges import Ranges, ranges
from tile.ir.core import Function, Operation
from tile.ir.expressions import operands
from tile.ir.module import Module
from tile.ir.op_definition import Level, Trait
from tile.ir.ops import arith
from tile.ir.passes import module_pass
from tile.ir.types import INTEGERS


@module_pass("guard-division", before=Level.THREAD)
def guard_division(module: Module) -> None:
    """Divide by 1 instead of 0, and negate instead of dividing by -1.

        %z = div %x, %y : frag<8xi32>    %sign = shr %y, %31 : frag<8xi32>
                                         %left = cmp %sign, %y {predicate = eq} : frag<8xi1>
                                         %by = select %left, %1, %y : frag<8xi32>
                                         %q = div %x, %by : frag<8xi32>
                                         %n = neg %x : frag<8xi32>
                                         %z = select %left, %n, %q : frag<8xi32>

    Cases that the operands' ranges exclude are left out; a constant divisor stays as it is.
    """
    for function in module:
        divisions = list(_quotients(function))
        if divisions:
            bounds = ranges(function)
            # Read all intervals before the first rewrite, whose result may be the next's operand.
            intervals = [[_interval(op, index, bounds) for index in (0, 1)] for op in divisions]
            for op, (dividend, divisor) in zip(divisions, intervals, strict=True):
                _guard(op, dividend, divisor)


def _quotients(function: Function) -> Iterator[Operation]:
    for op in function.walk():
        if op.has_trait(Trait.DIVISION) and op.result.type.element in INTEGERS:
            yield op


def _guard(op: Operation, dividend: Interval, divisor: Interval) -> None:
    if -1 in divisor and -(1 << (op.result.type.element.bits - 1)) in dividend:
        _without_sign(op)
    elif 0 in divisor:
        _without_zero(op, divisor)


def _interval(op: Operation, index: int, bounds: Ranges) -> Interval:
    interval = bounds.operand(op, index)
    assert interval is not None, f"{op.name} of integers has integers"
    return interval


def _without_sign(op: Operation) -> None:
    """Guard against 0 and -1: the integers that equal their sign bits."""
    dividend, divisor = operands(op)
    left = (divisor >> (divisor.bits - 1)).equals(divisor)
    quotient = dividend.apply(op.defn, left.select(divisor.constant(1), divisor))
    if op.defn is arith.div:
        quotient = left.select(dividend.apply(arith.neg), quotient)
    op.replace_by([quotient.value])


def _without_zero(op: Operation, interval: Interval) -> None:
    divisor = operands(op)[1]
    one = divisor.constant(1)
    by = divisor.maximum(one) if interval.low >= 0 else divisor.equals(0).select(one, divisor)
    op.set_operand(1, by.value)
