"""Rules of shared memory accesses, in vectors of registers of one thread.

The offsets of a thread's vectors are a layout of (vector, lane, warp): the tile's layout maps
registers to coordinates, and the inverse of the buffer's layout maps these to offsets. All of that
is linear, so vectors are numbered by bits of the register number, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce

from tile.ir.core import Operation, Value
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith, shape
from tile.ir.ops.arith import Predicate
from tile.ir.shared_type import Shared, shared_of
from tile.ir.types import I32, Fragment, count_of
from tile.simt import ops
from tile.simt.layouts import f2
from tile.simt.layouts.axes import Registers, axis_mask, inverse, stacked_slices, sums, unsliced
from tile.simt.layouts.dims import LANE, OFFSET, REGISTER, WARP
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.layouts.shared_access import Banks, ldmatrix_access, shared_access, stmatrix_access
from tile.simt.lower.distribute.context import Context, Rule
from tile.simt.lower.distribute.memory import first_holder, mask_first_holder, read
from tile.simt.ops.layout_inference import layout_of
from tile.simt.ops.thread import is_ldmatrix_element
from tile.simt.schedule.dot_slices import K_AXES


@dataclass(frozen=True)
class Vectors:
    """The vectors of a thread's part of a tile in a buffer.

    vector: the number of elements of each.
    first: the layout from (vector, lane, warp) to the offset of a vector's first element; vectors
        are numbered as registers.
    order: the registers of one vector after the other, in the order of memory.
    """

    vector: int
    first: LinearLayout
    order: Registers


@lru_cache(maxsize=1024)
def vectors_of(layout: LinearLayout, shared: LinearLayout, bits: int, banks: Banks) -> Vectors:
    """Return the vectors of a tile of a layout in a buffer, as wide as possible."""
    access = shared_access(layout, shared, bits, banks)
    offsets = access.offsets
    vectors = len(access.registers).bit_length() - 1
    firsts = [access.registers[1 << bit][0] for bit in range(vectors)]
    columns = tuple([offsets.apply(register=register)[OFFSET] for register in firsts])
    threads = tuple([(name, offsets.images(name)) for name in (LANE, WARP)])
    order = tuple([register for vector in access.registers for register in vector])
    return Vectors(
        access.vector, LinearLayout(((REGISTER, columns), *threads), offsets.outs), order
    )


def _buffer(op: Operation) -> tuple[Shared, LinearLayout]:
    mem = shared_of(op.inputs[0].type)
    assert isinstance(mem.layout, LinearLayout)
    return mem, mem.layout


def _vectors(ctx: Context, op: Operation, tile: Value, banks: Banks | None = None) -> Vectors:
    mem, layout = _buffer(op)
    return vectors_of(layout_of(tile), layout, mem.element.storage_bits, banks or ctx.target.banks)


# -- whole tiles


def local_store(ctx: Context, op: Operation) -> Sequence[Value]:
    """Store a tile: by stmatrix if the target has it and it takes fewer instructions.

    Otherwise every thread stores in vectors what it is the first to hold.
    """
    mem, shared = _buffer(op)
    layout = layout_of(op.inputs[1])
    if ctx.target.has_stmatrix and is_ldmatrix_element(mem.of):
        access = stmatrix_access(layout, shared, mem.element.storage_bits, ctx.target.banks)
        if access is not None:
            ctx.op(
                ops.thread.stmatrix,
                ctx.of(op.inputs[0]),
                ctx.index(access.rows),
                ctx.of(op.inputs[1]),
                matrices=access.matrices,
                transposed=access.transposed,
            )
            return []
    return _stored(ctx, op, ctx.of(op.inputs[1]))


def _stored(ctx: Context, op: Operation, x: Value) -> Sequence[Value]:
    """Store a fragment of the second operand's layout to the buffer that is the first operand."""
    vectors = _vectors(ctx, op, op.inputs[1])
    return _store_vectors(ctx, op, x, vectors, ctx.index(vectors.first))


def _store_vectors(
    ctx: Context,
    op: Operation,
    x: Value,
    vectors: Vectors,
    offsets: Value,
    mask: Value | None = None,
) -> Sequence[Value]:
    """Store vectors of a fragment at some offsets, where the mask is true, from first holders."""
    mask = mask_first_holder(ctx, layout_of(op.inputs[1]), count_of(offsets.type), mask)
    value = ctx.pick(x, registers=vectors.order)
    mem = ctx.of(op.inputs[0])
    ctx.op(ops.thread.shared_store, mem, offsets, value, mask, vector=vectors.vector)
    return []


