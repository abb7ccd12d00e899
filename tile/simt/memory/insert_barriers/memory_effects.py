"""Accesses of shared and global memory, and their conflicts between the threads of a program.

*Shared memory*: two accesses conflict if they touch the same bytes and one of them writes, unless
every byte that they share is touched by one and the same thread in both.

*Global memory*: in the language a program is one thread, so a load sees its earlier stores. The
threads that run it share the work, so a barrier is needed between a store and a load of another
thread's element. Accesses through one and the same pointer value need no barrier, since each thread
accesses its own elements; nor do accesses through parameters that do not alias (see
`tile/analysis/alias.py`). Where only an assumption says that they do not, it is recorded, unless
both accesses are at equal offsets in code that no loop repeats between them: each thread then
accesses its own elements of arrays that are one, as in calls in place. Neither do accesses through
a pointer that reaches other elements in each iteration of a loop (`Earlier`), those of tiles that
lie side by side or of elements whose addresses are not congruent (`apart`), and writes of scalars,
which are all by the first thread. Parameters that are `unordered` need a barrier only at such equal
offsets, between accesses of one element by several threads.

*Stages of multi-buffers* are known relative to each other and from one iteration of a loop to the
next. `local_subview %m, %t {stage_offset = s}` is the stage `(%t + s) mod stages`, so stages of one
iteration number %t differ by their shifts. A loop that carries %t and yields `add %t, 1` renames it
at its back edge: the stage (%t, 2) of one iteration is the stage (%t, 1) of the next one.

    at entry        %t = const 0        stage (const, 1)  is stage (%t, 1)
    back edge       %t becomes %t + 1   stage (%t, 1)     is stage (%t, 0)
    at exit         %r = the last %t + 1
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from tile.analysis.alias import Alias, PointsTo, disjoint_pairs
from tile.errors import PassError
from tile.ir.core import Operation, Value
from tile.ir.effects import accesses_global, constant_of
from tile.ir.op_definition import Effect, OpDef, Trait
from tile.ir.ops import arith, memory
from tile.ir.ops.memory import Scope
from tile.ir.shared_type import Shared, shared_of
from tile.ir.types import I32, Pointer, Tile
from tile.simt import ops
from tile.simt.layouts import f2
from tile.simt.layouts.dims import LANE, REGISTER, WARP, bit_positions
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.layouts.shared_access import ldmatrix_access
from tile.simt.memory.expose_shared import mask_within
from tile.simt.memory.insert_barriers.apart import REARRANGING, Strides, are_apart
from tile.simt.ops.layout_inference import layout_of, maybe_layout
from tile.simt.ops.warp_specialize import WARPGROUP_WARPS

# The mode of an access: a read, a write, or a kind of atomic operation, which commutes with others
# of its kind as long as its result is unused.
Mode = str
READ, WRITE = "read", "write"


@dataclass(frozen=True, slots=True)
class Earlier:
    """A pointer of earlier iterations.

    elsewhere: True if it reached none of the elements that it now reaches.
    """

    pointer: Value
    elsewhere: bool


# What an access went through; None for a pointer of a function that was called.
Through = Value | Earlier | None


@dataclass(frozen=True, eq=False)
class MemoryAccess:
    """An access of global memory.

    where: the memory that it accesses.
    named: that memory by the names that other accesses of the function may use; `ordered` without
        those that need no order.
    pointer: the value that it goes through; None for one of a function that was called.
    distinct: True if no two threads hold the same element of the pointer.
    releases: True if other programs may take it as a signal that all earlier accesses are done.
    strides: the distances between pointers of the function.
    """

    op: Operation
    mode: Mode
    where: PointsTo
    named: PointsTo
    ordered: PointsTo
    pointer: Value | None
    distinct: bool
    releases: bool
    strides: Strides

    def conflicts(self, mode: Mode, where: PointsTo, pointers: frozenset[Through]) -> bool:
        """Return True if it conflicts with accesses of a mode and memory through `pointers`."""
        if mode == self.mode != WRITE or not self.named.may_alias(where):
            return False
        pointers = frozenset(through for through in pointers if not self._is_apart(mode, through))
        if not pointers:
            return False
        if not self.ordered.may_alias(where):
            return self.is_shared(mode) and self.meets(pointers)
        if self.pointer is None or pointers != {self.pointer}:
            return True
        return self.is_shared(mode)

    def _is_apart(self, mode: Mode, through: Through) -> bool:
        """Return True if each element that both access is accessed by one thread, in both."""
        if self.pointer is None or through is None:
            return False
        if isinstance(through, Earlier):
            if through.elsewhere and through.pointer is self.pointer:
                return True
            through = through.pointer
        elif self.strides.are_side_by_side(self.pointer, through):
            return True
        scalars = not any(isinstance(p.type, Tile) for p in (self.pointer, through))
        by_first_thread = scalars and READ not in (mode, self.mode)
        return by_first_thread or are_apart(self.pointer, through)

    def meets(self, pointers: frozenset[Through]) -> bool:
        """Return True if one of some pointers may be at equal offsets."""
        own = None if self.pointer is None else _offsets(self.pointer)
        others = (_offsets(pointer) if isinstance(pointer, Value) else None for pointer in pointers)
        return any(own is None or other in (own, None) for other in others)

    def is_shared(self, mode: Mode) -> bool:
        """Return True if accesses of one element by its holders, one in a mode, need a barrier.

        Only the first of the threads that hold an element writes it; the others wait for it.
        """
        return not self.distinct and READ in (mode, self.mode)

    def assumed(
        self, mode: Mode, where: PointsTo, pointers: frozenset[Through]
    ) -> frozenset[tuple[int, int]]:
        """Return the pairs of parameters without whose disjointness there would be a conflict."""
        pairs = disjoint_pairs(self.named, where)
        if not pairs or mode == self.mode != WRITE:
            return frozenset()
        own = None if self.pointer is None else _offsets(self.pointer)
        equal = own is not None and all(
            isinstance(p, Value) and _offsets(p) == own for p in pointers
        )
        return frozenset() if equal and not self.is_shared(mode) else pairs


def memory_access_of(op: Operation, alias: Alias, strides: Strides) -> MemoryAccess | None:
    """Return an operation's access of global memory; None if it has none."""
    if not accesses_global(op):
        return None
    pointer: Value = op["ptr"]
    where = alias.of(pointer)
    return MemoryAccess(
        op,
        _mode(op),
        where,
        alias.with_aliases(where),
        alias.ordered(where),
        pointer,
        _is_distinct(pointer),
        _releases(op),
        strides,
    )


