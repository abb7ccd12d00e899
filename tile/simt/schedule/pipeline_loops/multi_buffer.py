"""Multi-buffers in shared memory for tiles that a loop loads: a stage per iteration in flight.

Counts of iterations name the stages, and those of mbarriers. A loop counts its iterations from 0.
The count goes on through loops around it, where a producer and the program each have one: so the
producer runs on into the next iteration of an outer loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial

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
    def can_halve(self) -> bool:
        """True if the block can be loaded by two programs, half by each."""
        return self.issue is tma.tma_load and self.strips.split is not None

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


def count_through(
    block: Block, loops: AbstractSet[Operation], count: Value
) -> dict[Operation, Value]:
    """Count the iterations of some loops of a block together, which none of them contains another.

    The count goes on through loops around them. Returns it in an iteration of each loop.
    """
    counts: dict[Operation, Value] = {}

    def through(block: Block, count: Value) -> Value:
        """Carry the count through a block; return it after that."""
        for loop in list(block):
            if loop.defn is control.for_ and not loops.isdisjoint(loop.walk()):
                add_loop_carried(loop, [count], partial(advance, loop))
                count = loop.results[-1]
        return count

    def advance(loop: Operation, args: Sequence[Value]) -> list[Value]:
        (count,) = args
        count.name = "iteration"
        if loop not in loops:
            return [through(loop.regions[0], count)]
        counts[loop] = count
        end = Builder(loop.regions[0], loop.regions[0].last, loop.loc)
        return [end(arith.add, count, end.constant(1, I32))]

    through(block, count)
    return counts