def _load_vectors(
    ctx: Context, op: Operation, vectors: Vectors, offsets: Value, inside: int = 0
) -> Sequence[Value]:
    """Load vectors from some offsets; `inside` XORs the order of elements in each."""
    loaded = ctx(ops.thread.shared_load, ctx.of(op.inputs[0]), offsets, vector=vectors.vector)
    return [ctx.pick(loaded, registers=tuple([at ^ inside for at in inverse(vectors.order)]))]


def local_load(ctx: Context, op: Operation) -> Sequence[Value]:
    """Load a tile: by ldmatrix if the target has it; otherwise every thread loads in vectors.

    A mask XORs the offsets: those of vectors, and the order of registers inside of them.
    """
    matrices = _matrices(ctx, op)
    if matrices is not None:
        return [matrices]
    vectors = _vectors(ctx, op, op.result)
    mask_offset = _mask_offset(_buffer(op)[1], op["mask"])
    inside = mask_offset & vectors.vector - 1
    offsets = ctx.xored(ctx.index(vectors.first), mask_offset ^ inside)
    return _load_vectors(ctx, op, vectors, offsets, inside)


def _matrices(ctx: Context, op: Operation) -> Value | None:
    """Return the tile as loaded by ldmatrix; None if it cannot be."""
    mem, shared = _buffer(op)
    if not ctx.target.has_ldmatrix or any(op["mask"]) or not is_ldmatrix_element(mem.of):
        return None
    layout, order = in_k_steps(layout_of(op.result), *_k_step(op.result))
    access = ldmatrix_access(layout, shared, mem.element.storage_bits)
    if access is None:
        return None
    loaded = ctx(
        ops.thread.ldmatrix,
        ctx.of(op.inputs[0]),
        ctx.index(access.rows),
        matrices=access.matrices,
        transposed=access.transposed,
    )
    return ctx.pick(loaded, registers=inverse(order))


def _k_step(x: Value) -> tuple[int, int]:
    """Return the k axis of an mma operand, and the k of one instruction.

    For any other tile, return the last axis and its extent.
    """
    for user, index in x.uses:
        if user.defn is ops.mma.mma_dot and index < len(K_AXES):
            return K_AXES[index], user["shape"][2]
        if user.defn is shape.trans:
            axis, step = _k_step(user.result)
            return user["order"][axis] - len(user["order"]), step
    return -1, x.type.shape[-1]


@lru_cache(maxsize=1024)
def in_k_steps(layout: LinearLayout, axis: int, step: int) -> tuple[LinearLayout, Registers]:
    """Return the layout with register bits that move `step` or more along an axis as the highest.

    So one instruction, or consecutive ones, multiply the matrices that are loaded together. Second
    are the registers of the original layout in the new order.
    """
    (_, images), *threads = layout.ins
    bases = layout.bases(REGISTER)
    bits = sorted(range(len(images)), key=lambda bit: bases[bit][axis] >= step)
    registers = (REGISTER, tuple(images[bit] for bit in bits))
    return LinearLayout((registers, *threads), layout.outs), sums(1 << bit for bit in bits)


def _mask_offset(shared: LinearLayout, mask: Sequence[int]) -> int:
    """Return the offset of the element at the coordinates `mask`; 0 for no mask."""
    coordinates = dict(zip(shared.out_dims, mask, strict=False))
    return shared.invert().apply(**coordinates).get(OFFSET, 0) if any(mask) else 0


