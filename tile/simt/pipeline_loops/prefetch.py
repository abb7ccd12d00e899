"""Loads one round ahead, into registers; from there into shared memory, if that is on their way."""

from __future__ import annotations

from collections.abc import Sequence

from tile.ir.core import Operation, Value
from tile.ir.ops import arith
from tile.ir.types import I32
from tile.simt.layout_rules import LayoutBuilder
from tile.simt.ops import shared
from tile.simt.pipeline_loops.loads import load_in
from tile.simt.pipeline_loops.rings import Buffered, Ring
from tile.simt.pipeline_loops.slices import Ahead, Round, Slice


def carry_ahead(loads: Sequence[Operation], sources: Slice, top: Operation) -> None:
    """Make a loop carry what its loads read, and load for the next round before `top`."""
    ahead = Ahead(sources, 1, top)
    (first,) = ahead.before_loop()
    tiles = [load_in(first, load) for load in loads]
    args = ahead.in_loop(tiles, lambda later, _: [load_in(later, load) for load in loads])
    for load, value in zip(loads, args, strict=True):
        load.result.replace_by(value)


def store_ahead(stored: Sequence[Buffered], sources: Slice, stages: int, top: Operation) -> None:
    """Load for the next round before `top`, and store that to shared memory at a round's end.

    In a ring of two stages the next round's tiles do not meet this round's, so that one barrier a
    round is enough; with one stage it takes two.
    """
    loop, ahead = sources.loop, Ahead(sources, 1, top)
    (body,) = loop.regions
    assert body.last is not None
    build, end = LayoutBuilder.before(loop), LayoutBuilder.before(body.last)
    rings = [Ring(build, each, stages) for each in stored]
    start = build.constant(0, I32)
    (first,) = ahead.before_loop()
    tiles = [load_in(first, ring.load) for ring in rings]
    for ring, tile in zip(rings, tiles, strict=True):
        _store(ring, build, start, 0, tile)

    def later(round_: Round, args: list[Value]) -> list[Value]:
        (turn,) = args
        turn.name = "turn"
        for ring in rings:
            tile = load_in(round_, ring.load)
            _store(ring, end, turn, 1, tile)
        return [end(arith.add, turn, end.constant(1, I32))]

    (turn,) = ahead.in_loop([start], later)
    for ring in rings:
        ring.serve(turn)


def _store(ring: Ring, build: LayoutBuilder, turn: Value, shift: int, tile: Value) -> None:
    with build.at(ring.load.loc):
        build.op(shared.local_store, ring.stage(build, turn, shift), tile)
