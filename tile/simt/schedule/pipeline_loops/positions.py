"""Counts of iterations, which name the stages of multi-buffers and mbarriers.

A loop counts its iterations from 0. The count goes on through loops around it, where a producer and
the program each have one: so the producer runs on into the next iteration of an outer loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from tile.ir.builder import Builder
from tile.ir.core import Block, Operation, Value
from tile.ir.ops import arith, control
from tile.ir.shared_type import Shared
from tile.ir.types import I32
from tile.simt.ops import shared
from tile.simt.ops.layout_inference import LayoutBuilder
from tile.transforms.region_utils import add_loop_carried


def stage(build: LayoutBuilder, buffer: Value, iteration: Value) -> Value:
    """Return the stage of a multi-buffer in an iteration."""
    assert isinstance(buffer.type, Shared)
    one = buffer.type.stages == 1
    return buffer if one else build(shared.local_subview, buffer, iteration)


def count_iterations(
    loop: Operation, before: LayoutBuilder, point: Operation | None
) -> tuple[Value, Operation]:
    """Let a loop count its iterations; the count is advanced in front of `point`.

    Returns the count in an iteration, and the first operation that advances it.
    """
    build = LayoutBuilder(loop.regions[0], point, loop.loc)
    start, first = before.constant(0, I32), build.constant(1, I32)
    (iteration,) = add_loop_carried(loop, [start], lambda args: [build(arith.add, args[0], first)])
    iteration.name = "iteration"
    assert first.op is not None
    return iteration, first.op


C = TypeVar("C")  # a channel
# Build an iteration of a loop, which has some counts.
Visit = Callable[[Operation, dict[C, Value]], None]


def count_through(
    block: Block,
    channels: Mapping[Operation, Sequence[C]],
    counts: Mapping[C, Value],
    visit: Visit[C],
) -> dict[C, Value]:
    """Carry counts through a block: through the loops of `channels`, and loops around them.

    channels: the channels of each loop whose iterations use a stage of some.
    Returns the counts after the block.
    """
    counts = dict(counts)
    for op in list(block):
        if op.defn is control.for_:
            inside = [channel for inner in op.walk() for channel in channels.get(inner, ())]
            used = list(dict.fromkeys(inside))
            if used:
                counts |= _through(op, used, channels, counts, visit)
    return counts


def _through(
    loop: Operation,
    used: Sequence[C],
    channels: Mapping[Operation, Sequence[C]],
    counts: Mapping[C, Value],
    visit: Visit[C],
) -> dict[C, Value]:
    """Carry the counts of channels through a loop; return those after it."""
    before = len(loop.results)

    def advance(args: list[Value]) -> list[Value]:
        for arg in args:
            arg.name = "iteration"
        inner = dict(zip(used, args, strict=True))
        own = channels.get(loop, ())
        nested = {channel: count for channel, count in inner.items() if channel not in own}
        following = count_through(loop.regions[0], channels, nested, visit)
        if own:
            visit(loop, inner)
            end = Builder(loop.regions[0], loop.regions[0].last, loop.loc)
            following |= {each: end(arith.add, inner[each], end.constant(1, I32)) for each in own}
        return [following[channel] for channel in used]

    add_loop_carried(loop, [counts[channel] for channel in used], advance)
    return dict(zip(used, loop.results[before:], strict=True))
