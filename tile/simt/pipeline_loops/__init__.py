"""Software pipelining of loops: loads are begun rounds before their values are used."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from tile.analysis.alias import module_aliases
from tile.analysis.call_graph import CallGraph
from tile.analysis.liveness import liveness
from tile.ir.core import Module, Operation
from tile.ir.levels import Level
from tile.ir.passes import module_pass
from tile.simt.pipeline_loops.asynchronous import copy_ahead
from tile.simt.pipeline_loops.prefetch import carry_ahead, store_ahead
from tile.simt.pipeline_loops.room import Room
from tile.simt.pipeline_loops.select import Choice, Selection
from tile.simt.pipeline_loops.slices import DOTS, Slice, slice_of
from tile.simt.pressure import is_short, pressure, words
from tile.simt.target import GENERIC, SimtTarget
from tile.transforms.dce import remove_dead

__all__ = ["pipeline_loops"]


@module_pass("pipeline-loops", before=Level.LAID_OUT)
def pipeline_loops(module: Module, *, target: SimtTarget = GENERIC, num_stages: int = 3) -> None:
    """Begin the loads of a loop in earlier rounds, so that products need not wait for them.

    Loads that feed a product become asynchronous copies to a ring of `num_stages` buffers in
    shared memory, begun `num_stages` - 1 rounds ahead. Where the target has no such copies, or none
    that suit, they are done one round ahead, if there are registers for it. A loop that states its
    own `num_stages` has that many, and its other loads are done one round ahead, too.

        for %i = %a to %n step %c {               %m = alloc : shared<.., stages = 3>
          %x = load %p                            // copies for the first two rounds, as below
          %y = convert_layout %x                  for %i = %a to %n step %c iter(%turn = %0) {
          ..                                        copy_wait {pending = 1}
          yield                                     %later = slot %m, %turn {shift = 2}
        }                                           local_copy %later, %q, %there
                                                    copy_commit
                                                    %now = slot %m, %turn
                                                    %y = local_load %now
                                                    ..
                                                    %next = add %turn, 1
                                                    yield %next
                                                  } {num_stages = 1}
                                                  copy_wait {pending = 0}

    Boxes of arrays that products read from shared memory come by bulk copies, where the target has
    these and nobody writes to the array meanwhile: `barrier_init` before the loop, `barrier_expect`
    and `bulk_copy` in place of a group of copies, `barrier_wait` in place of `copy_wait`, and a
    `barrier_free` behind the loop.

    `%q` is what `%p` will be two rounds later, and `%there` says whether there is such a round.
    What is loaded one round ahead is stored to a ring at the end of a round,

                                                  %m = alloc : shared<.., stages = 2>
        for %i = %a to %n step %c {               // the first round's tile is loaded and stored
          %x = load %p                            for %i = %a to %n step %c iter(%turn = %0) {
          %y = convert_layout %x                    %z = load %q, %there
          ..                                        %now = slot %m, %turn
          yield                                     %y = local_load %now
        }                                           ..
                                                    %later = slot %m, %turn {shift = 1}
                                                    local_store %later, %z
                                                    yield %next
                                                  } {num_stages = 1}

    or carried in registers if it does not change its layout by way of shared memory:

        for %i = %a to %n step %c {               %t = load %p, %any
          %x = load %p                            for %i = %a to %n step %c iter(%x = %t) {
          ..                                        %u = load %q, %there
          yield                                     ..
        }                                           yield %u
                                                  } {num_stages = 1}

    If a thread has no registers for these tiles while it does a round's products, they are loaded
    before the last of several.

    Products of groups that the loop only carries go on into the next round; what the round computes
    for them it then stores to one of two places (`doubled`):

        %y = exp2 %x                              %place = slot %m, %turn
        %r = group_dot %a, %y, %acc               local_store %place, %y
        %s = group_wait %r {pending = 0}          %r = group_dot %a, %place, %acc
                                                  %s = group_wait %r {pending = 1}

    Products of groups of warps read the ring itself. Where a thread has the registers, those that
    need nothing else of the round begin first, each is waited for where it is used, and what a
    round adds to goes on into the next one.

    A load stays where it is if the loop may write what it reads, or has a barrier, an acquiring
    atomic or an assertion, or if its address or mask depends on what the loop loads or multiplies.
    """
    # Found once, if a loop asks. The loops that have been changed by then are in other functions,
    # and what those pass to calls has stayed what it was.
    aliases = cache(lambda: module_aliases(module))
    room = Room(target)
    for function in CallGraph(module).bottom_up():
        choices = Selection(function, aliases, room, num_stages).choices()
        for choice in choices:
            _pipeline(choice, room)
        if choices:
            remove_dead(function)


def _pipeline(choice: Choice, room: Room) -> None:
    loop = choice.loop
    (body,) = loop.regions
    top = body.first
    assert top is not None
    where = _before_loads(choice, room.target) or top
    if choice.carried:
        carry_ahead(choice.carried, _sources(loop, choice.carried), where)
    if choice.stored:
        sources = _sources(loop, [each.load for each in choice.stored])
        store_ahead(choice.stored, sources, choice.places, where)
    if choice.copied:
        sources = _sources(loop, [each.load for each in choice.copied])
        copy_ahead(choice.copied, sources, choice.stages, top, room, choice.doubled)
    loop.attributes["num_stages"] = 1


def _before_loads(choice: Choice, target: SimtTarget) -> Operation | None:
    """The last of several products, if what is loaded for the next round is to wait for that.

    It does so where a thread has no registers for it any earlier.
    """
    products = [op for op in choice.loop.regions[0] if op.defn in DOTS]
    ahead = sum([words(load.result) for load in choice.ahead])
    if len(products) < 2 or not ahead:
        return None
    live = liveness(choice.loop.function)
    return products[-1] if is_short(pressure(choice.loop, live) + ahead, target) else None


def _sources(loop: Operation, loads: Sequence[Operation]) -> Slice:
    sources = slice_of(loop, [value for load in loads for value in load.inputs])
    assert sources is not None, "a load was chosen that cannot be done ahead"
    return sources