def memory_access_through(
    access: MemoryAccess, arguments: Sequence[PointsTo], alias: Alias
) -> MemoryAccess:
    """Return a callee's access as its caller sees it, from the memory of the arguments."""
    where = access.where.through(arguments)
    named, ordered = alias.with_aliases(where), alias.ordered(where)
    return replace(access, where=where, named=named, ordered=ordered, pointer=None)


# The operations that make pointers of others, which are their first operands.
_OFFSETTING = (memory.addptr, *REARRANGING)


def _offsets(pointer: Value) -> tuple[object, ...] | None:
    """Return how a pointer is computed from a parameter; None for one that is not.

    Two pointers for which it is equal are at equal offsets, in bytes, in each thread.
    """
    element = pointer.type.element
    steps: list[object] = [element.pointee.itemsize if isinstance(element, Pointer) else None]
    while pointer.op is not None:
        op = pointer.op
        if op.defn not in _OFFSETTING:
            return None
        pointer, *others = op.inputs
        attributes = tuple(sorted((name, str(value)) for name, value in op.attributes.items()))
        steps.append((op.defn, tuple(others), attributes, maybe_layout(op.result)))
    is_parameter = pointer.block.owner is not None and isinstance(pointer.type, Pointer)
    return tuple(steps) if is_parameter else None


