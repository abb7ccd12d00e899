"""Copies to shared memory, several rounds ahead, in rings of buffers."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tile.ir.core import Operation, Value
from tile.ir.ops import arith
from tile.ir.types import I32
from tile.simt.layout_rules import LayoutBuilder
from tile.simt.ops import shared
from tile.simt.pipeline_loops.doubled import store_in_turns
from tile.simt.pipeline_loops.loads import mask_in
from tile.simt.pipeline_loops.rings import Buffered, Ring
from tile.simt.pipeline_loops.room import Factor
from tile.simt.pipeline_loops.running import keep_running, running
from tile.simt.pipeline_loops.slices import Ahead, Round, Slice


def copy_ahead(
    copied: Sequence[Buffered],
    sources: Slice,
    stages: int,
    top: Operation,
    doubled: Collection[Factor] = (),
) -> None:
    """Make loads of a loop into copies that are begun `stages` - 1 rounds ahead, before `top`.

    In each round the loop first waits for its own copies. The barrier that this takes also
    separates the last round's reads of a stage from the copies to it that are begun then. Products
    that go on into the next round (`running`) are done when its own have begun, and then the copies
    to what they read begin; of theirs, the factors `doubled` get two places.
    """
    loop = sources.loop
    products = running(loop, [each.load for each in copied], doubled)
    begin_before = keep_running(loop, products) if products else top
    ahead = Ahead(sources, stages - 1, begin_before)
    build = LayoutBuilder.before(loop)
    rings = [Ring(build, each, stages) for each in copied]
    start = build.constant(0, I32)
    for number, early in enumerate(ahead.before_loop()):
        for ring in rings:
            _copy(ring, early, start, number)
        build.op(shared.copy_commit)
    at_top = LayoutBuilder(loop.regions[0], top, loop.loc)
    at_top.op(shared.copy_wait, pending=stages - 2)

    def begin(later: Round, args: list[Value]) -> list[Value]:
        (turn,) = args
        turn.name = "turn"
        for ring in rings:
            _copy(ring, later, turn, stages - 1)
        build = later.build
        build.op(shared.copy_commit)
        return [build(arith.add, turn, build.constant(1, I32))]

    (turn,) = ahead.in_loop([start], begin)
    for ring in rings:
        ring.serve(turn)
    store_in_turns(loop, doubled, turn)
    after = LayoutBuilder(build.block, loop.next, loop.loc)
    after.op(shared.copy_wait, pending=0)


def _copy(ring: Ring, round_: Round, turn: Value, shift: int) -> None:
    """Begin the copy for a round."""
    build, load = round_.build, ring.load
    with build.at(load.loc):
        stage = ring.stage(build, turn, shift)
        build.op(
            shared.local_copy,
            stage,
            round_.of(load["ptr"]),
            mask_in(round_, load),
            cache=load["cache"],
            eviction=load["eviction"],
        )
