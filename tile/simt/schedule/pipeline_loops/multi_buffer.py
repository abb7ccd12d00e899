"""Multi-buffers in shared memory for tiles that a loop loads: a stage per iteration in flight.

Counts of iterations name the stages, and those of mbarriers. A loop counts its iterations from 0.
The count goes on through loops around it, where a producer and the program each have one: so the
producer runs on into the next iteration of an outer loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from tile.ir.builder import Builder
from tile.ir.core import Block, Operation, Value
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith, control, memory
from tile.ir.shared_type import Shared
from tile.ir.types import I32, Tile
from tile.simt.hopper.tma_boxes import BlockStrips, block_strips
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.memory.allocate_shared import MULTI_BUFFER_ALIGNMENT, SWIZZLE_ALIGNMENT
from tile.simt.ops import shared, tma
from tile.simt.ops.layout_inference import LayoutBuilder
from tile.simt.schedule.pipeline_loops.buffer_readers import (
    Reader,
    dot_operands,
    readable_from,
)
from tile.simt.schedule.shared_memory import align_up
from tile.transforms.region_utils import add_loop_carried


@dataclass(frozen=True)
class BufferedLoad:
    """A load whose tiles go through shared memory, and the layout that they have there.

    issue: the operation that fills the buffer; `load` if threads load and store the tile.
    stages: of the buffer.
    extents: of the part of the tile that TMA loads, if not all.
    """

    load: Operation
    layout: LinearLayout
    issue: OpDef = memory.load
    stages: int = 1
    extents: tuple[int, ...] = ()

    @property
    def tma(self) -> bool:
        """True if TMA loads a whole descriptor block."""
        return self.issue in (tma.tma_load, tma.tma_load_im2col)

    @property
    def tile(self) -> Tile:
        assert isinstance(self.load.result.type, Tile)
        return self.load.result.type

    @property
    def buffer(self) -> Shared:
        """The type of the buffer."""
        return Shared(self.tile.dims, self.tile.of, self.layout, self.stages, self.used)

    @property
    def used(self) -> int:
        """The first bytes of a stage that TMA fills, if not all; stages are aligned for wgmma."""
        if not self.extents:
            return 0
        used = align_up(self.strips.end, SWIZZLE_ALIGNMENT)
        return used if used < self.tile.of.bytes_of(self.tile.numel) else 0

    @property
    def operands(self) -> list[Reader]:
        """The wgmma operands that read the buffer itself."""
        return readable_from(dot_operands(self.load.result), self.layout)

    @property
    def strips(self) -> BlockStrips:
        """The strips that TMA copies to a stage."""
        strips = block_strips(self.layout, self.tile.of.storage_bits)
        assert strips is not None
        return replace(strips, extents=self.extents)

    @property
    def bytes(self) -> int:
        """The shared memory that the buffer takes, in bytes."""
        alignment = SWIZZLE_ALIGNMENT if self.operands else MULTI_BUFFER_ALIGNMENT
        return align_up(self.buffer.bytes, alignment)

    def allocate(self, build: LayoutBuilder) -> Value:
        """Allocate the buffer."""
        with build.at(self.load.loc):
            buffer = build(shared.local_alloc, result=self.buffer)
        buffer.name = self.load.result.name
        return buffer


def in_stages(loads: Iterable[BufferedLoad], stages: int) -> tuple[BufferedLoad, ...]:
    """Return loads with buffers of so many stages; none for 0."""
    return tuple([replace(load, stages=stages) for load in loads]) if stages else ()


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
