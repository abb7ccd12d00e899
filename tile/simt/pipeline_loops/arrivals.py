"""Boxes that are copied in bulk, rounds ahead, and the barriers on which they arrive.

barrier_expect %b, %turn, %there {size = 16384, shift = 2}
bulk_copy %later, %b, %turn, %there, %base, ... {shift = 2}
"""

from __future__ import annotations

from collections.abc import Sequence

from tile.ir.core import Operation, Value
from tile.ir.ops import descriptor
from tile.ir.types import I1, I64, Shared
from tile.simt.layout_rules import LayoutBuilder
from tile.simt.layouts.dims import OFFSET, axis_name
from tile.simt.layouts.layout import LinearLayout
from tile.simt.ops import bulk, shared
from tile.simt.pipeline_loops.rings import Buffered, Ring
from tile.simt.pipeline_loops.room import aligned
from tile.simt.pipeline_loops.slices import Round

_ONE = LinearLayout(((OFFSET, ()),), ((axis_name(0), 0),))


def box_of(load: Operation) -> Operation | None:
    """The `box_pointers` of a load, if it reads a box."""
    made = load["ptr"].op
    return made if made is not None and made.defn is descriptor.box_pointers else None


def barrier_bytes(copied: Sequence[Buffered], stages: int) -> int:
    """The shared memory that the barriers for some copies take."""
    return aligned(_ring(stages).bytes) if any(each.bulk for each in copied) else 0


def _ring(stages: int) -> Shared:
    return Shared((1,), I64, _ONE, stages)


class Arrivals:
    """The bulk copies of a loop: all of a round arrive on one barrier."""

    def __init__(self, build: LayoutBuilder, rings: Sequence[Ring], stages: int) -> None:
        self.rings = rings
        self.size = sum(ring.tile.numel * ring.tile.of.itemsize for ring in rings)
        self.bars = build(shared.alloc, result=_ring(stages))
        self.bars.name = "arrivals"
        build.op(bulk.barrier_init, self.bars)

    def begin(self, round_: Round, turn: Value, shift: int) -> None:
        """Begin those for a round."""
        build, exists = round_.build, round_.exists
        if exists is None:
            exists = build.constant(True, I1)
        build.op(bulk.barrier_expect, self.bars, turn, exists, size=self.size, shift=shift)
        for ring in self.rings:
            self._copy(ring, round_, turn, exists, shift)

    def _copy(self, ring: Ring, round_: Round, turn: Value, exists: Value, shift: int) -> None:
        build, box = round_.build, box_of(ring.load)
        assert box is not None
        with build.at(ring.load.loc):
            stage = ring.stage(build, turn, shift)
            numbers = [round_.of(value) for value in box.inputs[2:]]
            base = round_.of(box.inputs[1])
            build.op(bulk.bulk_copy, stage, self.bars, turn, exists, base, *numbers, shift=shift)

    def wait(self, build: LayoutBuilder, turn: Value) -> None:
        """Wait for those of the round at hand."""
        build.op(bulk.barrier_wait, self.bars, turn)

    def end(self, build: LayoutBuilder) -> None:
        """Nothing is under way: rounds that are not there have begun nothing."""
        build.op(bulk.barrier_free, self.bars)
