"""Stages of rings and phases of barriers, counted from round to round."""

from __future__ import annotations

import operator
from collections.abc import Callable

import pytest

from tile.backends.base import Options
from tile.backends.nvptx.emit.body import Body
from tile.backends.nvptx.emit.module import ModuleText
from tile.backends.nvptx.emit.turns import Turn, Turns, parity_of, stage_of
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


def new_body() -> Body:
    return Body(ModuleText(architecture("sm_90a"), Options(), 32), Function("f", [], []), {})


def run(body: Body, known: dict[str, int]) -> dict[str, int]:
    """What the lines of a body compute from known registers: integers without a sign."""
    values = dict(known)

    def value(text: str) -> int:
        return values[text] if text.startswith("%") else int(text)

    for line in body.lines:
        name, text = line.strip().split(" = ")
        words = text.replace(",", "").split()
        if words[0] == "select":  # select i1 %c, i32 %x, i32 %y
            values[name] = value(words[4]) if value(words[2]) else value(words[6])
        elif words[0] == "zext":  # zext i1 %c to i32
            values[name] = value(words[2])
        else:  # add i32 %x, 1 or icmp eq i32 %x, 3
            what = words[1] if words[0] == "icmp" else words[0]
            values[name] = int(OPERATORS[what](*map(value, words[-2:])))
    return values


@pytest.mark.parametrize("stages", [2, 3, 4, 5, 6, 7])
@pytest.mark.parametrize("shift", [0, 1, 2, 5, 6, 9])
@pytest.mark.parametrize("counted", [False, True])
def test_stages_and_phases_of_later_turns(stages: int, shift: int, counted: bool) -> None:
    body = new_body()
    if counted:
        body.turns = {("%turn", stages): "%stage", ("%turn", 2 * stages): "%phase"}
    stage, parity = (make(body, "%turn", shift, stages) for make in (stage_of, parity_of))
    for turn in range(4 * stages):
        known = {"%turn": turn, "%stage": turn % stages, "%phase": turn % (2 * stages)}
        found = run(body, known)
        assert found.get(stage, known.get(stage)) == (turn + shift) % stages
        assert found[parity] == (turn + shift) // stages % 2
    assert counted != any("urem" in line or "udiv" in line for line in body.lines)


def test_the_next_round_is_the_next_stage() -> None:
    value = Block([I32]).args[0]
    turns = Turns((Turn(value, 2, 3), Turn(value, 2, 6)))
    body = new_body()
    nexts = turns.next(body, ["%a", "%b"])
    stages = [int(first) for first in turns.first]
    for turn in range(2, 20):
        assert stages == [turn % 3, turn % 6]
        found = run(body, dict(zip(("%a", "%b"), stages, strict=True)))
        stages = [found[name] for name in nexts]
