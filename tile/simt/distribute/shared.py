"""Accesses to shared memory, in vectors of registers of one thread.

Where a thread finds its vectors is a layout of (vector, lane, warp): registers lead to coordinates,
and these, by the inverse of the buffer's layout, to offsets. All is linear, so the vectors'
registers are numbered by bits, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from tile.ir.core import Operation, Value
from tile.ir.opdef import OpDef
from tile.ir.ops import arith, shape
from tile.ir.ops.arith import Predicate
from tile.ir.types import I32, Fragment, Shared
from tile.simt import ops
from tile.simt.distribute.context import Context, Rule, bits_of_element, count_of
from tile.simt.distribute.memory import first_holder, read
from tile.simt.distribute.registers import Registers, axis_mask, inverse, sums
from tile.simt.layout_rules import layout_of
from tile.simt.layouts.banks import Banks
from tile.simt.layouts.dims import LANE, OFFSET, REGISTER, WARP
from tile.simt.layouts.layout import LinearLayout
from tile.simt.layouts.matrix_access import matrix_access, matrix_store
from tile.simt.layouts.pieces import of_pieces, stacked
from tile.simt.layouts.shared_access import shared_access
from tile.simt.ops.thread import is_matrix_element
from tile.simt.product_pieces import K_AXES


@dataclass(frozen=True)
class Places:
    """Where a thread's part of a tile is in a buffer.

    `first` leads from (vector, lane, warp) to the offset of a vector's first element, the vectors
    numbered as registers; `order` has the registers of one vector after the other, as they are in
    memory.
    """

    vector: int
    first: LinearLayout
    order: Registers


@lru_cache(maxsize=1024)
def places_of(layout: LinearLayout, shared: LinearLayout, bits: int, banks: Banks) -> Places:
    """Where a tile of a layout is in a buffer, in vectors as wide as can be."""
    access = shared_access(layout, shared, bits, banks)
    offsets = access.offsets
    vectors = len(access.registers).bit_length() - 1
    firsts = [access.registers[1 << bit][0] for bit in range(vectors)]
    columns = tuple([offsets.apply(register=register)[OFFSET] for register in firsts])
    threads = tuple([(name, offsets.images(name)) for name in (LANE, WARP)])
    order = tuple([register for vector in access.registers for register in vector])
    return Places(access.vector, LinearLayout(((REGISTER, columns), *threads), offsets.outs), order)


def _buffer(op: Operation) -> tuple[Shared, LinearLayout]:
    mem = op.inputs[0].type
    assert isinstance(mem, Shared) and isinstance(mem.layout, LinearLayout)
    return mem, mem.layout


def _places(ctx: Context, op: Operation, tile: Value, banks: Banks | None = None) -> Places:
    mem, layout = _buffer(op)
    return places_of(layout_of(tile), layout, bits_of_element(mem), banks or ctx.target.banks)


# -- whole tiles


def local_store(ctx: Context, op: Operation) -> Sequence[Value]:
    """Warps write matrices where the machine can, and it takes less than what follows.

    Every thread writes what it holds, in vectors, and of several that hold it the first.
    """
    mem, shared = _buffer(op)
    layout = layout_of(op.inputs[1])
    if ctx.target.matrix_stores and is_matrix_element(mem.of):
        found = matrix_store(layout, shared, bits_of_element(mem), ctx.target.banks)
        if found is not None:
            ctx.op(
                ops.thread.shared_matrix_store,
                ctx.of(op.inputs[0]),
                ctx.index(found.rows),
                ctx.of(op.inputs[1]),
                matrices=found.matrices,
                transposed=found.transposed,
            )
            return []
    return _stored(ctx, op, ctx.of(op.inputs[1]))


def _stored(ctx: Context, op: Operation, x: Value) -> Sequence[Value]:
    """Write a fragment of the layout of the second operand to the buffer that is the first."""
    found = _places(ctx, op, op.inputs[1])
    offsets = ctx.index(found.first)
    mask = _holder(ctx, op, count_of(offsets))
    value = ctx.pick(x, registers=found.order)
    mem = ctx.of(op.inputs[0])
    ctx.op(ops.thread.shared_store, mem, offsets, value, mask, vector=found.vector)
    return []


def _holder(ctx: Context, op: Operation, count: int) -> Value | None:
    """A mask for `count` vectors: this thread is the first that holds them; None if the only."""
    holder = first_holder(ctx, layout_of(op.inputs[1]))
    return None if holder is None else ctx.filled(holder, count)


def local_load(ctx: Context, op: Operation) -> Sequence[Value]:
    """Warps read matrices where the machine can; otherwise every thread reads what it holds.

    That is in vectors. A mask is XORed with the places: with the offsets of vectors, and inside
    them with the order.
    """
    matrices = _matrices(ctx, op)
    if matrices is not None:
        return [matrices]
    found = _places(ctx, op, op.result)
    moved = _moved(_buffer(op)[1], op["mask"])
    inside = moved & found.vector - 1
    offsets = ctx.xored(ctx.index(found.first), moved ^ inside)
    loaded = ctx(ops.thread.shared_load, ctx.of(op.inputs[0]), offsets, vector=found.vector)
    return [ctx.pick(loaded, registers=tuple([at ^ inside for at in inverse(found.order)]))]


def _matrices(ctx: Context, op: Operation) -> Value | None:
    """A tile read by loads of matrices; None if it cannot be."""
    mem, shared = _buffer(op)
    if not ctx.target.matrix_loads or any(op["mask"]) or not is_matrix_element(mem.of):
        return None
    layout, order = in_steps(layout_of(op.result), *_step(op.result))
    found = matrix_access(layout, shared, bits_of_element(mem))
    if found is None:
        return None
    loaded = ctx(
        ops.thread.shared_matrix_load,
        ctx.of(op.inputs[0]),
        ctx.index(found.rows),
        matrices=found.matrices,
        transposed=found.transposed,
    )
    return ctx.pick(loaded, registers=inverse(order))


def _step(x: Value) -> tuple[int, int]:
    """The axis of k, and how much of it an instruction multiplies, of a factor; else all of it."""
    for user, index in x.uses:
        if user.defn is ops.matrix.matrix_dot and index < len(K_AXES):
            return K_AXES[index], user["shape"][2]
        if user.defn is shape.trans:
            axis, step = _step(user.result)
            return user["order"][axis] - len(user["order"]), step
    return -1, x.type.shape[-1]


@lru_cache(maxsize=1024)
def in_steps(layout: LinearLayout, axis: int, step: int) -> tuple[LinearLayout, Registers]:
    """The layout with what leads `step` or more along an axis as its last registers.

    So matrices that are loaded together are multiplied by one instruction, or by those that follow.
    Second is which registers of the layout these are.
    """
    (_, images), *threads = layout.ins
    (_, bases) = "", layout.bases(REGISTER)
    bits = sorted(range(len(images)), key=lambda bit: bases[bit][axis] >= step)
    moved = LinearLayout(((REGISTER, tuple(images[bit] for bit in bits)), *threads), layout.outs)
    return moved, sums(1 << bit for bit in bits)


def _moved(shared: LinearLayout, mask: Sequence[int]) -> int:
    """The offset of the element at the coordinates `mask`; 0 for no mask."""
    coordinates = dict(zip(shared.out_dims, mask, strict=False))
    return shared.invert().apply(**coordinates).get(OFFSET, 0) if any(mask) else 0


def local_copy(ctx: Context, op: Operation) -> Sequence[Value]:
    """Every thread copies what it has pointers to, in vectors of a size that the machine copies.

    Of several threads that have the same pointers the first copies. Vectors that the machine cannot
    copy are loaded and stored at once, which is early enough.
    """
    mem, _ = _buffer(op)
    ptr, mask = op.inputs[1], op["mask"]
    found = _copied(ctx, op, ptr, mask)
    sizes, banks = ctx.target.copy_bytes, ctx.target.banks
    while found.vector > 1 and found.vector * mem.of.itemsize not in sizes:
        found = _places(ctx, op, ptr, banks.up_to(found.vector // 2 * bits_of_element(mem)))
    if found.vector * mem.of.itemsize not in sizes:
        other = None if mask is None else ctx.constant(0, Fragment(count_of(ctx.of(ptr)), mem.of))
        return _stored(ctx, op, read(ctx, ptr, mask, other, **op.attributes))
    pointers = ctx.pick(ctx.of(ptr), registers=found.order)
    masks = None
    if mask is not None:
        masks = ctx.pick(ctx.of(mask), registers=found.order[:: found.vector])
    ctx.op(
        ops.thread.shared_copy,
        ctx.of(op.inputs[0]),
        ctx.index(found.first),
        pointers,
        masks,
        first_holder(ctx, layout_of(ptr)),
        **{**op.attributes, "vector": found.vector},
    )
    return []


def _copied(ctx: Context, op: Operation, ptr: Value, mask: Value | None) -> Places:
    """The widest vectors whose pointers are neighbours, aligned, under one mask."""
    mem, shared = _buffer(op)
    found = _places(ctx, op, ptr)
    low = shared.images(OFFSET)[: found.vector.bit_length() - 1]
    widest = 1
    for axis in range(len(mem.dims)):
        most = ctx.facts.of(ptr).vector(axis, mem.of.itemsize)
        if mask is not None:
            most = min(most, ctx.facts.of(mask).constant[axis])
        width, unit = 1, axis_mask(shared, axis) & -axis_mask(shared, axis)
        for column in low:
            if column != unit or 2 * width > most:
                break
            width, unit = width * 2, unit << 1
        widest = max(widest, width)
    return _places(ctx, op, ptr, ctx.target.banks.up_to(widest * bits_of_element(mem)))


# -- parts of tiles


def local_load_part(ctx: Context, op: Operation) -> Sequence[Value]:
    """Every thread reads what it holds, from where that is in part 0, XORed with the part's own."""
    mem, shared = _buffer(op)
    layout = of_pieces(layout_of(op.result), op["axis"], shared.shape)
    found = places_of(layout, shared, bits_of_element(mem), ctx.target.banks)
    first, numbers = _by_number(found.first, layout_of(op.result).in_bits(WARP))
    offsets = ctx.index(first)
    part = _positions(ctx, ctx.of(op["number"]), numbers)
    offsets = ctx(arith.xor, offsets, ctx(ops.thread.fill, part, count=count_of(offsets)))
    loaded = ctx(ops.thread.shared_load, ctx.of(op["mem"]), offsets, vector=found.vector)
    return [ctx.pick(loaded, registers=inverse(found.order))]


