"""Copies to shared memory, several rounds ahead, in rings of buffers."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tile.ir.core import Operation, Value
from tile.ir.ops import arith
from tile.ir.types import I32
from tile.simt.layout_rules import LayoutBuilder
from tile.simt.ops import group, shared
from tile.simt.pipeline_loops.arrivals import Arrivals
from tile.simt.pipeline_loops.doubled import store_in_turns
from tile.simt.pipeline_loops.loads import mask_in
from tile.simt.pipeline_loops.rings import Buffered, Ring
from tile.simt.pipeline_loops.room import Factor, Room
from tile.simt.pipeline_loops.running import keep_running, running
from tile.simt.pipeline_loops.slices import Ahead, Round, Slice


def copy_ahead(
    copied: Sequence[Buffered],
    sources: Slice,
    stages: int,
    top: Operation,
    room: Room,
    doubled: Collection[Factor] = (),
) -> None:
    """Make loads of a loop into copies that are begun `stages` - 1 rounds ahead, before `top`.

    In each round the loop first waits for its own copies. The barrier that this takes also
    separates the last round's reads of a stage from the copies to it that are begun then. Products
    that go on into the next round (`running`) are done when its own have begun, and then the copies
    to what they read begin; of theirs, the factors `doubled` get two places. Bulk copies arrive on
    barriers, and others in groups; if there are no others, they begin behind the first product of a
    round.
    """
    loop = sources.loop
    products = running(loop, copied, room, doubled)
    behind = None if products is None else keep_running(products)
    ahead = Ahead(sources, stages - 1, behind or _behind_a_product(top, copied))
    build = LayoutBuilder.before(loop)
    rings = [Ring(build, each, stages) for each in copied]
    by_machine = [ring for ring in rings if ring.bulk]
    by_threads = [ring for ring in rings if not ring.bulk]
    copies: list[Arrivals | Groups] = [Arrivals(build, by_machine, stages)] if by_machine else []
    if by_threads:
        copies.append(Groups(by_threads, stages))
    start = build.constant(0, I32)
    for number, early in enumerate(ahead.before_loop()):
        for each in copies:
            each.begin(early, start, number)

    def begin(later: Round, args: list[Value]) -> list[Value]:
        (turn,) = args
        turn.name = "turn"
        for each in copies:
            each.begin(later, turn, stages - 1)
        return [later.build(arith.add, turn, later.build.constant(1, I32))]

    (body,) = loop.regions
    earlier = top.prev
    (turn,) = ahead.in_loop([start], begin)
    at_top = LayoutBuilder(body, body.first if earlier is None else earlier.next, loop.loc)
    for each in copies:
        each.wait(at_top, turn)
    for ring in rings:
        ring.serve(turn)
    store_in_turns(loop, doubled, turn)
    after = LayoutBuilder(build.block, loop.next, loop.loc)
    for each in copies:
        each.end(after)


def _behind_a_product(top: Operation, copied: Sequence[Buffered]) -> Operation:
    """Where bulk copies begin: when the first product has, which need not wait for that then."""
    op: Operation | None = top if all(each.bulk for each in copied) else None
    while op is not None and op.defn is not group.group_dot:
        op = op.next
    return top if op is None or op.next is None else op.next


class Groups:
    """Copies that threads begin, in groups: one for each round."""

    def __init__(self, rings: Sequence[Ring], stages: int) -> None:
        self.rings = rings
        self.stages = stages

    def begin(self, round_: Round, turn: Value, shift: int) -> None:
        """Begin those for a round."""
        for ring in self.rings:
            _copy(ring, round_, turn, shift)
        round_.build.op(shared.copy_commit)

    def wait(self, build: LayoutBuilder, turn: Value) -> None:
        """Wait for those of the round at hand."""
        build.op(shared.copy_wait, pending=self.stages - 2)

    def end(self, build: LayoutBuilder) -> None:
        """Wait for all."""
        build.op(shared.copy_wait, pending=0)


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
