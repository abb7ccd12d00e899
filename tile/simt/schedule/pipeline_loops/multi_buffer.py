"""Multi-buffers in shared memory for tiles that a loop loads: a stage per iteration in flight."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tile.ir.core import Operation, Value
from tile.ir.op_definition import OpDef
from tile.ir.ops import memory
from tile.ir.shared_type import Shared
from tile.ir.types import Tile
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.memory.allocate_shared import MULTI_BUFFER_ALIGNMENT, SWIZZLE_ALIGNMENT
from tile.simt.ops import shared, tma
from tile.simt.ops.layout_inference import LayoutBuilder
from tile.simt.schedule.pipeline_loops.buffer_readers import operands_readable_from
from tile.simt.schedule.shared_memory import align_up


@dataclass(frozen=True)
class BufferedLoad:
    """A load whose tiles go through shared memory, and the layout that they have there.

    issue: the operation that fills the buffer; `load` if threads load and store the tile.
    stages: of the buffer.
    """

    load: Operation
    layout: LinearLayout
    issue: OpDef = memory.load
    stages: int = 1

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
        return Shared(self.tile.dims, self.tile.of, self.layout, self.stages)

    @property
    def stage_bytes(self) -> int:
        """The size of a stage, in bytes."""
        return self.buffer.bytes // self.stages

    @property
    def bytes(self) -> int:
        """The shared memory that the buffer takes, in bytes."""
        operands = operands_readable_from(self.load.result, self.layout)
        alignment = SWIZZLE_ALIGNMENT if operands else MULTI_BUFFER_ALIGNMENT
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