@lru_cache(maxsize=1024)
def _by_number(first: LinearLayout, warps: int) -> tuple[LinearLayout, tuple[int, ...]]:
    """The layout of part 0, of `warps` bits that number warps, and what the part's number adds."""
    *others, (_, columns) = first.ins
    return LinearLayout((*others, (WARP, columns[:warps])), first.outs), columns[warps:]


def local_store_part(ctx: Context, op: Operation) -> Sequence[Value]:
    """Every thread writes what it holds of the part, under a mask."""
    mem, shared = _buffer(op)
    x = op["x"]
    whole = stacked(shared, op["axis"], layout_of(x).shape)
    found = places_of(layout_of(x), whole, bits_of_element(mem), ctx.target.banks)
    inside, number = _split_offsets(found.first, shared.in_bits(OFFSET))
    offsets = ctx.index(inside)
    count = count_of(offsets)
    wanted = ctx(ops.thread.fill, ctx.of(op["number"]), count=count)
    here = ctx(arith.cmp, ctx.index(number), wanted, predicate=Predicate.EQ)
    mask = ctx.and_(here, _holder(ctx, op, count))
    value = ctx.pick(ctx.of(x), registers=found.order)
    ctx.op(ops.thread.shared_store, ctx.of(op["mem"]), offsets, value, mask, vector=found.vector)
    return []


