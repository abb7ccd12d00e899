"""Accesses of global memory, and their conflicts between the threads of a program.

In the language a program is one thread: a load sees its earlier stores. The threads that run it
share the work, so a barrier is needed between a store and a load of another thread's element.
Accesses through one and the same pointer value need no barrier, since each thread accesses its own
elements; nor do accesses through parameters that do not alias (see `tile/analysis/alias.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tile.analysis.alias import Alias, PointsTo
from tile.ir.core import Operation, Value
from tile.ir.opdef import OpDef
from tile.ir.ops import memory
from tile.ir.ops.memory import RMWKind, Scope
from tile.ir.types import Tile
from tile.simt import ops
from tile.simt.layout_rules import layout_of
from tile.simt.layouts.dims import LANE, WARP

# The mode of an access: a read, a write, or a kind of atomic operation, which commutes with others
# of its kind as long as its result is unused.
Mode = str
READ, WRITE = "read", "write"

_MODES: dict[OpDef, Mode] = {
    memory.load: READ,
    memory.store: WRITE,
    memory.atomic_rmw: WRITE,
    memory.atomic_cas: WRITE,
    ops.shared.local_copy: READ,
    ops.bulk.bulk_copy: READ,
    ops.bulk.bulk_store: WRITE,
}


@dataclass(frozen=True, eq=False)
class MemoryAccess:
    """An access of global memory.

    where: the memory that it accesses.
    named: that memory by the names that other accesses of the function may use.
    pointer: the value that it goes through; None for one that may have changed since.
    distinct: True if no two threads hold the same element of the pointer.
    releases: True if other programs may take it as a signal that all earlier accesses are done.
    """

    op: Operation
    mode: Mode
    where: PointsTo
    named: PointsTo
    pointer: Value | None
    distinct: bool
    releases: bool

    def conflicts(self, mode: Mode, where: PointsTo, pointers: frozenset[Value | None]) -> bool:
        """Return True if it conflicts with accesses of a mode and memory through `pointers`."""
        if mode == self.mode != WRITE or not self.named.meets(where):
            return False
        if self.pointer is None or pointers != {self.pointer}:
            return True
        # Only the first of the threads that hold an element writes it; the others need a barrier.
        return not self.distinct and READ in (mode, self.mode)


def memory_access_of(op: Operation, alias: Alias) -> MemoryAccess | None:
    """Return an operation's access of global memory; None if it has none."""
    mode = _MODES.get(op.defn)
    if mode is None:
        return None
    pointer: Value = op["ptr"]
    where = alias.of(pointer)
    return MemoryAccess(
        op,
        _mode(op, mode),
        where,
        alias.named(where),
        pointer,
        _is_distinct(pointer),
        _releases(op),
    )


def memory_access_through(
    access: MemoryAccess, arguments: Sequence[PointsTo], alias: Alias
) -> MemoryAccess:
    """Return a callee's access as its caller sees it, given what the arguments point to."""
    where = access.where.through(arguments)
    return replace(access, where=where, named=alias.named(where), pointer=None)


def _mode(op: Operation, mode: Mode) -> Mode:
    ordered = op.defn is not memory.atomic_rmw or op["kind"] is RMWKind.XCHG or op.result.uses
    return mode if ordered else f"atomic {op['kind']}"


def _is_distinct(pointer: Value) -> bool:
    if not isinstance(pointer.type, Tile):
        return False
    layout = layout_of(pointer)
    return all(layout.images(LANE)) and all(layout.images(WARP))


def _releases(op: Operation) -> bool:
    """Return True for a releasing scalar atomic, of more than program scope.

    Locks and flags are scalars; the elements of a tile do not wait for each other.
    """
    return (
        op.defn in (memory.atomic_rmw, memory.atomic_cas)
        and not isinstance(op.result.type, Tile)
        and op["order"].releases
        and op["scope"] is not Scope.PROGRAM
    )
