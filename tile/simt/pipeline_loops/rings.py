"""Buffers in shared memory for tiles that a loop loads: one stage for each round under way."""

from __future__ import annotations

from dataclasses import dataclass

from tile.ir.core import Operation, Value
from tile.ir.types import Shared, Tile, with_layout
from tile.simt.layout_rules import LayoutBuilder
from tile.simt.layouts.layout import LinearLayout
from tile.simt.ops import shared
from tile.simt.pipeline_loops.factors import factors_in, read_from
from tile.simt.pipeline_loops.readers import hand_over
from tile.simt.plan_shared import FACTOR_ALIGNMENT, RING_ALIGNMENT


@dataclass(frozen=True)
class Buffered:
    """A load whose tiles go through shared memory, and the layout that they have there.

    `bulk` says that they are copied as a whole.
    """

    load: Operation
    layout: LinearLayout
    bulk: bool = False

    @property
    def tile(self) -> Tile:
        assert isinstance(self.load.result.type, Tile)
        return self.load.result.type

    @property
    def bytes(self) -> int:
        """What one stage takes."""
        return self.buffer(1).bytes

    @property
    def alignment(self) -> int:
        """Where it may begin, in bytes."""
        factors = factors_in(self.load.result, self.layout)
        return FACTOR_ALIGNMENT if factors else RING_ALIGNMENT

    def buffer(self, stages: int) -> Shared:
        return Shared(self.tile.dims, self.tile.of, self.layout, stages)


class Ring:
    """The buffer of a load."""

    def __init__(self, build: LayoutBuilder, buffered: Buffered, stages: int) -> None:
        self.load, self.tile, self.stages = buffered.load, buffered.tile, stages
        self.bulk = buffered.bulk
        with build.at(self.load.loc):
            self.buffer = build(shared.alloc, result=buffered.buffer(stages))
        self.buffer.name = self.load.result.name

    def stage(self, build: LayoutBuilder, turn: Value, shift: int = 0) -> Value:
        """The stage for the round `shift` rounds after that of a turn."""
        if self.stages == 1:
            return self.buffer
        return build(shared.slot, self.buffer, turn, shift=shift)

    def serve(self, turn: Value) -> None:
        """Give the users of the load what is in the buffer, once for each layout they want.

        Products of groups that can read the buffer itself get that.
        """
        build = LayoutBuilder.before(self.load)
        stage = self.stage(build, turn)
        known: dict[LinearLayout, Value] = {}

        def read(layout: LinearLayout) -> Value:
            if layout not in known:
                known[layout] = build(
                    shared.local_load, stage, result=with_layout(self.tile, layout)
                )
                known[layout].name = self.load.result.name
            return known[layout]

        read_from(self.load.result, stage)
        hand_over(self.load.result, read)
