"""Multi-buffers in shared memory for tiles that a loop loads: a stage per iteration in flight."""

from __future__ import annotations

from dataclasses import dataclass

from tile.ir.core import OpDef, Operation, Value
from tile.ir.ops import memory
from tile.ir.types import Shared, Tile
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.memory.allocate_shared import MULTI_BUFFER_ALIGNMENT, SWIZZLE_ALIGNMENT
from tile.simt.ops import shared, tma
from tile.simt.ops.layout_inference import LayoutBuilder
from tile.simt.schedule.pipeline_loops.buffer_readers import operands_readable_from


@dataclass(frozen=True)
class BufferedLoad:
    """A load whose tiles go through shared memory, and the layout that they have there.

    issue: the operation that fills the buffer; `load` if threads load and store the tile.
    """

    load: Operation
    layout: LinearLayout
    issue: OpDef = memory.load

    @property
    def tma(self) -> bool:
        """True if TMA loads a whole descriptor block."""
        return self.issue in (tma.tma_load, tma.tma_load_im2col)

    @property
    def tile(self) -> Tile:
        assert isinstance(self.load.result.type, Tile)
        return self.load.result.type

    @property
    def bytes(self) -> int:
        """The size of one stage, in bytes."""
        return self.buffer(1).bytes

    @property
    def alignment(self) -> int:
        """The alignment of the buffer, in bytes."""
        operands = operands_readable_from(self.load.result, self.layout)
        return SWIZZLE_ALIGNMENT if operands else MULTI_BUFFER_ALIGNMENT

    def buffer(self, stages: int) -> Shared:
        return Shared(self.tile.dims, self.tile.of, self.layout, stages)


def allocate_buffer(build: LayoutBuilder, buffered: BufferedLoad, stages: int) -> Value:
    """Allocate the multi-buffer of a load, of `stages` stages."""
    with build.at(buffered.load.loc):
        buffer = build(shared.local_alloc, result=buffered.buffer(stages))
    buffer.name = buffered.load.result.name
    return buffer
