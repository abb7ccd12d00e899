"""TMA loads of descriptor blocks, some iterations ahead, and the mbarriers that they complete on.

mbarrier_arrive_expect_tx %b, %iteration, %exists {size = 16384, stage_offset = 2}
tma_load %later, %b, %iteration, %exists, %base, ... {stage_offset = 2}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tile.ir.core import Operation, Value
from tile.ir.ops import descriptor
from tile.ir.types import I1, I64, Shared
from tile.simt.layouts.dims import OFFSET, axis_name
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.ops import shared, tma
from tile.simt.ops.layout_inference import LayoutBuilder
from tile.simt.schedule.pipeline_loops.multi_buffer import BufferedLoad, MultiBuffer
from tile.simt.schedule.pipeline_loops.shared_budget import align_up

_ONE = LinearLayout(((OFFSET, ()),), ((axis_name(0), 0),))


def block_pointers_of(load: Operation) -> Operation | None:
    """Return the operation that states which block of an array a load reads, or None."""
    pointers = load["ptr"].op
    is_block = pointers is not None and pointers.defn in descriptor.BLOCK_POINTERS
    return pointers if is_block else None


def issue_load(build: LayoutBuilder, pointers: Operation, *operands: Value) -> Operation:
    """Build the TMA load of a block that `pointers` address.

    operands: a stage, the mbarriers, an iteration, a predicate, and the operands of `pointers`
    without the pointers, or what stands for them.
    """
    if pointers.defn is descriptor.descriptor_pointers:
        return build.op(tma.tma_load, *operands)
    window = {name: pointers[name] for name in ("lower", "upper", "steps")}
    return build.op(tma.tma_load_im2col, *operands, **window)


def mbarrier_bytes(async_loads: Sequence[BufferedLoad], stages: int) -> int:
    """Return the bytes of shared memory that the mbarriers of asynchronous loads take."""
    uses_tma = any(load.tma for load in async_loads)
    return align_up(mbarriers_type(stages).bytes) if uses_tma else 0


def mbarriers_type(stages: int) -> Shared:
    """Return the type of a multi-buffer of mbarriers."""
    return Shared((1,), I64, _ONE, stages)


class TmaLoads:
    """The TMA loads of a loop. All loads of one iteration complete on one mbarrier."""

    def __init__(self, build: LayoutBuilder, buffers: Sequence[MultiBuffer], stages: int) -> None:
        self.buffers = buffers
        self.bytes = sum(buffer.tile.of.bytes_of(buffer.tile.numel) for buffer in buffers)
        self.mbarriers = build(shared.local_alloc, result=mbarriers_type(stages))
        self.mbarriers.name = "mbarriers"
        build.op(tma.mbarrier_init, self.mbarriers)

    def issue(
        self, build: LayoutBuilder, mapping: Mapping[Value, Value], iteration: Value
    ) -> list[Operation]:
        """Issue the loads of an iteration."""
        active = build.constant(True, I1)
        arrive = build.op(
            tma.mbarrier_arrive_expect_tx, self.mbarriers, iteration, active, size=self.bytes
        )
        loads = [self._load(each, build, mapping, iteration, active) for each in self.buffers]
        return [arrive, *loads]

    def _load(
        self,
        buffer: MultiBuffer,
        build: LayoutBuilder,
        mapping: Mapping[Value, Value],
        iteration: Value,
        active: Value,
    ) -> Operation:
        pointers = block_pointers_of(buffer.load)
        assert pointers is not None
        with build.at(buffer.load.loc):
            stage = buffer.stage(build, iteration)
            array = [mapping.get(operand, operand) for operand in pointers.inputs[1:]]
            return issue_load(build, pointers, stage, self.mbarriers, iteration, active, *array)

    def wait(self, build: LayoutBuilder, iteration: Value) -> Operation:
        """Wait for the loads of an iteration."""
        return build.op(tma.mbarrier_wait, self.mbarriers, iteration)

    def end(self, build: LayoutBuilder) -> None:
        """Invalidate the mbarriers.

        No load is in flight, since none is issued for iterations that do not exist.
        """
        build.op(tma.mbarrier_inval, self.mbarriers)
