"""Unrolled loops run the same iterations, up to the ends of the type."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.analysis.observed import Run
from tests.sampling import sample
from tile.ir.module import Module
from tile.ir.parser import parse_module
from tile.ir.passes import parse_pipeline, run_pipeline
from tile.transforms import pass_pipeline

LOOP = """
func @f(%lo: {ty}, %hi: {ty}, %zero: i64) -> (i64, i64) {{
  %step = const {{value = {step}}} : {ty}
  %mix = const {{value = 31}} : i64
  %one = const {{value = 1}} : i64
  %s, %n = for %i = %lo to %hi step %step iter(%a = %zero, %b = %zero) : i64, i64 {{
    %m = mul %a, %mix : i64
    %w = cast %i {{to = i64}} : i64
    %c = add %m, %w : i64
    %d = add %b, %one : i64
    yield %c, %d
  }} {{unroll = {factor}}}
  return %s, %n
}}
"""
EDGES = {
    "i8": [-128, -127, -3, -1, 0, 1, 2, 5, 100, 125, 126, 127],
    "u8": [0, 1, 2, 5, 100, 253, 254, 255],
}


def unrolled(ty: str, step: int, factor: int) -> tuple[Module, Module]:
    before = parse_module(LOOP.format(ty=ty, step=step, factor=factor))
    after = before.clone()
    run_pipeline(after, [*parse_pipeline("unroll"), *pass_pipeline.TILE])
    return before, after


LENGTHS = range(2 * 8 + 2)  # every remainder by the greatest factor, twice
SHORT = 24  # iterations


def bounds(ty: str, step: int) -> list[tuple[int, int]]:
    """Return bounds of short loops, also of every length at both ends of the type, and end to end.

    Other loops only run the unrolled body more often.
    """
    edges = EDGES[ty]
    first, last = (edges[0], edges[-1]) if step > 0 else (edges[-1], edges[0])
    ends = {*edges[:2], *edges[-2:]}
    pairs = [(first, first + count * step) for count in LENGTHS]
    pairs += [(last - count * step, last) for count in LENGTHS]
    for lower, upper in itertools.product(edges, repeat=2):
        if len(range(lower, upper, step)) <= SHORT or {lower, upper} <= ends:
            pairs.append((lower, upper))
    return sorted({pair for pair in pairs if all(edges[0] <= x <= edges[-1] for x in pair)})


def results(module: Module, lower: int, upper: int) -> list[Any]:
    arrays = Run(lambda value, array: None).function(module["f"], [lower, upper, 0])
    return [int(array) for array in arrays]


STEPS = [*(("i8", s) for s in (1, 2, 7, -1, -3)), *(("u8", s) for s in (1, 2, 7))]


@pytest.mark.parametrize(("ty", "step", "factor"), sample(STEPS, [2, 3, 8]))
def test_same_iterations_between_all_bounds(ty: str, step: int, factor: int) -> None:
    before, after = unrolled(ty, step, factor)
    assert len([op for op in after.walk() if op.name == "for"]) == 2, "the loop was not unrolled"
    for lower, upper in bounds(ty, step):
        expected = results(before, lower, upper)
        assert results(after, lower, upper) == expected, f"from {lower} to {upper}"


def test_a_step_that_would_not_fit_is_left_alone() -> None:
    before, after = unrolled("i8", 100, 2)
    assert [op.name for op in after.walk()].count("for") == 1
    assert results(after, -128, 127) == results(before, -128, 127)
