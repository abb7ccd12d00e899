"""Insert barriers between accesses of memory through which threads exchange values.

control_flow      the control flow of a function, reduced to accesses, waits and barriers
memory_effects    accesses of shared and global memory, and their conflicts
apart             pointers that reach no element in common
pending           the accesses that are pending at a point: no barrier separates them from it
membar_analysis   the walk over pending accesses that finds where barriers are needed

A second pass prints the pending accesses before each access of memory.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping

from tile.analysis.alias import module_aliases, rely_on_disjoint
from tile.analysis.call_graph import CallGraph
from tile.ir.builder import create
from tile.ir.core import Function, Operation, Value
from tile.ir.effects import effects
from tile.ir.module import Module
from tile.ir.op_definition import Level, Trait
from tile.ir.ops import control, memory
from tile.ir.passes import module_pass
from tile.ir.printer import print_function
from tile.simt.memory.insert_barriers.control_flow import (
    Flight,
    MemoryOp,
    Node,
    Role,
    Structure,
    structure,
)
from tile.simt.memory.insert_barriers.membar_analysis import Need, Solver, Summary
from tile.simt.memory.insert_barriers.pending import Pending
from tile.simt.ops import shared, tma, wgmma
from tile.simt.target import GENERIC, SimtTarget
from tile.simt.tuning import TuningConstants


@module_pass("insert-barriers", before=Level.LAID_OUT)
def insert_barriers(module: Module, *, target: SimtTarget = GENERIC) -> None:
    """Insert a barrier before each access that could race with another thread's access.

    Needs the offsets that `allocate-shared` assigns. No barrier is needed between accesses in which
    each thread touches only its own elements, nor between different stages of a multi-buffer, nor
    between iterations of a loop that access different elements of memory.
    Barriers that are already in the function count. Pairs of parameters that would need more
    barriers if their memory overlapped are recorded in the kernel (`disjoint`).

    A proxy fence comes before the barrier where threads have written wgmma operands or bytes
    that TMA loads write, or have initialized mbarriers. Of several barriers before the wgmma or TMA
    operation, the last one gets the fence. Where loads of global memory follow the initialization
    of mbarriers, the fence and the barrier come first.

    Raises `CompilationError` for a copy that is read or overwritten before the wait for it, and for
    wgmma operands that are overwritten before the wait for the wgmma.

        local_store %m, %x                        local_store %m, %x
        %y = local_load %m : ...                  barrier
                                                  %y = local_load %m : ...
        local_store %n, %z                        local_store %n, %z
        %r = wgmma %n, %o, %c {...}               fence_proxy_async
                                                  barrier
                                                  %r = wgmma %n, %o, %c {...}
    """
    aliases = module_aliases(module)
    summaries: dict[str, Summary] = {}
    for function in CallGraph(module).bottom_up():
        _publish_mbarriers(function)
        control_flow = structure(function, aliases[function.name])
        solver = Solver(control_flow, summaries, target.tuning)
        needed = solver.run()
        summaries[function.name] = solver.summary
        rely_on_disjoint(aliases, function, solver.assumed)
        has_async_proxy = bool(control_flow.async_proxy_buffers)
        before = _before_async_proxy(function) if has_async_proxy else frozenset()
        for need in needed:
            _insert(need, need.fence and need.op in before)
        if before:
            _erase_redundant_fences(function)


def _publish_mbarriers(function: Function) -> None:
    """Insert a fence and a barrier after the initialization of mbarriers where loads follow it.

    In front of the first TMA load, the fence would wait for these loads. And a dependent launch,
    which waits for the launch before in front of its first load, does so after the barrier.
    """
    for op in list(function.walk()):
        after = op.next
        if op.defn is tma.mbarrier_init and after is not None and _is_followed_by_load(op):
            for defn in (wgmma.fence_proxy_async, memory.barrier):
                create(defn, loc=op.loc).move_before(after)


def _is_followed_by_load(op: Operation) -> bool:
    """Return True if the next operation with an effect, but for allocations, is a load."""
    after = op.next
    while after is not None and (after.defn is shared.local_alloc or not effects(after)):
        after = after.next
    return after is not None and after.defn is memory.load


def _before_async_proxy(function: Function) -> frozenset[Operation]:
    """Return the operations from which control may reach an operation of the async proxy."""
    before: list[Operation] = []
    undecided: list[Operation] = []
    for outer in function.body:
        ops = [outer, *(op for region in outer.regions for op in region.walk())]
        undecided += ops
        if any(op.has_trait(Trait.ASYNC_PROXY) for op in ops):
            before += undecided
            undecided = []
    return frozenset(before)


def _erase_redundant_fences(function: Function) -> None:
    """Erase each fence that is followed by another one before any async-proxy operation."""
    last: Operation | None = None
    for op in list(function.walk()):
        if op.defn is wgmma.fence_proxy_async:
            if last is not None and last.block is op.block:
                last.erase()
            last = op
        elif op.has_trait(Trait.ASYNC_PROXY) or op.defn is control.call:
            last = None


def _insert(need: Need, fence: bool) -> None:
    before = [wgmma.fence_proxy_async] * fence + [memory.barrier] * need.barrier
    for defn in before:
        create(defn, loc=need.op.loc).move_before(need.op)


Name = Callable[[Value], str]


@module_pass("print-pending", before=Level.LAID_OUT)
def print_pending(module: Module) -> None:
    """Print, for each access of memory, the accesses that no barrier separates from it.

    In a loop these are of all its iterations. `after` is a pending access, `during` a copy in
    flight.

        %y = local_load %m : ...                  %y = local_load %m // after local_store %m
    """
    aliases = module_aliases(module)
    summaries: dict[str, Summary] = {}
    notes: dict[Function, _RecordingSolver] = {}
    for function in CallGraph(module).bottom_up():
        control_flow = structure(function, aliases[function.name])
        solver = _RecordingSolver(control_flow, summaries, GENERIC.tuning)
        solver.run()
        summaries[function.name] = solver.summary
        notes[function] = solver
    for function in module:
        sys.stdout.write(print_function(function, note=notes[function].note))


class _RecordingSolver(Solver):
    """The walk, which records the accesses that are pending before each access."""

    def __init__(
        self, structure: Structure, callees: Mapping[str, Summary], tuning: TuningConstants
    ) -> None:
        super().__init__(structure, callees, tuning)
        self.seen: dict[Operation, set[Operation]] = {}
        self.copies: dict[Operation, set[Operation]] = {}
        self.modes: dict[Operation, set[str]] = {}

    def node(self, node: Node, state: Pending) -> Pending:
        if isinstance(node, MemoryOp) and node.role is Role.THREADS:
            before = self.seen.setdefault(node.op, set())
            before |= {access.op for access, _ in state.unordered() | state.within}
            copies = self.copies.setdefault(node.op, set())
            copies |= {access.op for group in state.in_flight[Flight.COPIES] for access, _ in group}
            if node.memory is not None:
                modes = self.modes.setdefault(node.op, set())
                modes |= {mode for _, mode in state.memory}
        return super().node(node, state)

    def note(self, op: Operation | None, name: Name) -> str:
        if op is None or op not in self.seen:
            return ""
        return ", ".join(self._texts(op, name)) or "after nothing"

    def _texts(self, op: Operation, name: Name) -> Iterator[str]:
        yield from sorted(f"after {_spell(other, name)}" for other in self.seen[op])
        yield from sorted(f"after a {mode} of memory" for mode in self.modes.get(op, ()))
        yield from sorted(f"during {_spell(other, name)}" for other in self.copies[op])


def _spell(op: Operation, name: Name) -> str:
    first = op.inputs[0]
    return f"{op.name} {name(first)}"