def _mode(op: Operation) -> Mode:
    mode = WRITE if Effect.WRITE in op.defn.effect else READ
    ordered = op.defn is not memory.atomic_rmw or op["kind"].exchanges or op.result.uses
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
        op.has_trait(Trait.ATOMIC)
        and not isinstance(op.result.type, Tile)
        and op["order"].releases
        and op["scope"] is not Scope.PROGRAM
    )


@dataclass(frozen=True, slots=True)
class StageIndex:
    """An iteration number, of which a stage is the remainder: `base` (None is 0) plus `offset`."""

    base: Value | None
    offset: int

    def later(self, iterations: int) -> StageIndex:
        return StageIndex(self.base, self.offset + iterations) if iterations else self


# A stage; None for an unknown one.
Stage = StageIndex | None

FIRST_STAGE = StageIndex(None, 0)


def stage_of(value: Value) -> StageIndex:
    """Return an iteration number as a base and an offset."""
    offset = 0
    while True:
        number = constant_of(value)
        if isinstance(number, int):
            return StageIndex(None, offset + number)
        op = value.op
        if op is None or op.defn is not arith.add:
            return StageIndex(value, offset)
        x, y = op.inputs
        step, rest = constant_of(y), x
        if step is None:
            step, rest = constant_of(x), y
        if step is None:
            return StageIndex(value, offset)
        value, offset = rest, offset + int(step)


# For each base that has new names, the new bases with the offsets to add.
Renaming = Mapping[Value | None, list[StageIndex]]


def renaming(pairs: Iterable[tuple[Value, Value]]) -> Renaming:
    """Return the new names of iteration numbers where control passes old values as new ones.

    pairs: (new, old).
    """
    renamings: dict[Value | None, list[StageIndex]] = {}
    for new, old in pairs:
        if new.type != I32:  # not an iteration number
            continue
        stage = stage_of(old)
        renamings.setdefault(stage.base, []).append(StageIndex(new, -stage.offset))
    return renamings


class Kind(enum.Enum):
    """The kind of an access, and the threads that do it."""

    READ = "read"
    WRITE = "write"  # by the first of the threads that hold an element
    CP_ASYNC = "cp_async"  # issued by the first of the threads that hold an element
    ATOMIC = "atomic"  # two of them do not conflict
    INVALIDATE = "invalidate"  # of mbarriers, by the first thread; nobody reads them afterwards
    TMA_WRITE = "tma_write"  # issued by the first thread; complete after a wait on its mbarrier


_WARPGROUP_BITS = WARPGROUP_WARPS.bit_length() - 1  # of the number of a warp

# Done by only the first of several threads that hold an element.
_BY_FIRST_HOLDER = (Kind.WRITE, Kind.CP_ASYNC)


