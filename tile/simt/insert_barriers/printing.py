"""What is pending in front of each access to memory, printed."""

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
from tile.simt.insert_barriers.structure import Node, Structure, Touch, structure

Name = Callable[[Value], str]


@module_pass("print-pending", before=Level.LAID_OUT)
def print_pending(module: Module) -> None:
    """Print the accesses that no barrier separates from each access to memory, as they conflict.

    What is said of a loop is of all its rounds. `copy` is a copy that is under way.

        %y = local_load %m : ...                  %y = local_load %m // after local_store %m
    """
    aliases = module_aliases(module)
    summaries: dict[str, Summary] = {}
    notes: dict[Function, _Watching] = {}
    for function in CallGraph(module).bottom_up():
        solver = _Watching(structure(function, aliases[function.name]), summaries)
        solver.run()
        summaries[function.name] = solver.summary
        notes[function] = solver
    for function in module:
        sys.stdout.write(print_function(function, note=notes[function].note))


class _Watching(Solver):
    """The walk, which keeps what was pending in front of each access in any of its rounds."""

    def __init__(self, structure: Structure, callees: Mapping[str, Summary]) -> None:
        super().__init__(structure, callees)
        self.seen: dict[Operation, set[Operation]] = {}
        self.flying: dict[Operation, set[Operation]] = {}
        self.through: dict[Operation, set[str]] = {}

    def node(self, node: Node, state: Pending) -> Pending:
        if isinstance(node, Touch):
            before = self.seen.setdefault(node.op, set())
            before |= {access.op for access, _ in state.shared}
            flying = self.flying.setdefault(node.op, set())
            flying |= {access.op for group in state.flight for access, _ in group}
            if node.memory is not None:
                through = self.through.setdefault(node.op, set())
                through |= {mode for _, mode in state.memory}
        return super().node(node, state)

    def note(self, op: Operation | None, name: Name) -> str:
        if op is None or op not in self.seen:
            return ""
        return ", ".join(self._texts(op, name)) or "after nothing"

    def _texts(self, op: Operation, name: Name) -> Iterator[str]:
        yield from sorted(f"after {_spell(other, name)}" for other in self.seen[op])
        yield from sorted(f"after a {mode} of memory" for mode in self.through.get(op, ()))
        yield from sorted(f"during {_spell(other, name)}" for other in self.flying[op])


def _spell(op: Operation, name: Name) -> str:
    first = op.inputs[0]
    return f"{op.name} {name(first)}"
