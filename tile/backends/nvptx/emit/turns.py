"""Which stage of a ring a turn is: counted from 0 to the last and again, beside the turn itself.

The remainder by a number of stages that is no power of two is a multiplication otherwise, in each
round, and instructions that multiply matrices wait for those (`moving.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from tile.backends.nvptx.emit.body import Body, Registers
from tile.backends.nvptx.emit.moving import has_products
from tile.ir.core import Operation, Value
from tile.ir.effects import constant_of
from tile.ir.ops import arith
from tile.ir.types import I32, Shared
from tile.simt import ops


@dataclass(frozen=True)
class Turn:
    """A value that a `for` carries and that each round adds 1 to, modulo a number of stages.

    Or modulo twice as many, where that tells the phase of a barrier.
    """

    value: Value
    first: int
    stages: int


@dataclass(frozen=True)
class Turns:
    """The turns of a `for` that are counted so."""

    turns: tuple[Turn, ...]

    @classmethod
    def by(cls, loop: Operation) -> Turns:
        """Those of a loop with products of groups, each with each of its numbers of stages."""
        (region,) = loop.regions
        if region.last is None or not has_products(loop):
            return cls(())
        carried = zip(region.args[1:], loop.inputs[3:], region.last.inputs, strict=True)
        return cls(
            tuple(
                Turn(value, first % stages, stages)
                for value, init, following in carried
                if value.type == I32 and isinstance(first := constant_of(init), int)
                if _is_next(following, value)
                for stages in _stages(value)
            )
        )

    @property
    def types(self) -> list[str]:
        """The types of their phis."""
        return ["i32" for _ in self.turns]

    @property
    def first(self) -> Registers:
        """The stages of the first round."""
        return [str(turn.first) for turn in self.turns]

    def assign(self, body: Body, stages: Registers) -> None:
        """Say which registers have the stages of a round."""
        for turn, stage in zip(self.turns, stages, strict=True):
            body.turns[body.scalar(turn.value), turn.stages] = stage

    def next(self, body: Body, stages: Registers) -> Registers:
        """The stages of the next round."""
        counts = [turn.stages for turn in self.turns]
        return [_next(body, stage, count) for stage, count in zip(stages, counts, strict=True)]


def _next(body: Body, stage: str, stages: int) -> str:
    following = body.new(f"add i32 {stage}, 1")
    last = body.new(f"icmp eq i32 {following}, {stages}")
    return body.new(f"select i1 {last}, i32 0, i32 {following}")


_TIMES = {ops.shared.slot: 1, ops.bulk.barrier_wait: 2}


def _is_next(following: Value, value: Value) -> bool:
    op = following.op
    return (
        op is not None
        and op.defn is arith.add
        and op.inputs[0] is value
        and constant_of(op.inputs[1]) == 1
    )


def _stages(turn: Value) -> list[int]:
    """The stages of a turn's rings, where they are no powers of two; each number once."""
    counts = (_count(op) for op in turn.users)
    return [number for number in dict.fromkeys(counts) if number & (number - 1)]


def _count(user: Operation) -> int:
    """Modulo what an operation wants to know a turn: stages, or two rounds of them for a phase."""
    times = _TIMES.get(user.defn, 0)
    ring = user.inputs[0].type
    return times * ring.stages if times and isinstance(ring, Shared) else 0


def stage_of(body: Body, turn: str, shift: int, stages: int) -> str:
    """The stage `(turn + shift) mod stages`."""
    counted = body.turns.get((turn, stages))
    if counted is None:
        number = body.new(f"add i32 {turn}, {shift}") if shift else turn
        return body.new(f"urem i32 {number}, {stages}")
    if not shift % stages:
        return counted
    later = body.new(f"add i32 {counted}, {shift % stages}")
    inside = body.new(f"icmp ult i32 {later}, {stages}")
    around = body.new(f"sub i32 {later}, {stages}")
    return body.new(f"select i1 {inside}, i32 {later}, i32 {around}")


def parity_of(body: Body, turn: str, shift: int, stages: int) -> str:
    """Whether `(turn + shift) / stages` is odd, as 0 or 1 in 32 bits."""
    if (turn, 2 * stages) in body.turns:
        counted = stage_of(body, turn, shift, 2 * stages)
        odd = body.new(f"icmp uge i32 {counted}, {stages}")
        return body.new(f"zext i1 {odd} to i32")
    number = body.new(f"add i32 {turn}, {shift}") if shift else turn
    phase = body.new(f"udiv i32 {number}, {stages}")
    return body.new(f"and i32 {phase}, 1")