@lru_cache(maxsize=1024)
def _split_offsets(first: LinearLayout, bits: int) -> tuple[LinearLayout, LinearLayout]:
    """Offsets within a part of so many bits, and the numbers of parts."""
    parts = 1 << first.out_bits(OFFSET) - bits
    both = first.reshape_outs({"number": parts, OFFSET: 1 << bits})
    return both.select_outs(OFFSET), both.select_outs("number")


# -- elements by their positions


def local_gather(ctx: Context, op: Operation) -> Sequence[Value]:
    """Each element from the place of its other coordinates, XORed with that of its position."""
    _, shared = _buffer(op)
    index, axis = op.inputs[1], op["axis"]
    base = _base(layout_of(index), shared, axis)
    offsets = _positions(ctx, ctx.of(index), _columns(shared, axis))
    if any(base.columns):
        offsets = ctx(arith.xor, offsets, ctx.index(base))
    return [ctx(ops.thread.shared_load, ctx.of(op.inputs[0]), offsets)]


@lru_cache(maxsize=1024)
def _base(layout: LinearLayout, shared: LinearLayout, axis: int) -> LinearLayout:
    """Where the elements with position 0 along the axis are, for those that a thread holds."""
    axis %= len(shared.outs)
    extents = [1 if a == axis else extent for a, extent in enumerate(layout.shape)]
    others = layout.wrap_outs(dict(zip(layout.out_dims, extents, strict=True)))
    return shared.invert() @ others


