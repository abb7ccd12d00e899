"""Results of analyses are kept while a function is unchanged, and no longer."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tile.analysis.axis_info import axis_info
from tile.analysis.memo import memoized
from tile.analysis.ranges import ranges
from tile.ir.core import Function
from tile.ir.parser import parse_module
from tile.ir.types import I64

TEXT = """
kernel @k(%a: ptr<f32>, %n: i32) {
  %zero = const {value = 0} : i32
  %one = const {value = 1} : i32
  %i = arange {end = 16, start = 0} : tile<16xi32>
  %end = for %k = %zero to %n step %one iter(%s = %one) : i32 {
    %t = mul %s, %n : i32
    %u = add %t, %k : i32
    yield %u
  }
  %m = add %end, %n : i32
  return
}
"""


def function() -> Function:
    return parse_module(TEXT)["k"]


def test_the_result_of_an_unchanged_function() -> None:
    kernel = function()
    for analysis in (axis_info, ranges):
        for wraps in (False, True):
            result = analysis(kernel, wraps=wraps)
            assert analysis(kernel, wraps=wraps) is result
            assert analysis(kernel, wraps=not wraps) is not result
    assert ranges(kernel) is not ranges(function())


def set_operand(kernel: Function) -> None:
    op = next(op for op in kernel.walk() if op.name == "mul")
    op.set_operand(0, kernel.args[1])


def set_attribute(kernel: Function) -> None:
    next(op for op in kernel.walk() if op.name == "arange").attributes["end"] = 15


def set_type(kernel: Function) -> None:
    next(op for op in kernel.walk() if op.name == "mul").result.type = I64


def set_argument(kernel: Function) -> None:
    kernel.arguments[1].divisible = 16


def move_out_of_the_loop(kernel: Function) -> None:
    loop = next(op for op in kernel.walk() if op.name == "for")
    last = kernel.body.end
    loop.regions[0].end.move_before(last)


def erase(kernel: Function) -> None:
    next(op for op in kernel.walk() if op.name == "add" and not op.result.uses).erase()


def exchange(kernel: Function) -> None:
    first, second = list(kernel.walk())[:2]
    second.move_before(first)


CHANGES = (
    set_operand,
    set_attribute,
    set_type,
    set_argument,
    move_out_of_the_loop,
    erase,
    exchange,
)


@pytest.mark.parametrize("change", CHANGES)
def test_the_result_of_a_changed_function(change: Callable[[Function], None]) -> None:
    kernel = function()
    first = memoized(kernel, "test", object)
    assert memoized(kernel, "test", object) is first
    change(kernel)
    assert memoized(kernel, "test", object) is not first