@dataclass(frozen=True, eq=False)
class Access:
    """An operation on a buffer: the bytes from `begin` to `end`, in `stages` of equal size.

    layout: the elements that each thread accesses; None if these are only known at run time.
    """

    op: Operation
    kind: Kind
    buffer: Value
    begin: int
    end: int
    stages: int
    stage: Stage
    layout: LinearLayout | None

    def interval(self, stage: Stage) -> tuple[int, int]:
        """Return the range of bytes that the access may touch, given its stage."""
        if self.stages == 1 or stage is None or stage.base is not None:
            return self.begin, self.end
        size = (self.end - self.begin) // self.stages
        begin = self.begin + stage.offset % self.stages * size
        return begin, begin + size

    def may_overlap(self, stage: Stage, other: Access, other_stage: Stage) -> bool:
        """Return True if both accesses, in these stages, may touch the same bytes."""
        if self.buffer is other.buffer:
            if stage is None or other_stage is None or stage.base is not other_stage.base:
                return True
            return (stage.offset - other_stage.offset) % self.stages == 0
        begin, end = self.interval(stage)
        other_begin, other_end = other.interval(other_stage)
        return begin < other_end and other_begin < end

    def conflicts(
        self, stage: Stage, other: Access, other_stage: Stage, *, warpgroups: bool = False
    ) -> bool:
        """Return True if these accesses race between threads unless something orders them.

        warpgroups: True if something orders those of each warpgroup.
        """
        if self.kind is other.kind and self.kind in (Kind.READ, Kind.ATOMIC):
            return False
        if not self.may_overlap(stage, other, other_stage):
            return False
        return not self.is_private_with(other, warpgroups=warpgroups)

    def is_private_with(self, other: Access, *, warpgroups: bool = False) -> bool:
        """Return True if no element is accessed by different threads, or warpgroups, in the two."""
        if self.layout is None or other.layout is None or not self.same_addresses(other):
            return False
        return _disjoint(self.layout, self.kind, other.layout, other.kind, warpgroups=warpgroups)

    def same_addresses(self, other: Access) -> bool:
        """Return True if each element is at the same offset in every stage of both buffers.

        Two stages then are either the same bytes or disjoint.
        """
        if self.buffer is other.buffer:
            return True
        x, y = shared_of(self.buffer.type), shared_of(other.buffer.type)
        if (self.begin - other.begin) % x.stage_bytes:
            return False
        return (x.dims, x.of, x.layout, x.used) == (y.dims, y.of, y.layout, y.used)


# The elements that each thread accesses.
LayoutRule = Callable[[Operation], LinearLayout | None]


@lru_cache(maxsize=4096)
def _disjoint(
    x: LinearLayout, x_kind: Kind, y: LinearLayout, y_kind: Kind, *, warpgroups: bool
) -> bool:
    """Return True if no two different threads hold one element, each by one of two layouts.

    With `warpgroups`, all threads of a warpgroup are one.

    A thread's elements are the image of its number XORed with the images of all registers. So two
    threads share an element if their images and those of some registers XOR to 0. That is a linear
    condition on pairs of threads; all of its solutions must be pairs of a thread with itself.
    """
    columns, threads = [], []
    for layout, kind in ((x, x_kind), (y, y_kind)):
        at = bit_positions(layout.indices)
        for name, images in layout.ins:
            for bit, column in enumerate(images):
                # A zero column means copies: a thread with that bit in its number writes nothing.
                if column or kind not in _BY_FIRST_HOLDER:
                    columns.append(column)
                    apart = (
                        name == WARP and bit >= _WARPGROUP_BITS if warpgroups else name != REGISTER
                    )
                    threads.append(1 << at[name] + bit if apart else 0)
    return not any(f2.multiply(threads, pair) for pair in f2.kernel(columns))


def accesses_of(op: Operation) -> tuple[Access, ...]:
    """Return an operation's accesses of shared memory, those of all threads.

    Accesses of mbarriers are taken to be of all stages. Raises `PassError` if a buffer has no
    offset.
    """
    return tuple(
        _access(op, name, kind, layout(op))
        for name, kind, layout in _ACCESSES.get(op.defn, ())
        if isinstance(op[name].type, Shared)
    )


def _access(op: Operation, operand: str, kind: Kind, layout: LinearLayout | None) -> Access:
    mem: Value = op[operand]
    stage: Stage = FIRST_STAGE
    while mem.op is not None and mem.op.defn in ops.shared.VIEWS:
        if mem.op.defn is ops.shared.local_subview:
            stage = stage_of(mem.op["iteration"]).later(mem.op["stage_offset"])
        mem = mem.op["mem"]
    alloc = mem.op
    if alloc is None or alloc.defn is not ops.shared.local_alloc or alloc["offset"] < 0:
        raise PassError("a buffer has no offset before the pass allocate-shared", loc=op.loc)
    ty = shared_of(mem.type)
    begin = alloc["offset"]
    if operand == "bars":  # mbarriers of any stage
        stage = None
    return Access(op, kind, mem, begin, begin + ty.bytes, ty.stages, stage, layout)


