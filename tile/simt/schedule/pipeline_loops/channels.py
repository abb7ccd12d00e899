"""Channels: multi-buffers that a producer partition fills by TMA loads and the program reads.

A channel carries the tiles of some loads that the same wgmmas read. Each of its stages has two
mbarriers: `full` completes a phase when the loads of the stage have arrived, `empty` when all warps
of the program have released it. Both partitions count their position, a stage and the parity of its
phase, from one iteration to the next, through all loops around: so a producer runs on into the
next iteration of an outer loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tile.ir.builder import Builder
from tile.ir.core import Block, Operation, Value
from tile.ir.ops import arith, control
from tile.ir.ops.arith import Predicate
from tile.ir.types import I1, I32
from tile.simt.ops import shared, tma
from tile.simt.ops.layout_inference import LayoutBuilder
from tile.simt.schedule.backward_slice import add_loop_carried
from tile.simt.schedule.pipeline_loops.multi_buffer import BufferedLoad, allocate_buffer
from tile.simt.schedule.pipeline_loops.tma_loads import (
    block_pointers_of,
    issue_load,
    mbarriers_type,
)


@dataclass(frozen=True)
class Position:
    """A stage of a channel, and the parity of the phase of its mbarriers; both are i32."""

    index: Value
    phase: Value

    def next(self, build: Builder, stages: int) -> Position:
        """Return the position of the next iteration."""
        one = build.constant(1, I32)
        following = build(arith.add, self.index, one)
        wraps = build(arith.cmp, following, build.constant(stages, I32), predicate=Predicate.EQ)
        index = build(arith.select, wraps, build.constant(0, I32), following)
        phase = build(arith.select, wraps, self.other_phase(build), self.phase)
        return Position(index, phase)

    def other_phase(self, build: Builder) -> Value:
        """Return the parity of the phase before this one, and after it."""
        return build(arith.xor, self.phase, build.constant(1, I32))


@dataclass(frozen=True)
class ChannelLoads:
    """The loads of one iteration of a loop that go through a channel.

    behind: 1 if the program releases the stage only in the next iteration, since a wgmma that reads
        it stays in flight until then; else 0.
    """

    loop: Operation
    loads: tuple[BufferedLoad, ...]
    behind: int

    @property
    def signature(self) -> object:
        """A value that is equal for loops which can share a channel."""
        return tuple(each.buffer(1) for each in self.loads), self.behind

    @property
    def bytes(self) -> int:
        """The size of one stage, in bytes."""
        return sum(each.bytes for each in self.loads)


class Channel:
    """The buffers and mbarriers of a channel of `stages` stages."""

    def __init__(self, build: LayoutBuilder, first: ChannelLoads, stages: int, warps: int) -> None:
        self.stages = stages
        self.bytes = first.bytes
        self.behind = first.behind
        self.buffers = [allocate_buffer(build, load, stages) for load in first.loads]
        self.full = self._mbarriers(build, "full", 1)
        self.empty = self._mbarriers(build, "empty", warps)

    def _mbarriers(self, build: LayoutBuilder, name: str, count: int) -> Value:
        mbarriers = build(shared.local_alloc, result=mbarriers_type(self.stages))
        mbarriers.name = name
        build.op(tma.mbarrier_init, mbarriers, count=count)
        return mbarriers

    def load(
        self,
        build: LayoutBuilder,
        loads: Sequence[Operation],
        position: Position,
        mapping: Mapping[Value, Value],
    ) -> list[Operation]:
        """Build the producer's part of an iteration; return the operations.

        loads: the program's loads. mapping: the producer's values, by the program's.
        """
        # The stage is empty once the program has arrived for the iteration that used it before.
        released = position.next(build, self.stages) if self.behind else position
        index, yes = position.index, build.constant(True, I1)
        ops = [
            build.op(
                tma.mbarrier_wait_parity, self.empty, released.index, released.other_phase(build)
            ),
            build.op(tma.mbarrier_arrive_expect_tx, self.full, index, yes, size=self.bytes),
        ]
        for load, buffer in zip(loads, self.buffers, strict=True):
            pointers = block_pointers_of(load)
            assert pointers is not None
            with build.at(load.loc):
                stage = build(shared.local_index, buffer, index)
                described = [mapping.get(value, value) for value in pointers.inputs[1:]]
                ops.append(issue_load(build, pointers, stage, self.full, index, yes, *described))
        return ops

    def end(self, build: LayoutBuilder) -> None:
        """Invalidate the mbarriers, once the program has waited for the last loads."""
        for mbarriers in (self.full, self.empty):
            build.op(tma.mbarrier_inval, mbarriers)


Positions = dict[Channel, Position]
# Build a partition's part of a loop's iteration, which begins at some positions. Returns those of
# the next iteration.
Visit = Callable[[Operation, Positions], Positions]


def thread_positions(
    block: Block, channels: Mapping[Operation, Sequence[Channel]], at: Positions, visit: Visit
) -> Positions:
    """Carry positions through a block: through the loops of `channels`, and loops around them.

    channels: the channels of each innermost loop that uses some.
    Returns the positions after the block.
    """
    at = dict(at)
    for op in list(block):
        if op.defn is control.for_:
            used = _used(op, channels)
            if used:
                _through(op, used, channels, at, visit)
    return at


def _used(loop: Operation, channels: Mapping[Operation, Sequence[Channel]]) -> list[Channel]:
    inside = [channel for op in loop.walk() for channel in channels.get(op, ())]
    return list(dict.fromkeys(inside))


def _through(
    loop: Operation,
    used: Sequence[Channel],
    channels: Mapping[Operation, Sequence[Channel]],
    at: Positions,
    visit: Visit,
) -> None:
    """Carry the positions of channels through a loop, and set those after it."""
    count = len(loop.results)

    def advance(args: list[Value]) -> list[Value]:
        inner = _unflat(used, args)
        if loop in channels:
            return _flat(used, visit(loop, inner))
        return _flat(used, thread_positions(loop.regions[0], channels, inner, visit))

    for arg, name in zip(
        add_loop_carried(loop, _flat(used, at), advance),
        ("index", "phase") * len(used),
        strict=True,
    ):
        arg.name = name
    at |= _unflat(used, loop.results[count:])


def _flat(channels: Sequence[Channel], at: Positions) -> list[Value]:
    return [value for channel in channels for value in (at[channel].index, at[channel].phase)]


def _unflat(channels: Sequence[Channel], values: Sequence[Value]) -> Positions:
    pairs = zip(values[::2], values[1::2], strict=True)
    return {channel: Position(*pair) for channel, pair in zip(channels, pairs, strict=True)}


def start_of(build: Builder, channels: Sequence[Channel]) -> Positions:
    """Return the positions of the first iteration."""
    zero = build.constant(0, I32)
    return dict.fromkeys(channels, Position(zero, zero))
