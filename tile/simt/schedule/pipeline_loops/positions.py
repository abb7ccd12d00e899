"""Positions: the stage of multi-buffers and mbarriers that belongs to an iteration.

A loop counts its iterations, and their number names the stage. A producer and the program count a
stage and the parity of its phase instead, from one iteration to the next, through all loops around:
so the producer runs on into the next iteration of an outer loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tile.ir.builder import Builder
from tile.ir.core import Block, Operation, Value
from tile.ir.ops import arith, control
from tile.ir.ops.arith import Predicate
from tile.ir.types import I32, Shared
from tile.simt.ops import shared, tma
from tile.simt.ops.layout_inference import LayoutBuilder
from tile.simt.schedule.backward_slice import add_loop_carried


@dataclass(frozen=True)
class Position:
    """An iteration's number, which counts from 0; or with a phase, the index of its stage.

    phase: the parity of the phase of the stage's mbarriers.
    """

    number: Value
    phase: Value | None = None

    def stage(self, build: LayoutBuilder, buffer: Value) -> Value:
        """Return the stage of a multi-buffer."""
        if self.phase is not None:
            return build(shared.local_index, buffer, self.number)
        assert isinstance(buffer.type, Shared)
        one = buffer.type.stages == 1
        return buffer if one else build(shared.local_subview, buffer, self.number)

    def wait(self, build: LayoutBuilder, mbarriers: Value) -> Operation:
        """Wait for the phase of the iteration to complete."""
        if self.phase is None:
            return build.op(tma.mbarrier_wait, mbarriers, self.number)
        return build.op(tma.mbarrier_wait_parity, mbarriers, self.number, self.phase)

    def wait_before(self, build: LayoutBuilder, mbarriers: Value) -> Operation:
        """Wait for the phase before that of the iteration to complete."""
        return Position(self.number, self._other_phase(build)).wait(build, mbarriers)

    def next(self, build: Builder, stages: int) -> Position:
        """Return the position of the next iteration, with a phase."""
        one = build.constant(1, I32)
        following = build(arith.add, self.number, one)
        wraps = build(arith.cmp, following, build.constant(stages, I32), predicate=Predicate.EQ)
        index = build(arith.select, wraps, build.constant(0, I32), following)
        phase = build(arith.select, wraps, self._other_phase(build), self.phase)
        return Position(index, phase)

    def _other_phase(self, build: Builder) -> Value:
        assert self.phase is not None
        return build(arith.xor, self.phase, build.constant(1, I32))


def count_iterations(
    loop: Operation, before: LayoutBuilder, point: Operation | None
) -> tuple[Position, Operation]:
    """Let a loop count its iterations; the count is advanced in front of `point`.

    Returns the position of an iteration, and the first operation that advances the count.
    """
    build = LayoutBuilder(loop.regions[0], point, loop.loc)
    start, first = before.constant(0, I32), build.constant(1, I32)
    (iteration,) = add_loop_carried(loop, [start], lambda args: [build(arith.add, args[0], first)])
    iteration.name = "iteration"
    assert first.op is not None
    return Position(iteration), first.op


def first_position(build: Builder) -> Position:
    """Return the position of the first iteration, with a phase."""
    zero = build.constant(0, I32)
    return Position(zero, zero)


C = TypeVar("C")  # a channel
# Build an iteration of a loop, which begins at some positions. Returns those of the next one.
Visit = Callable[[Operation, dict[C, Position]], dict[C, Position]]


def thread_positions(
    block: Block,
    channels: Mapping[Operation, Sequence[C]],
    at: Mapping[C, Position],
    visit: Visit[C],
) -> dict[C, Position]:
    """Carry positions through a block: through the loops of `channels`, and loops around them.

    channels: the channels of each innermost loop that uses some.
    Returns the positions after the block.
    """
    at = dict(at)
    for op in list(block):
        if op.defn is control.for_:
            inside = [channel for inner in op.walk() for channel in channels.get(inner, ())]
            used = list(dict.fromkeys(inside))
            if used:
                at |= _through(op, used, channels, at, visit)
    return at


def _through(
    loop: Operation,
    used: Sequence[C],
    channels: Mapping[Operation, Sequence[C]],
    at: Mapping[C, Position],
    visit: Visit[C],
) -> dict[C, Position]:
    """Carry the positions of channels through a loop; return those after it."""
    count = len(loop.results)

    def advance(args: list[Value]) -> list[Value]:
        for arg, name in zip(args, ("index", "phase") * len(used), strict=True):
            arg.name = name
        inner = _unflat(used, args)
        if loop in channels:
            return _flat(used, visit(loop, inner))
        return _flat(used, thread_positions(loop.regions[0], channels, inner, visit))

    add_loop_carried(loop, _flat(used, at), advance)
    return _unflat(used, loop.results[count:])


def _flat(channels: Sequence[C], at: Mapping[C, Position]) -> list[Value]:
    pairs = [(at[channel].number, at[channel].phase) for channel in channels]
    return [value for pair in pairs for value in pair if value is not None]


def _unflat(channels: Sequence[C], values: Sequence[Value]) -> dict[C, Position]:
    pairs = zip(values[::2], values[1::2], strict=True)
    return {channel: Position(*pair) for channel, pair in zip(channels, pairs, strict=True)}
