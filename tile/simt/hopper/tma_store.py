"""Lower stores through descriptors to TMA stores: a part of `expose-shared` and `pipeline-loops`.

    %y = convert_layout %x                    %m = local_alloc : shared<64x64xf16, #s>
    %q = descriptor_pointers %p, %b, ...      local_store %m, %x
    store %q, %y, %inside                     tma_store %m, %b, ...
                                              tma_store_wait %m

Which ones is in block_stores.py. In a loop the buffer of a reduction is waited for when it is
written again, in the next iteration. Warpgroups that hold their own rows or columns of a block each
add these, and wait for themselves.

A store in a loop of a warp-specialized kernel overlaps with the next iteration, if nothing in the
kernel reads the array. Its buffers are live throughout the loop, together with those of the loads.
So the tile is stored in strips of some columns, alternately through two buffers, each of which is
waited for just before it is written again, and after the loop:

                                              tma_store_wait %m {pending = 1, read = true}
    %x0, %x1 = split ..                       local_store %m, %x0
    ..                                        tma_store %m, %b, ..., %j
                                              tma_store_wait %n {pending = 1, read = true}
                                              local_store %n, %x1
                                              tma_store %n, %b, ..., %k

In other kernels the buffer shares memory with those of inner loops, so the store is waited for at
once; the last ones of a kernel are waited for together, if they take no more memory than the loops.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, cycle

from tile.analysis.alias import Alias, rely_on_disjoint
from tile.ir.core import Function, Operation, Value
from tile.ir.effects import constant_of
from tile.ir.op_definition import Effect, Trait
from tile.ir.ops import arith, control, memory
from tile.ir.ops.memory import Order
from tile.ir.shared_type import Shared
from tile.ir.types import I32
from tile.simt import ops
from tile.simt.hopper.block_stores import (
    BlockStores,
    buffer_of_block,
    conversion_of,
    strips_of_block,
    warn_of_atomics,
)
from tile.simt.layouts.dims import LANE, REGISTER, WARP, axis_name
from tile.simt.ops.layout_inference import LayoutBuilder, half_layout, layout_of
from tile.simt.ops.shared import local_alloc
from tile.simt.ops.warp_specialize import WARPGROUP_WARPS

# Columns of a strip, from the fewest barriers to the least memory: 64 take the 128 bytes of the
# widest swizzle of TMA. (H200, 8192 x 8192 x 512, 3 stages, of cuBLAS: .994, .986; with 256 .939.)
STRIP_COLUMNS = (128, 64)
STRIP_BUFFERS = 2  # one is written while TMA reads the other

Aliases = Callable[[], Mapping[str, Alias]]


def lower_tma_stores(function: Function, aliases: Aliases, stores: BlockStores) -> None:
    """Lower stores of descriptor blocks to TMA stores where no other operation writes to the array.

    TMA stores are not ordered with the writes of threads without a proxy fence. The last store of a
    kernel need only have read its buffer: the end of the grid completes it. A reduction need
    not be complete, but only have read its buffer, before what follows, if that neither accesses
    the array nor tells other programs what came before. Where it does both, threads combine.
    """
    orders = any(map(_orders, function.walk()))
    chosen = _chosen(function, aliases, stores)
    last = [TmaStore(op) for op in chosen if op.defn is memory.store and _is_last(op, chosen)]
    together = 0 < sum(store.buffer.bytes for store in last) <= _buffer_bytes(function)
    if together:
        _lower_together(last)
        chosen = [op for op in chosen if all(op is not store.op for store in last)]
    for op in chosen:
        if op.defn is memory.store:
            _lower([TmaStore(op)], read=any(op is store.op for store in last))
        elif orders and _is_accessed_by_others(op, aliases):
            continue
        elif orders or _is_accessed_by_others(op, aliases):
            _lower([TmaStore(op)])
        else:
            parent = op.parent
            in_loop = parent is not None and parent.has_trait(Trait.LOOP)
            _lower([TmaStore(op, parent if in_loop else None)], read=True)
    warn_of_atomics(function, stores)


def _buffer_bytes(function: Function) -> int:
    """Return the bytes of the buffers that a function has so far."""
    allocs = (op.result.type for op in function.walk() if op.defn is local_alloc)
    return sum(ty.bytes for ty in allocs if isinstance(ty, Shared))


def _is_last(store: Operation, chosen: Sequence[Operation]) -> bool:
    """Return True if nothing after a store in a kernel reads, synchronizes, or writes its block."""
    if not store.function.kernel or store.parent is not None:
        return False
    following, op = list[Operation](), store.next
    while op is not None:
        following += op.walk()
        op = op.next
    orders = Effect.READ | Effect.SYNC
    return not any(
        op.defn.effect & orders or (op in chosen and not _are_disjoint(store, op))
        for op in following
    )


def _are_disjoint(one: Operation, other: Operation) -> bool:
    """Return True if two stored blocks are of one array, apart by a constant along an axis."""
    if one.defn is not memory.store or other.defn is not memory.store:
        return False
    blocks, rank = (one["ptr"].op.inputs[1:], other["ptr"].op.inputs[1:]), one["value"].type.rank
    if rank != other["value"].type.rank or blocks[0][:-rank] != blocks[1][:-rank]:
        return False
    extents = zip(one["value"].type.shape, other["value"].type.shape, strict=True)
    starts = zip(*(map(_offset, block[-rank:]) for block in blocks), strict=True)
    return any(
        first == second and not -after < end - start < before
        for (before, after), ((first, start), (second, end)) in zip(extents, starts, strict=True)
    )


def _offset(index: Value) -> tuple[Value | None, int]:
    """Return a value and the constant that is added to it; None for a constant alone."""
    number = constant_of(index)
    if number is not None:
        return None, int(number)
    if index.op is not None and index.op.defn is arith.add:
        value, added = index.op.inputs
        constant = constant_of(added)
        if constant is not None:
            return value, int(constant)
    return index, 0


def _orders(op: Operation) -> bool:
    """Return True if an operation may order accesses to memory for other programs."""
    if op.has_trait(Trait.ATOMIC):
        return op["order"] is not Order.RELAXED
    return Effect.SYNC in op.defn.effect or op.defn is control.call


def _is_accessed_by_others(reduction: Operation, aliases: Aliases) -> bool:
    """Return True if other operations of the function may access the array of a reduction."""
    accessing = Effect.READ | Effect.WRITE
    ops = [op for op in reduction.function.walk() if op.defn.effect & accessing and _has_ptr(op)]
    return not _is_alone(reduction, [op["ptr"] for op in ops if op is not reduction], aliases)


def _is_alone(op: Operation, others: Sequence[Value], aliases: Aliases) -> bool:
    """Return True if no pointer of others may alias that of an operation.

    If so, record the parameters that are taken to be disjoint.
    """
    function = op.function
    alias = aliases()[function.name]
    if any(alias.may_alias(op["ptr"], other) for other in others):
        return False
    for other in others:
        rely_on_disjoint(aliases(), function, alias.assumed(op["ptr"], other))
    return True


@dataclass(frozen=True)
class TmaStore:
    """A store or reduction of a block by TMA.

    loop: the outermost loop in which the next iteration waits for it; None if it is waited for at
        once.
    times: how often the tile is halved along `axis` to make strips.
    """

    op: Operation
    loop: Operation | None = None
    times: int = 0
    axis: int = -1

    def in_strips(self, columns: int) -> TmaStore:
        """Return the store in strips of so many columns at most, and as many as there are buffers.

        They have so many rows, if warps divide the columns, and more where threads do not hold
        elements of both halves of a tile either. A reduction stays whole.
        """
        if self.op.defn is not memory.store:
            return self
        for axis in (-1, -2):
            each = max(STRIP_COLUMNS[-1], self.op["value"].type.shape[axis] // STRIP_BUFFERS)
            times = _halvings(self.op, min(columns, each), axis)
            if times:
                return replace(self, times=times, axis=axis)
        return replace(self, times=0)

    @property
    def conversion(self) -> Operation | None:
        """The conversion of the tile, which the buffers replace."""
        return conversion_of(self.op)

    @property
    def value(self) -> Value:
        """The tile, not converted."""
        conversion = self.conversion
        value: Value = self.op["value"] if conversion is None else conversion.inputs[0]
        return value

    @property
    def buffer(self) -> Shared:
        """The type of a buffer for a strip."""
        dims = list(self.op["value"].type.shape)
        dims[self.axis] >>= self.times
        return buffer_of_block(self.op, dims)

    def is_divided(self, warpgroups: int, axis: int) -> bool:
        """Return True if each warpgroup has a part of its own along an axis, in order."""
        buffer, ty = self.buffer, self.value.type
        strips = strips_of_block(self.op["value"].type)
        if ops.tma.part_of_warpgroup(buffer, warpgroups, axis) is None or strips is None:
            return False
        each = ty.shape[axis] // warpgroups
        if axis == -1 and each % strips.width:
            return False
        along = layout_of(self.value).select_outs(axis_name(ty.rank + axis))
        of_warps, warps = along.images(WARP), WARPGROUP_WARPS.bit_length() - 1
        shared = (*along.images(REGISTER), *along.images(LANE), *of_warps[:warps])
        own = tuple(each << bit for bit in range(warpgroups.bit_length() - 1))
        return of_warps[warps:] == own and max(shared) < each

    @property
    def count(self) -> int:
        """The number of strips."""
        return 1 << self.times


def plan_loop_stores(function: Function, aliases: Aliases, stores: BlockStores) -> list[TmaStore]:
    """Return the stores in loops that may overlap with what follows: of arrays nothing reads.

    TMA stores in flight are not ordered. So the index of the block changes in each of the loops.
    Reductions need no order.
    """
    chosen = _chosen(function, aliases, stores)
    read = [op for op in function.walk() if Effect.READ in op.defn.effect and _has_ptr(op)]
    ordered = [op for op in chosen if op.defn is memory.store]
    ordered += [op for op in read if not stores.is_reduction(op)]
    orders = any(map(_orders, function.walk()))
    planned: list[TmaStore] = []
    for op in chosen:
        loops = [outer for outer in op.ancestors() if outer.has_trait(Trait.LOOP)]
        if op.defn is memory.store:
            overlaps, others = all(_moves(op, loop) for loop in loops), read
        else:
            overlaps, others = not orders, ordered
        if loops and overlaps and _is_alone(op, [other["ptr"] for other in others], aliases):
            planned.append(TmaStore(op, loops[-1]))
    return planned


def _moves(store: Operation, loop: Operation) -> bool:
    """Return True if the index of a stored block is computed in each iteration of a loop."""
    rank = store["value"].type.rank
    index = store["ptr"].op.inputs[-rank:]
    return any(map(loop.defines, index))


def lower_loop_stores(stores: Iterable[TmaStore]) -> None:
    """Lower stores, each of which is waited for when its buffer is written again."""
    for each in _sequences(stores):
        _lower(each, read=True)


def staging_bytes(stores: Iterable[TmaStore]) -> int:
    """Return the bytes of the buffers of stores in loops."""
    return sum(buffer.bytes for each in _sequences(stores) for buffer in _staging(each))


def _sequences(stores: Iterable[TmaStore]) -> list[list[TmaStore]]:
    """Return stores that are always executed one after the other; a reduction is alone."""
    sequences: dict[object, list[TmaStore]] = {}
    for store in stores:
        key = store.op.block if store.op.defn is memory.store else store.op
        sequences.setdefault((key, store.loop), []).append(store)
    return list(sequences.values())


def _staging(stores: Iterable[TmaStore]) -> list[Shared]:
    """Return the types of the buffers of a sequence; strips of one type share theirs."""
    strips = Counter(chain.from_iterable([store.buffer] * store.count for store in stores))
    return [ty for ty, count in strips.items() for _ in range(min(STRIP_BUFFERS, count))]


def _chosen(function: Function, aliases: Aliases, stores: BlockStores) -> Sequence[Operation]:
    """Return the stores that become TMA stores."""
    writers = [op for op in function.walk() if Effect.WRITE in op.defn.effect]
    chosen = [op for op in writers if op in stores]
    # Narrow blocks, which warps convert by shuffles, are stored by TMA if others of the array are.
    arrays = {op["ptr"].op.inputs[1] for op in chosen}
    chosen = [
        op
        for op in writers
        if op in stores or (stores.is_block(op) and op["ptr"].op.inputs[1] in arrays)
    ]
    if not chosen or any(op.defn is control.call for op in writers):
        return ()
    # A TMA store that was built for a loop is the only one that writes its array.
    others = [op["ptr"] for op in writers if op not in chosen]
    return [op for op in chosen if _is_alone(op, others, aliases)]


def _has_ptr(op: Operation) -> bool:
    return "ptr" in op.defn.positions


def _halvings(op: Operation, most: int, axis: int) -> int:
    """Return how often a stored tile is halved, as long as threads hold elements of both halves."""
    (value,) = op["value"].op.inputs
    layout, times = layout_of(value), 0
    while layout.shape[axis] > most:
        half = half_layout(layout, axis)
        if half is None:
            break
        layout, times = half, times + 1
    return times


def _lower(stores: Sequence[TmaStore], *, read: bool = False) -> None:
    """Lower a sequence of stores, or a reduction. In a loop they use their buffers alternately.

    read: True if it is waited for only until all have read their buffers.
    """
    loop = stores[0].loop
    build = LayoutBuilder.before(stores[0].op if loop is None else loop)
    buffers = [build(local_alloc, result=ty) for ty in _staging(stores)]
    assigned, (groups, axis) = _assign(stores, buffers), _warpgroups(stores)
    for store in stores:
        build = LayoutBuilder.before(store.op)
        for at, strip in _strips(build, store.value, store.times, store.axis):
            mem, pending = next(assigned)
            mem.name = store.value.name
            if loop is not None:
                build.op(
                    ops.tma.tma_store_wait,
                    mem,
                    pending=pending,
                    read=True,
                    warpgroups=groups,
                    axis=axis,
                )
            if groups > 1:
                build.op(ops.order.warpgroup_barrier)
            build.op(ops.shared.local_store, mem, strip)
            if groups > 1:
                build.op(ops.wgmma.fence_proxy_async)
                build.op(ops.order.warpgroup_barrier)
            _store(build, store, mem, at, groups, axis)
    end = LayoutBuilder.before(stores[-1].op) if loop is None else LayoutBuilder.after(loop)
    end.op(
        ops.tma.tma_store_wait, buffers[-1], read=read, warpgroups=groups, axis=axis
    )  # for all of them
    for store in stores:
        _erase(store.op)


def _lower_together(stores: Sequence[TmaStore]) -> None:
    """Lower the last stores of a kernel, which pass one barrier, and wait for all at its end.

    Each has a buffer of its own, where those of loops were before.
    """
    end, buffers = LayoutBuilder.before(stores[-1].op), list[Value]()
    for store in stores:
        build = LayoutBuilder.before(store.op)
        buffers.append(build(local_alloc, result=store.buffer))
        build.op(ops.shared.local_store, buffers[-1], store.value)
    for store, buffer in zip(stores, buffers, strict=True):
        buffer.name = store.value.name
        _store(end, store, buffer)
    for buffer in buffers:
        end.op(ops.tma.tma_store_wait, buffer, read=True)
    for store in stores:
        _erase(store.op)


def _assign(stores: Sequence[TmaStore], buffers: Sequence[Value]) -> Iterator[tuple[Value, int]]:
    """Yield the buffer of each strip, and the strips that are stored after the one before in it.

    The sequence is executed again and again.
    """
    by_type = {ty: [each for each in buffers if each.type == ty] for ty in _staging(stores)}
    following = {ty: cycle(group) for ty, group in by_type.items()}
    order = [next(following[store.buffer]) for store in stores for _ in range(store.count)]
    for at, buffer in enumerate(order):
        earlier = [*reversed(order[:at]), *reversed(order[at:])]
        yield buffer, earlier.index(buffer)


def _warpgroups(stores: Sequence[TmaStore]) -> tuple[int, int]:
    """Return how many warpgroups store their own parts in a loop, and along which axis.

    They need not wait for each other then. With 1, one thread stores all.
    """
    groups = layout_of(stores[0].value).in_size(WARP) // WARPGROUP_WARPS
    alone = all(store.loop is not None for store in stores)
    for axis in (-2, -1):
        if alone and groups > 1 and all(store.is_divided(groups, axis) for store in stores):
            return groups, axis
    return 1, -2


def _store(
    build: LayoutBuilder,
    store: TmaStore,
    mem: Value,
    at: int = 0,
    warpgroups: int = 1,
    axis: int = -2,
) -> None:
    """Begin a TMA store or reduction of a buffer to a strip of a block, which begins at `at`."""
    op, numbers = store.op, [*store.op["ptr"].op.inputs[1:]]
    if at:
        number = build(arith.const, value=at, result=I32)
        numbers[store.axis] = build(arith.add, numbers[store.axis], number)
    if op.defn is memory.store:
        build.op(ops.tma.tma_store, mem, *numbers, warpgroups=warpgroups, axis=axis)
    else:
        build.op(
            ops.tma.tma_reduce, mem, *numbers, kind=op["kind"], warpgroups=warpgroups, axis=axis
        )


def _strips(build: LayoutBuilder, value: Value, times: int, axis: int) -> list[tuple[int, Value]]:
    """Return the parts of a tile after so many halvings along an axis, and where each begins."""
    if not times:
        return [(0, value)]
    half = value.type.shape[axis] // 2
    return [
        (first + number * half, strip)
        for number, part in enumerate(build.bisect(value, axis))
        for first, strip in _strips(build, part, times - 1, axis)
    ]


def _erase(op: Operation) -> None:
    conversion, pointers = conversion_of(op), op["ptr"].op
    op.erase()
    if conversion is not None:
        conversion.erase()
    if not pointers.result.uses:
        pointers.erase()
