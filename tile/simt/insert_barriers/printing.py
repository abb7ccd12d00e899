"""Print the pending accesses before each access of memory."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping

from tile.analysis.alias import module_aliases
from tile.analysis.call_graph import CallGraph
from tile.ir.core import Function, Module, Operation, Value
from tile.ir.levels import Level
from tile.ir.passes import module_pass
from tile.ir.printer import print_function
from tile.simt.insert_barriers.pending import Pending
from tile.simt.insert_barriers.solve import Solver, Summary
from tile.simt.insert_barriers.structure import MemoryOp, Node, Structure, structure

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
        solver = _RecordingSolver(structure(function, aliases[function.name]), summaries)
        solver.run()
        summaries[function.name] = solver.summary
        notes[function] = solver
    for function in module:
        sys.stdout.write(print_function(function, note=notes[function].note))


class _RecordingSolver(Solver):
    """The walk, which records what was pending before each access in any iteration."""

    def __init__(self, structure: Structure, callees: Mapping[str, Summary]) -> None:
        super().__init__(structure, callees)
        self.seen: dict[Operation, set[Operation]] = {}
        self.copies: dict[Operation, set[Operation]] = {}
        self.modes: dict[Operation, set[str]] = {}

    def node(self, node: Node, state: Pending) -> Pending:
        if isinstance(node, MemoryOp):
            before = self.seen.setdefault(node.op, set())
            before |= {access.op for access, _ in state.shared}
            copies = self.copies.setdefault(node.op, set())
            copies |= {access.op for group in state.in_flight for access, _ in group}
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
