"""What operations do to global memory, and which of it conflicts between threads of a program.

To the language a program is one thread: what it stores, it loads again. Its threads share the work,
so between a store and a load of another thread's element there has to be a barrier. Accesses
through one and the same value of pointers need no barrier, since each thread accesses its own
elements; nor do those through parameters that do not meet (see `tile/analysis/alias.py`).
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

# What an access does: read, write, or a kind of atomic operation whose order does not matter, as
# long as nobody looks at the result.
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

    It goes to memory `where`, that is `named` so by other accesses. `pointer` is the value it goes
    through; None for one that may have changed since. `distinct` says that no two threads hold the
    same of it. `releases` says that other programs may take it for a sign that all before it has
    been done.
    """

    op: Operation
    mode: Mode
    where: PointsTo
    named: PointsTo
    pointer: Value | None
    distinct: bool
    releases: bool

    def conflicts(self, mode: Mode, where: PointsTo, pointers: frozenset[Value | None]) -> bool:
        """Whether it conflicts with accesses of a mode, to some memory, through some pointers."""
        if mode == self.mode != WRITE or not self.named.meets(where):
            return False
        if self.pointer is None or pointers != {self.pointer}:
            return True
        # What is written by the first holder alone, the others do not find without a barrier.
        return not self.distinct and READ in (mode, self.mode)


def memory_access_of(op: Operation, alias: Alias) -> MemoryAccess | None:
    """What an operation does to global memory; None if nothing."""
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
    """An access of a called function as its caller sees it, which passed such pointers."""
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
    """Locks and flags are scalars; the elements of a tile are not waited for by each other."""
    return (
        op.defn in (memory.atomic_rmw, memory.atomic_cas)
        and not isinstance(op.result.type, Tile)
        and op["order"].releases
        and op["scope"] is not Scope.PROGRAM
    )
