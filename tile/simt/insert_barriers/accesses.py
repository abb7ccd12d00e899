"""What operations do to shared memory, and which of it conflicts between threads.

Two accesses conflict if they touch the same bytes and one of them writes, unless whatever a thread
touches in the one no other thread touches in the other.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from tile.errors import PassError
from tile.ir.core import Operation, Value
from tile.ir.opdef import OpDef
from tile.ir.types import Shared
from tile.simt import ops
from tile.simt.expose_shared import within
from tile.simt.insert_barriers.turns import FIRST, Turn, turn_of
from tile.simt.layout_rules import layout_of
from tile.simt.layouts import f2
from tile.simt.layouts.dims import REGISTER, places
from tile.simt.layouts.layout import LinearLayout
from tile.simt.layouts.matrix_access import matrix_access


class Kind(enum.Enum):
    """What an access does to memory, and which threads do it."""

    READ = "read"
    WRITE = "write"  # by the first of the threads that hold an element
    COPY = "copy"  # begun by the first of them
    COUNT = "count"  # in one step, so that two of them do not conflict
    END = "end"  # written by the first thread, and of no use to anybody any more
    FILL = "fill"  # begun by the first thread; whoever waits for the barrier finds it done


# What only the first of several threads that hold an element does.
_BY_FIRST = (Kind.WRITE, Kind.COPY)


@dataclass(frozen=True, eq=False)
class Access:
    """An operation on a buffer: the bytes from `begin` to `end`, in `stages` of one size.

    `layout` says which elements each thread holds; None if that is only known as it runs.
    """

    op: Operation
    kind: Kind
    buffer: Value
    begin: int
    end: int
    stages: int
    turn: Turn
    layout: LinearLayout | None

    def interval(self, turn: Turn) -> tuple[int, int]:
        """The bytes that it may touch, if its slot is that of a turn."""
        if self.stages == 1 or turn is None or turn.base is not None:
            return self.begin, self.end
        size = (self.end - self.begin) // self.stages
        begin = self.begin + turn.offset % self.stages * size
        return begin, begin + size

    def meets(self, turn: Turn, other: Access, others: Turn) -> bool:
        """Whether both, with slots of these turns, may touch the same bytes."""
        if self.buffer is other.buffer:
            if turn is None or others is None or turn.base is not others.base:
                return True
            return (turn.offset - others.offset) % self.stages == 0
        mine, its = self.interval(turn), other.interval(others)
        return mine[0] < its[1] and its[0] < mine[1]

    def conflicts(self, turn: Turn, other: Access, others: Turn) -> bool:
        """Whether two threads may disturb each other if nothing orders these accesses."""
        if self.kind is other.kind and self.kind in (Kind.READ, Kind.COUNT):
            return False
        return self.meets(turn, other, others) and not self.is_private_with(other)

    def is_private_with(self, other: Access) -> bool:
        """Whether no thread touches in one what another thread touches in the other."""
        if self.layout is None or other.layout is None or not self.is_in_place_of(other):
            return False
        return _apart(self.layout, self.kind, other.layout, other.kind)

    def is_in_place_of(self, other: Access) -> bool:
        """Whether each element is at the same place in every stage of both.

        Stages then either are the same bytes or share none.
        """
        if self.buffer is other.buffer:
            return True
        x, y = self.buffer.type, other.buffer.type
        assert isinstance(x, Shared) and isinstance(y, Shared)
        if (self.begin - other.begin) % (x.bytes // x.stages):
            return False
        return x.dims == y.dims and x.of == y.of and x.layout == y.layout


@lru_cache(maxsize=4096)
def _apart(x: LinearLayout, x_kind: Kind, y: LinearLayout, y_kind: Kind) -> bool:
    """Whether different threads are at different elements, one by each of two layouts.

    A thread's elements are what its number leads to, plus all that registers lead to. So two
    threads meet if what they and some registers lead to sums to 0: a linear condition on pairs of
    threads, of which all solutions are to be pairs of a thread with itself.
    """
    columns, threads = [], []
    for layout, kind in ((x, x_kind), (y, y_kind)):
        at = places(layout.indices)
        for name, images in layout.ins:
            for bit, column in enumerate(images):
                # A thread whose number has a bit that leads to copies writes nothing.
                if column or kind not in _BY_FIRST:
                    columns.append(column)
                    threads.append(0 if name == REGISTER else 1 << at[name] + bit)
    return not any(f2.multiply(threads, pair) for pair in f2.kernel(columns))


def access_of(op: Operation) -> Access | None:
    """What an operation does to shared memory; None if nothing.

    Raises `PassError` if the buffer has no place.
    """
    how = _ACCESSES.get(op.defn)
    if how is None:
        return None
    kind, layout = how
    return _access(op, op["mem"], kind, layout(op))


def factor_accesses(op: Operation) -> list[Access]:
    """The reads of a `group_dot`, by threads of all warps of a group."""
    factors = [value for value in op.inputs[:2] if isinstance(value.type, Shared)]
    return [_access(op, mem, Kind.READ, None) for mem in factors]


def filled(op: Operation) -> Access:
    """What a `bulk_copy` does to its buffer."""
    return _access(op, op["mem"], Kind.FILL, None)


def ring_access(op: Operation) -> Access:
    """What an operation does to a ring of barriers, all of them: use them, make or end them."""
    access = _access(op, op["bars"], _RINGS.get(op.defn, Kind.READ), None)
    return replace(access, turn=None)


_RINGS = {ops.bulk.barrier_init: Kind.WRITE, ops.bulk.barrier_free: Kind.END}


def _access(op: Operation, mem: Value, kind: Kind, layout: LinearLayout | None) -> Access:
    turn: Turn = FIRST
    while mem.op is not None and mem.op.defn in ops.shared.VIEWS:
        if mem.op.defn is ops.shared.slot:
            turn = turn_of(mem.op["turn"]).later(mem.op["shift"])
        mem = mem.op["mem"]
    alloc = mem.op
    if alloc is None or alloc.defn is not ops.shared.alloc or alloc["at"] < 0:
        raise PassError("a buffer has no place before the pass plan-shared", loc=op.loc)
    held = mem.type
    assert isinstance(held, Shared)
    begin = alloc["at"]
    return Access(op, kind, mem, begin, begin + held.bytes, held.stages, turn, layout)


def _loaded(op: Operation) -> LinearLayout | None:
    """The layout of a load, unless other threads may read its elements.

    They do where its mask leads to theirs, and where a warp can load matrices.
    """
    layout, mem = layout_of(op.result), op["mem"].type
    assert isinstance(mem.layout, LinearLayout)
    if matrix_access(layout, mem.layout, 8 * mem.of.itemsize) is not None:
        return None
    return layout if not op["mask"] or within(layout, op["mask"], (REGISTER,)) else None


def _of_operand(index: int) -> Callable[[Operation], LinearLayout | None]:
    def layout(op: Operation) -> LinearLayout | None:
        value = op.operands[index]
        assert value is not None
        return layout_of(value)

    return layout


_ACCESSES: dict[OpDef, tuple[Kind, Callable[[Operation], LinearLayout | None]]] = {
    ops.shared.local_store: (Kind.WRITE, _of_operand(1)),
    ops.shared.local_copy: (Kind.COPY, _of_operand(1)),
    ops.shared.local_load: (Kind.READ, _loaded),
    ops.shared.local_gather: (Kind.READ, lambda op: None),
    ops.shared.local_load_part: (Kind.READ, lambda op: None),
    ops.shared.local_store_part: (Kind.WRITE, lambda op: None),
    ops.shared.local_count: (Kind.COUNT, lambda op: None),
    ops.bulk.bulk_store: (Kind.READ, lambda op: None),
}