def _load_layout(op: Operation) -> LinearLayout | None:
    """Return the layout of a load; None if a thread may read elements that others hold.

    It may if the load's mask moves it to their elements, and if a warp can use ldmatrix.
    """
    layout, mem = layout_of(op.result), op["mem"].type
    assert isinstance(mem.layout, LinearLayout)
    if ldmatrix_access(layout, mem.layout, mem.of.storage_bits) is not None:
        return None
    return layout if not op["mask"] or mask_within(layout, op["mask"], (REGISTER,)) else None


def _operand_layout(index: int) -> LayoutRule:
    def layout(op: Operation) -> LinearLayout | None:
        value = op.operands[index]
        assert value is not None
        return layout_of(value)

    return layout


def _stored_layout(op: Operation) -> LinearLayout | None:
    """Return the part that each warpgroup stores; None for the first thread, which has all."""
    warpgroups, mem = op["warpgroups"], op["mem"].type
    return ops.tma.part_of_warpgroup(mem, warpgroups, op["axis"]) if warpgroups > 1 else None


def _unknown(op: Operation) -> None:
    """Return None: the elements that each thread accesses are known at run time only."""


# The accesses of an operation: the operand that is the buffer, their kind and layout.
_ACCESSES: dict[OpDef, tuple[tuple[str, Kind, LayoutRule], ...]] = {
    ops.shared.local_store: (("mem", Kind.WRITE, _operand_layout(1)),),
    ops.shared.local_cp_async: (("mem", Kind.CP_ASYNC, _operand_layout(1)),),
    ops.shared.local_load: (("mem", Kind.READ, _load_layout),),
    ops.shared.local_gather: (("mem", Kind.READ, _unknown),),
    ops.shared.local_load_slice: (("mem", Kind.READ, _unknown),),
    ops.shared.local_store_slice: (("mem", Kind.WRITE, _unknown),),
    ops.shared.local_atomic_inc: (("mem", Kind.ATOMIC, _unknown),),
    ops.shared.local_ordered_inc: (("mem", Kind.ATOMIC, _unknown),),
    ops.shared.local_scatter: (("mem", Kind.WRITE, _unknown),),
    ops.wgmma.wgmma: (("a", Kind.READ, _unknown), ("b", Kind.READ, _unknown)),
    ops.tma.mbarrier_init: (("bars", Kind.WRITE, _unknown),),
    ops.tma.mbarrier_arrive_expect_tx: (("bars", Kind.READ, _unknown),),
    ops.tma.mbarrier_wait: (("bars", Kind.READ, _unknown),),
    ops.tma.mbarrier_arrive: (("bars", Kind.READ, _unknown),),
    ops.cluster.mbarrier_arrive_pair: (("bars", Kind.READ, _unknown),),
    ops.tma.mbarrier_inval: (("bars", Kind.INVALIDATE, _unknown),),
    ops.tma.tma_load: (("mem", Kind.TMA_WRITE, _unknown), ("bars", Kind.READ, _unknown)),
    ops.cluster.tma_load_multicast: (
        ("mem", Kind.TMA_WRITE, _unknown),
        ("bars", Kind.READ, _unknown),
    ),
    ops.tma.tma_load_im2col: (
        ("mem", Kind.TMA_WRITE, _unknown),
        ("bars", Kind.READ, _unknown),
    ),
    ops.tma.tma_store: (("mem", Kind.READ, _stored_layout),),
    ops.tma.tma_reduce: (("mem", Kind.READ, _stored_layout),),
    ops.tma.tma_store_wait: (("mem", Kind.READ, _stored_layout),),
}

# The operations that access shared or global memory.
ACCESSING = frozenset({*_ACCESSES, memory.load, memory.store, memory.atomic_rmw, memory.atomic_cas})
