"""Passes preserve semantics: random functions return the same values before and after."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.observed import Run
from tests.analysis.random_ir import functions
from tests.sampling import examples
from tile.ir.core import Function
from tile.ir.module import Module
from tile.ir.ops import control, debug
from tile.ir.passes import parse_pipeline, run_pipeline
from tile.ir.printer import print_module
from tile.ir.types import I8, I32, U32, Pointer, Scalar
from tile.ir.verifier import verify
from tile.transforms import pass_pipeline

PASSES = [
    "fold",
    "canonicalize",
    "cse",
    "licm",
    "dce",
    "unroll{limit=8}",
    "unroll",
    "TILE",
    "peel-loops",
    "fold-ranges",
]


def results(function: Function, arguments: list[int], program: int) -> list[Any]:
    return Run(lambda value, array: None, (program, 0, 0)).function(function, arguments)


def arguments(data: Any, function: Function) -> list[int]:
    numbers = []
    for value in function.args:
        unsigned = isinstance(value.type, Pointer) or not value.type.element.signed
        numbers.append(data.draw(st.integers(0 if unsigned else -128, 127)))
    return numbers


def ask_for_unrolling(module: Module, factor: int) -> None:
    for op in module.walk():
        if op.defn is control.for_:
            op.attributes["unroll"] = factor


def without_assumptions(module: Module) -> None:
    """Remove assumptions, which random arguments may contradict."""
    for op in list(module.walk()):
        if op.defn is debug.assume:
            op.erase()


@pytest.mark.parametrize("element", [I32, I8, U32], ids=str)
@pytest.mark.parametrize("passes", PASSES)
@examples(12)
@given(data=st.data())
def test_pass_preserves_semantics(passes: str, element: Scalar, data: Any) -> None:
    module = Module([data.draw(functions(element, returning=True))])
    numbers, program = arguments(data, module["f"]), data.draw(st.integers(0, 20))
    if passes == "unroll":
        ask_for_unrolling(module, data.draw(st.integers(2, 4)))
    if passes == "fold-ranges":
        without_assumptions(module)
    verify(module)
    before = print_module(module)
    expected = results(module["f"], numbers, program)
    run_pipeline(module, pass_pipeline.TILE if passes == "TILE" else parse_pipeline(passes))
    verify(module)
    actual = results(module["f"], numbers, program)
    for index, (x, y) in enumerate(zip(expected, actual, strict=True)):
        assert np.array_equal(x, y), f"result {index} of\n{before}\nafter\n{print_module(module)}"
