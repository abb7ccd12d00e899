"""Stages of multi-buffers and phases of mbarriers, counted from iteration to iteration."""

from __future__ import annotations

import operator
from collections.abc import Callable

import pytest

from tile.backends.base import Options
from tile.backends.nvptx.emit.function_builder import FunctionBuilder, ModuleText
from tile.backends.nvptx.emit.shared import StageCounter, parity_of, stage_of
from tile.backends.nvptx.target import architecture
from tile.ir.core import Block, Function
from tile.ir.types import I32

OPERATORS: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "urem": operator.mod,
    "udiv": operator.floordiv,
    "and": operator.and_,
    "eq": operator.eq,
    "ult": operator.lt,
    "uge": operator.ge,
}


def new_builder() -> FunctionBuilder:
    module = ModuleText(architecture("sm_90a"), Options(), 32)
    return FunctionBuilder(module, Function("f", [], []), {})


def run(builder: FunctionBuilder, inputs: dict[str, int]) -> dict[str, int]:
    """Run the lines of a builder on unsigned integers, with the values of some registers given."""
    values = dict(inputs)

    def value(text: str) -> int:
        return values[text] if text.startswith("%") else int(text)

    for line in builder.lines:
        name, text = line.strip().split(" = ")
        words = text.replace(",", "").split()
        if words[0] == "select":  # select i1 %c, i32 %x, i32 %y
            values[name] = value(words[4]) if value(words[2]) else value(words[6])
        elif words[0] == "zext":  # zext i1 %c to i32
            values[name] = value(words[2])
        else:  # add i32 %x, 1 or icmp eq i32 %x, 3
            operator_name = words[1] if words[0] == "icmp" else words[0]
            values[name] = int(OPERATORS[operator_name](*map(value, words[-2:])))
    return values


@pytest.mark.parametrize("stages", [2, 3, 4, 5, 6, 7])
@pytest.mark.parametrize("shift", [-9, -3, -1, 0, 1, 2, 5, 6, 9])
@pytest.mark.parametrize("counted", [False, True])
def test_stages_and_phases_of_later_iterations(stages: int, shift: int, counted: bool) -> None:
    builder = new_builder()
    if counted:
        builder.stage_counters = {
            ("%iteration", stages): "%stage",
            ("%iteration", 2 * stages): "%phase",
        }
    stage, parity = (make(builder, "%iteration", shift, stages) for make in (stage_of, parity_of))
    for iteration in range(4 * stages):
        inputs = {
            "%iteration": iteration,
            "%stage": iteration % stages,
            "%phase": iteration % (2 * stages),
        }
        values = run(builder, inputs)
        assert values.get(stage, inputs.get(stage)) == (iteration + shift) % stages
        assert values[parity] == (iteration + shift) // stages % 2
    assert counted != any("urem" in line or "udiv" in line for line in builder.lines)


def test_the_next_iteration_has_the_next_stage() -> None:
    value, init = Block([I32, I32]).args
    counters = StageCounter(value, init, 3), StageCounter(value, init, 6)
    before, builder = new_builder(), new_builder()
    before.values[init] = ["2"]
    nexts = [
        counter.next(builder, name) for counter, name in zip(counters, ("%a", "%b"), strict=True)
    ]
    first = [counter.first(before) for counter in counters]
    values = run(before, {})
    stages = [values[name] for name in first]
    for iteration in range(2, 20):
        assert stages == [iteration % 3, iteration % 6]
        values = run(builder, dict(zip(("%a", "%b"), stages, strict=True)))
        stages = [values[name] for name in nexts]