def local_cp_async(ctx: Context, op: Operation) -> Sequence[Value]:
    """Copy asynchronously, in vectors of sizes that the target's cp.async takes.

    Of several threads that hold the same pointers, the first one copies. Vectors of other sizes are
    loaded and stored at once, which is early enough.
    """
    mem, _ = _buffer(op)
    ptr, mask = op.inputs[1], op["mask"]
    vectors = _copy_vectors(ctx, op, ptr, mask)
    sizes, banks = ctx.target.cp_async_bytes, ctx.target.banks
    while vectors.vector > 1 and mem.of.bytes_of(vectors.vector) not in sizes:
        vectors = _vectors(
            ctx, op, ptr, banks.up_to(vectors.vector // 2 * mem.element.storage_bits)
        )
    if mem.of.bytes_of(vectors.vector) not in sizes:
        zeros = Fragment(count_of(ctx.of(ptr).type), mem.of)
        other = None if mask is None else ctx.constant(0, zeros)
        return _stored(ctx, op, read(ctx, ptr, mask, other, **op.attributes))
    pointers = ctx.pick(ctx.of(ptr), registers=vectors.order)
    masks = None
    if mask is not None:
        masks = ctx.pick(ctx.of(mask), registers=vectors.order[:: vectors.vector])
    ctx.op(
        ops.thread.shared_cp_async,
        ctx.of(op.inputs[0]),
        ctx.index(vectors.first),
        pointers,
        masks,
        first_holder(ctx, layout_of(ptr)),
        **{**op.attributes, "vector": vectors.vector},
    )
    return []


def _copy_vectors(ctx: Context, op: Operation, ptr: Value, mask: Value | None) -> Vectors:
    """Return the widest vectors of contiguous, aligned pointers under one mask.

    A vector is contiguous if no other bit of the offset moves within it, as a swizzle can.
    """
    mem, shared = _buffer(op)
    vectors = _vectors(ctx, op, ptr)
    images = shared.images(OFFSET)
    low = images[: vectors.vector.bit_length() - 1]
    widest = 1
    for axis in range(len(mem.dims)):
        limit = ctx.axes.of(ptr).vector(axis, mem.of.itemsize)
        if mask is not None:
            limit = min(limit, ctx.axes.of(mask).constant[axis])
        width, unit = 1, axis_mask(shared, axis) & -axis_mask(shared, axis)
        for column in low:
            moved_by = [image for image in images if image & unit]
            if moved_by != [unit] or column != unit or 2 * width > limit:
                break
            width, unit = width * 2, unit << 1
        widest = max(widest, width)
    return _vectors(ctx, op, ptr, ctx.target.banks.up_to(widest * mem.element.storage_bits))


# -- slices of tiles


def local_load_slice(ctx: Context, op: Operation) -> Sequence[Value]:
    """Load a slice: from the offsets of slice 0, XORed with those of the slice's number."""
    mem, shared = _buffer(op)
    layout, warps = layout_of(op.result), layout_of(op.result).in_bits(WARP)
    if ctx.target.has_ldmatrix and is_ldmatrix_element(mem.of):
        ordered, order = in_k_steps(layout, *_k_step(op.result))
        whole = unsliced(ordered, op["axis"], shared.shape)
        access = ldmatrix_access(whole, shared, mem.element.storage_bits)
        if access is not None:
            loaded = ctx(
                ops.thread.ldmatrix,
                ctx.of(op.inputs[0]),
                _of_slice(ctx, op, access.rows, warps),
                matrices=access.matrices,
                transposed=access.transposed,
            )
            return [ctx.pick(loaded, registers=inverse(order))]
    layout = unsliced(layout, op["axis"], shared.shape)
    vectors = vectors_of(layout, shared, mem.element.storage_bits, ctx.target.banks)
    return _load_vectors(ctx, op, vectors, _of_slice(ctx, op, vectors.first, warps))


def _of_slice(ctx: Context, op: Operation, whole: LinearLayout, warps: int) -> Value:
    """Return the offsets of an operation's slice, from those of all slices."""
    first, numbers = _slice_layout(whole, warps)
    offsets = ctx.index(first)
    slice_offset = _positions(ctx, ctx.of(op["number"]), numbers)
    slice_offsets = ctx(ops.thread.frag_splat, slice_offset, count=count_of(offsets.type))
    return ctx(arith.xor, offsets, slice_offsets)


@lru_cache(maxsize=1024)
def _slice_layout(first: LinearLayout, warps: int) -> tuple[LinearLayout, tuple[int, ...]]:
    """Return the layout of slice 0, with `warps` warp bits, and the columns of a slice's number."""
    *others, (_, columns) = first.ins
    return LinearLayout((*others, (WARP, columns[:warps])), first.outs), columns[warps:]


def local_store_slice(ctx: Context, op: Operation) -> Sequence[Value]:
    """Store each thread's elements of a slice, under a mask."""
    mem, shared = _buffer(op)
    x = op["x"]
    whole = stacked_slices(shared, op["axis"], layout_of(x).shape)
    vectors = vectors_of(layout_of(x), whole, mem.element.storage_bits, ctx.target.banks)
    inside, number = _split_offsets(vectors.first, shared.in_bits(OFFSET))
    offsets = ctx.index(inside)
    slice_number = ctx(ops.thread.frag_splat, ctx.of(op["number"]), count=count_of(offsets.type))
    in_slice = ctx(arith.cmp, ctx.index(number), slice_number, predicate=Predicate.EQ)
    return _store_vectors(ctx, op, ctx.of(x), vectors, offsets, in_slice)


@lru_cache(maxsize=1024)
def _split_offsets(first: LinearLayout, bits: int) -> tuple[LinearLayout, LinearLayout]:
    """Split offsets into those within a slice of `bits` offset bits, and the slice numbers."""
    slices = 1 << first.out_bits(OFFSET) - bits
    split = first.reshape_outs({"number": slices, OFFSET: 1 << bits})
    return split.select_outs(OFFSET), split.select_outs("number")


# -- elements by their positions


def local_gather(ctx: Context, op: Operation) -> Sequence[Value]:
    """Load each element from its position."""
    offsets = _element_offsets(ctx, op, op.inputs[1])
    return [ctx(ops.thread.shared_load, ctx.of(op.inputs[0]), offsets)]


def _element_offsets(ctx: Context, op: Operation, index: Value) -> Value:
    """Return the offset of the other coordinates of each element XOR that of its index."""
    (_, shared), axis = _buffer(op), op["axis"]
    base = _base(layout_of(index), shared, axis)
    offsets = _positions(ctx, ctx.of(index), _columns(shared, axis))
    return ctx(arith.xor, offsets, ctx.index(base)) if any(base.columns) else offsets


@lru_cache(maxsize=1024)
def _base(layout: LinearLayout, shared: LinearLayout, axis: int) -> LinearLayout:
    """Return the offsets of a thread's elements, with position 0 along the axis."""
    axis %= len(shared.outs)
    extents = [1 if a == axis else extent for a, extent in enumerate(layout.shape)]
    others = layout.wrap_outs(dict(zip(layout.out_dims, extents, strict=True)))
    return shared.invert() @ others


@lru_cache(maxsize=1024)
def _columns(shared: LinearLayout, axis: int) -> tuple[int, ...]:
    """Return the offset of each bit of a position along the axis."""
    return shared.invert().images(shared.out_dims[axis])


def _positions(ctx: Context, index: Value, columns: tuple[int, ...]) -> Value:
    """Return the offsets of positions: each bit is shifted to the ones of its column.

    Bits that are shifted equally far are shifted together. Bits above the axis's extent are masked
    off, so that a position is always inside of the axis.
    """
    if index.type.element != I32:
        index = ctx(arith.cast, index, to=I32)
    parts = [_shifted(ctx, index, term) for term in f2.terms(columns)]
    if not parts:
        return ctx.number(0, index.type)
    return reduce(lambda x, y: ctx(arith.xor, x, y), parts)


def _shifted(ctx: Context, index: Value, term: f2.Term) -> Value:
    """Return the bits of an index that are shifted equally far, shifted."""
    bits, by = ctx(arith.and_, index, ctx.number(term.mask, index.type)), term.shift
    if by == 0:
        return bits
    return ctx(arith.shl if by > 0 else arith.shr, bits, ctx.number(abs(by), index.type))


def local_scatter(ctx: Context, op: Operation) -> Sequence[Value]:
    """Store each element at its position, in the first thread that holds it."""
    mem, x, index = (ctx.of(value) for value in op.inputs)
    offsets = _element_offsets(ctx, op, op.inputs[2])
    first = mask_first_holder(ctx, layout_of(op.inputs[2]), count_of(index.type))
    ctx.op(ops.thread.shared_store, mem, offsets, x, first)
    return []


def local_ordered_inc(ctx: Context, op: Operation) -> Sequence[Value]:
    """Count the elements of each warp in order."""
    _, shared = _buffer(op)
    mem, index = (ctx.of(value) for value in op.inputs)
    offsets = _positions(ctx, index, _columns(shared, -1))
    return [ctx(ops.thread.shared_ordered_inc, mem, offsets, bits=op["bits"])]


def local_atomic_inc(ctx: Context, op: Operation) -> Sequence[Value]:
    """Count each index in the first thread that holds it."""
    _, shared = _buffer(op)
    mem, index, mask = (ctx.of(value) for value in op.inputs)
    offsets = _positions(ctx, index, _columns(shared, -1))
    own = mask_first_holder(ctx, layout_of(op.inputs[1]), count_of(index.type), mask)
    ctx.op(ops.thread.shared_atomic_inc, mem, offsets, own)
    return []


RULES: dict[OpDef, Rule] = {
    ops.shared.local_store: local_store,
    ops.shared.local_load: local_load,
    ops.shared.local_cp_async: local_cp_async,
    ops.shared.local_load_slice: local_load_slice,
    ops.shared.local_store_slice: local_store_slice,
    ops.shared.local_gather: local_gather,
    ops.shared.local_scatter: local_scatter,
    ops.shared.local_atomic_inc: local_atomic_inc,
    ops.shared.local_ordered_inc: local_ordered_inc,
}
