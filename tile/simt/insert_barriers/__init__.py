"""Barriers between accesses of memory by which threads hand values to each other.

accesses    what each operation reads and writes, and which accesses conflict
turns       which stage of a ring a slot is, from one round of a loop to the next
pending     the accesses that no barrier has followed yet
structure   the control flow of a function, with these operations alone
solve       the walk that finds where barriers are needed
printing    what that walk finds pending, printed
"""

from __future__ import annotations

from tile.analysis.alias import module_aliases
from tile.analysis.call_graph import CallGraph
from tile.ir.builder import create
from tile.ir.core import Function, Module, Operation
from tile.ir.levels import Level
from tile.ir.ops import control, memory
from tile.ir.passes import module_pass
from tile.simt.insert_barriers.solve import Need, Solver, Summary
from tile.simt.insert_barriers.structure import structure
from tile.simt.ops import bulk, group

# What machines do while threads go on, and takes fences.
_BY_OTHERS = frozenset({group.group_dot, bulk.barrier_expect, bulk.bulk_copy, bulk.bulk_store})


@module_pass("insert-barriers", before=Level.LAID_OUT)
def insert_barriers(module: Module) -> None:
    """Put a barrier in front of each access that might overtake another thread's.

    Needs the places that `plan-shared` gives. Threads that access nothing but what they accessed
    themselves need none, nor do different stages of a ring. Barriers that are there count. Where
    threads have written what products of groups read or where bulk copies go, or have made barriers
    on which these arrive, a fence comes in front of the barrier, or of the last one before the
    product. Raises `CompilationError` where copies are read, or overwritten, before they have been
    waited for, and where the factors of a product are overwritten before that has been waited for.

        local_store %m, %x                        local_store %m, %x
        %y = local_load %m : ...                  barrier
                                                  %y = local_load %m : ...
        local_store %n, %z                        local_store %n, %z
        %r = group_dot %n, %o, %c {...}           group_fence
                                                  barrier
                                                  %r = group_dot %n, %o, %c {...}
    """
    aliases = module_aliases(module)
    summaries: dict[str, Summary] = {}
    for function in CallGraph(module).bottom_up():
        found = structure(function, aliases[function.name])
        solver = Solver(found, summaries)
        needed = solver.run()
        summaries[function.name] = solver.summary
        before = _before_others(function) if found.factors else frozenset()
        for need in needed:
            _insert(need, need.fence and need.op in before)
        if before:
            _spare_fences(function)


def _before_others(function: Function) -> frozenset[Operation]:
    """The operations from which control may come to what others than threads do."""
    found: list[Operation] = []
    waiting: list[Operation] = []
    for outer in function.body:
        ops = [outer, *(op for region in outer.regions for op in region.walk())]
        waiting += ops
        if any(op.defn in _BY_OTHERS for op in ops):
            found += waiting
            waiting = []
    return frozenset(found)


def _spare_fences(function: Function) -> None:
    """Erase fences that another one follows before anybody is told: that does for both."""
    last: Operation | None = None
    for op in list(function.walk()):
        if op.defn is group.group_fence:
            if last is not None and last.block is op.block:
                last.erase()
            last = op
        elif op.defn in _BY_OTHERS or op.defn is control.call:
            last = None


def _insert(need: Need, fence: bool) -> None:
    op = need.op
    assert op.block is not None
    if fence:
        op.block.insert(create(group.group_fence, loc=op.loc), op)
    if need.barrier:
        op.block.insert(create(memory.barrier, loc=op.loc), op)
