"""Axis info of quotients and remainders, checked exhaustively for small operands."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.analysis.test_soundness import wrong
from tile.analysis.axis_info import axis_info
from tile.analysis.axis_lattice import AxisInfo
from tile.ir import semantics
from tile.ir.builder import Builder
from tile.ir.core import Function, Value
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith, control, debug, shape
from tile.ir.ops.arith import Predicate
from tile.ir.printer import print_function
from tile.ir.types import I8, I16, I32, U8, U32, Scalar

EXTENT = 32
MOST = 32  # the arguments, with either sign
OPERATIONS = pytest.mark.parametrize("defn", [arith.div, arith.rem], ids=lambda defn: defn.name)


def divided(
    defn: OpDef, element: Scalar, multiples: tuple[int, int], start: int, least: int | None
) -> tuple[Function, Value]:
    """Return `(first + arange) op by`; both operands are multiples, `first` of at least its number."""
    function = Function("f", [element, element], ["first", "by"], kernel=True)
    for argument, multiple in zip(function.arguments, multiples, strict=True):
        argument.divisible = multiple
    first, by = function.args
    b = Builder(function.body)
    if least is not None:
        bound = b.constant(least, element)
        b.op(debug.assume, b(arith.cmp, first, bound, predicate=Predicate.GE))
    count = b(shape.arange, start=start, end=start + EXTENT)
    steps = count if element == I32 else b(arith.cast, count, to=element)
    x = b(arith.add, b(shape.splat, first, shape=(EXTENT,)), steps)
    result = b(defn, x, b(shape.splat, by, shape=(EXTENT,)))
    b.op(control.return_)
    return function, result


def results(
    defn: OpDef, element: Scalar, multiples: tuple[int, int], start: int, least: int
) -> Any:
    """Return the results for small arguments, run by run; none if the sum would wrap."""
    low = 0 if element.is_int_unsigned() else -MOST
    first, by = (np.arange(low, MOST + 1, multiple) for multiple in multiples)
    first, by = (pairs.ravel() for pairs in np.meshgrid(first[first >= least], by[by != 0]))
    x = first[:, None] + np.arange(start, start + EXTENT)
    fits = x.max(axis=1) <= element.max_value
    dtype = semantics.numpy_dtype(element)
    x, y = x[fits].astype(dtype), np.broadcast_to(by[:, None], x.shape)[fits].astype(dtype)
    assert defn.semantics is not None
    return defn.semantics(x, y).ravel()


@OPERATIONS
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    element=st.sampled_from([I32, I16, I8, U8, U32]),
    multiples=st.tuples(*[st.sampled_from([1, 2, 4, 8, 16])] * 2),
    start=st.sampled_from([0, 4, 32]),
    least=st.sampled_from([None, 0, 1, 16]),
)
def test_facts_hold(
    defn: OpDef, element: Scalar, multiples: tuple[int, int], start: int, least: int | None
) -> None:
    function, result = divided(defn, element, multiples, start, least)
    info = axis_info(function).of(result)
    array = results(defn, element, multiples, start, -MOST if least is None else least)
    fault = wrong(info, result, array)
    assert not fault, f"{fault}\n{print_function(function)}"


@OPERATIONS
@pytest.mark.parametrize("multiples", list(itertools.product([1, 2, 8, 16], repeat=2)), ids=str)
def test_facts_are_the_strongest(defn: OpDef, multiples: tuple[int, int]) -> None:
    """For nonnegative dividends, longer runs would be wrong for some arguments."""
    function, result = divided(defn, I32, multiples, 0, 0)
    info = axis_info(function).of(result)
    along = "constant" if defn is arith.div else "contiguous"
    said = {"constant": info.constant, "contiguous": info.contiguous}[along][0]
    assert said == min(multiples)
    claims = {"contiguous": (1,), "constant": (1,), along: (2 * said,)}
    array = results(defn, I32, multiples, 0, 0)
    assert wrong(AxisInfo((1,), **claims), result, array)
    assert not wrong(AxisInfo((1,), **{**claims, along: (said,)}), result, array)