@lru_cache(maxsize=1024)
def _columns(shared: LinearLayout, axis: int) -> tuple[int, ...]:
    """The offset of each bit of a position along the axis."""
    return shared.invert().images(shared.out_dims[axis])


def _positions(ctx: Context, index: Value, columns: tuple[int, ...]) -> Value:
    """Offsets of positions: their bits, each moved to where its column has ones.

    Bits that move equally far do so together; in what is left of them a position is in the axis.
    """
    if index.type.element != I32:
        index = ctx(arith.cast, index, to=I32)
    moved: dict[int, int] = {}
    for bit, column in enumerate(columns):
        for place in range(column.bit_length()):
            if column >> place & 1:
                moved[place - bit] = moved.get(place - bit, 0) | 1 << bit
    parts = [_part(ctx, index, bits, by) for by, bits in sorted(moved.items())]
    if not parts:
        return ctx.number(0, index.type)
    total = parts[0]
    for part in parts[1:]:
        total = ctx(arith.xor, total, part)
    return total


def _part(ctx: Context, index: Value, bits: int, by: int) -> Value:
    """Some bits of an index, moved up `by` places, or down."""
    part = ctx(arith.and_, index, ctx.number(bits, index.type))
    if by == 0:
        return part
    return ctx(arith.shl if by > 0 else arith.shr, part, ctx.number(abs(by), index.type))


def local_count(ctx: Context, op: Operation) -> Sequence[Value]:
    """The first thread that holds an index counts it."""
    _, shared = _buffer(op)
    mem, index, mask = (ctx.of(value) for value in op.inputs)
    holder = first_holder(ctx, layout_of(op.inputs[1]))
    if holder is not None:
        holder = ctx.filled(holder, count_of(index))
    offsets = _positions(ctx, index, _columns(shared, -1))
    ctx.op(ops.thread.shared_count, mem, offsets, ctx.and_(mask, holder))
    return []


RULES: dict[OpDef, Rule] = {
    ops.shared.local_store: local_store,
    ops.shared.local_load: local_load,
    ops.shared.local_copy: local_copy,
    ops.shared.local_load_part: local_load_part,
    ops.shared.local_store_part: local_store_part,
    ops.shared.local_gather: local_gather,
    ops.shared.local_count: local_count,
}
