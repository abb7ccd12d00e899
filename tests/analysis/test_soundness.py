"""Soundness of analyses: their facts hold for the values that runs of random programs compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.analysis.observed import Run
from tests.analysis.random_ir import functions
from tests.sampling import examples
from tile.analysis.axis_info import axis_info
from tile.analysis.axis_lattice import AxisInfo
from tile.analysis.ranges import ranges
from tile.analysis.uniformity import Variation, uniformity
from tile.ir.core import Function, Operation, Value
from tile.ir.ops import debug
from tile.ir.printer import print_function
from tile.ir.types import I8, I32, U32, Pointer, Scalar

THOROUGH = examples(40)
ELEMENTS = pytest.mark.parametrize("element", [I32, I8, U32], ids=str)


def arguments(data: Any, function: Function) -> list[int]:
    """Return numbers that fit the parameters and their divisibility."""
    numbers = []
    for value, argument in zip(function.args, function.arguments, strict=True):
        least = 0 if isinstance(value.type, Pointer) or not value.type.element.signed else -100
        number = data.draw(st.integers(least, 127)) // argument.divisible * argument.divisible
        numbers.append(number if number >= -100 else 0)
    return numbers


class Broken(Exception):
    """An assumption of the program was false, so facts need not hold any more."""


def run(data: Any, function: Function, see: Any, use: Any = None, program: int = 0) -> Run:
    def used(op: Operation, index: int, array: Any) -> None:
        if op.defn is debug.assume and not array:
            raise Broken
        if use is not None:
            use(op, index, array)

    evaluation = Run(see, (program, 0, 0), used)
    try:
        evaluation.function(function, arguments(data, function))
    except Broken:
        pass
    return evaluation


@ELEMENTS
@THOROUGH
@given(data=st.data())
def test_ranges_hold_every_value(element: Scalar, data: Any) -> None:
    function = data.draw(functions(element))
    intervals = ranges(function)

    def inside(interval: Any, array: Any, what: str) -> None:
        if interval is not None:
            low, high = int(array.min()), int(array.max())
            assert interval.low <= low and high <= interval.high, (
                f"{what} is {low} to {high}, not {interval}\n{print_function(function)}"
            )

    run(
        data,
        function,
        lambda value, array: inside(intervals.of(value), array, repr(value)),
        lambda op, index, array: inside(intervals.operand(op, index), array, f"{op} {index}"),
        data.draw(st.integers(0, 20)),
    )


@ELEMENTS
@THOROUGH
@given(data=st.data())
@pytest.mark.parametrize("wraps", [False, True])
def test_axis_info_holds_of_every_value(element: Scalar, data: Any, wraps: bool) -> None:
    function = data.draw(functions(element, overflowing=wraps))
    info = axis_info(function, wraps=wraps)
    seen: list[tuple[Value, Any]] = []
    evaluation = run(
        data,
        function,
        lambda value, array: seen.append((value, array)),
        program=data.draw(st.integers(0, 20)),
    )
    assume(not evaluation.divided_by_zero and (wraps or not evaluation.overflowed))
    for value, array in seen:
        fault = wrong(info.of(value), value, array)
        assert not fault, f"{value!r}: {fault} in {array}\n{print_function(function)}"


def wrong(info: AxisInfo, value: Value, array: Any) -> str:
    """Return the claim of axis info that an array contradicts, or ""."""
    if array.dtype == np.bool_:
        array = array.astype(np.int8)
    array = array if array.ndim else array[None]
    step = 4 if isinstance(value.type.element, Pointer) else 1
    for axis, extent in enumerate(array.shape):
        rows = np.moveaxis(array, axis, -1).reshape(-1, extent)
        runs = rows.reshape(-1, info.contiguous[axis])
        if np.any(np.diff(runs, axis=1) != step):
            return f"contiguous {info.contiguous} along {axis}"
        if any(int(first) % info.divisible[axis] for first in runs[:, 0]):
            return f"divisible {info.divisible} along {axis}"
        groups = rows.reshape(-1, info.constant[axis])
        if np.any(groups != groups[:, :1]):
            return f"constant {info.constant} along {axis}"
    if info.value is not None and np.any(array != int(info.value)):
        return f"value {info.value}"
    return ""


@THOROUGH
@given(data=st.data())
def test_uniform_values_are_equal_in_all_programs(data: Any) -> None:
    """Without divergence, every uniform value is the same in the same iteration."""
    function = data.draw(functions())
    variation = uniformity(function)
    numbers = arguments(data, function)
    traces = []
    for program in (0, 5):
        trace: dict[Value, list[Any]] = {}
        evaluation = Run(
            lambda value, array, trace=trace: trace.setdefault(value, []).append(array),
            (program, 0, 0),
        )
        evaluation.function(function, numbers)
        traces.append(trace)
    for value in set(traces[0]) & set(traces[1]):
        if variation[value] is Variation.UNIFORM and value.block is function.body:
            for first, second in zip(traces[0][value], traces[1][value], strict=True):
                assert np.array_equal(first, second), f"{value!r}\n{print_function(function)}"
