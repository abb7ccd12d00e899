"""Make shared memory explicit: buffers, stores to them, and loads from them.

A conversion that takes too much shared memory is split into two of half the size, one after the
other. A bit of the coordinates that registers hold both before and after moves nothing between
threads. It becomes an axis of its own, and the two half tiles that it distinguishes are converted
separately; everything else is relabeling.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache

from tile.analysis.alias import module_aliases
from tile.ir.core import Block, Operation
from tile.ir.module import Module
from tile.ir.op_definition import Level, OpDef
from tile.ir.ops import control, memory, program, reduce, shape
from tile.ir.passes import module_pass
from tile.ir.types import Pointer, Scalar, Tile, with_layout, with_shape
from tile.simt import ops
from tile.simt.hopper.block_stores import BlockStores
from tile.simt.hopper.tma_store import lower_tma_stores
from tile.simt.hopper.wgmma_layouts import stage_wgmma_operands
from tile.simt.layouts import f2
from tile.simt.layouts.axes import permute_axes, reshape_axes
from tile.simt.layouts.conversion import (
    Conversion,
    SharedConversion,
    plan_conversion,
    through_shared,
)
from tile.simt.layouts.dims import LANE, OFFSET, REGISTER, WARP, log2_of
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.layouts.shared_access import Banks
from tile.simt.layouts.warp_shuffle import WORD_BITS, ShufflePlan
from tile.simt.ops.layout import convert_layout
from tile.simt.ops.layout_inference import LayoutBuilder, layout_of, split_layout
from tile.simt.target import GENERIC, SimtTarget
from tile.simt.tma_uses import NO_USES, TmaUses
from tile.transforms.dce import remove_dead


@dataclass(frozen=True)
class TileSplit:
    """A split of a tile: reshaped to `extents`, whose axes in `order` end with the split one.

    `half` is the layout of each half tile after the conversion.
    """

    extents: tuple[int, ...]
    order: tuple[int, ...]
    half: LinearLayout


@lru_cache(maxsize=1024)
def find_split(src: LinearLayout, dst: LinearLayout) -> TileSplit | None:
    """Return a split whose half tiles stay in their threads; None if there is none."""
    common = {*src.images(REGISTER)} & {*dst.images(REGISTER)}
    for column in sorted(common, reverse=True):
        if column & (column - 1) == 0:
            extents, axis = _cut_at(src.shape, column.bit_length() - 1)
            order = (*(a for a in range(len(extents)) if a != axis), axis)
            layouts = [split_layout(_seen(layout, extents, order)) for layout in (src, dst)]
            if layouts[0] is not None and layouts[1] is not None:
                return TileSplit(extents, order, layouts[1])
    return None


def _cut_at(shape: tuple[int, ...], bit: int) -> tuple[tuple[int, ...], int]:
    """Return a shape with one bit of the linearized coordinates as an axis; and that axis."""
    axis = len(shape) - 1
    while bit >= shape[axis].bit_length() - 1:
        bit -= shape[axis].bit_length() - 1
        axis -= 1
    low = 1 << bit
    return (*shape[:axis], shape[axis] // (2 * low), 2, low, *shape[axis + 1 :]), axis + 1


def _seen(layout: LinearLayout, extents: tuple[int, ...], order: tuple[int, ...]) -> LinearLayout:
    return permute_axes(reshape_axes(layout, extents), order)


def split_conversion(op: Operation, cut: TileSplit) -> list[Operation]:
    """Replace a conversion by those of its half tiles."""
    (value,) = op.inputs
    build = LayoutBuilder.before(op)
    seen = build(shape.trans, build(shape.reshape, value, shape=cut.extents), order=cut.order)
    parts = build.op(shape.split, seen).results
    converted = [
        build.op(convert_layout, part, result=with_layout(part.type, cut.half)) for part in parts
    ]
    pairs = build(shape.join, *(half.result for half in converted))
    back = tuple(cut.order.index(axis) for axis in range(len(cut.order)))
    whole = build(shape.reshape, build(shape.trans, pairs, order=back), shape=value.type.shape)
    op.replace_by([build.convert(whole, layout_of(op.result))])
    return converted


@module_pass("expose-shared", before=Level.LAID_OUT)
def expose_shared(
    module: Module,
    *,
    target: SimtTarget = GENERIC,
    num_warps: int = 4,
    tma: TmaUses = NO_USES,
) -> None:
    """Replace operations that go through shared memory by buffers, stores and loads.

    These are a `convert_layout` between warps, or between lanes where the target has no shuffles or
    shuffles would take longer; such a `butterfly`; an atomic operation whose result is used by more
    threads than the one that executes it; and the time, which all threads take from one of them.
    wgmma operands become buffers, too (`wgmma_layouts`), and stores through descriptors become TMA
    stores where the target has them (`tma_store`; `tma` allows more of them). A program has
    `num_warps` warps. A tile that would take more than half of the shared memory is converted in
    slices where possible.

        %b = convert_layout %a : ...              %m = local_alloc : shared<16x16xf32, #s>
                                                  local_store %m, %a
                                                  %b = local_load %m : tile<16x16xf32, #b>
    """
    one = _one(target, num_warps)
    aliases = cache(lambda: module_aliases(module))
    for function in module:
        stage_wgmma_operands(function)
        if target.has_tma:
            stores = BlockStores(lambda op: is_whole(op, target), tma)
            lower_tma_stores(function, aliases, stores)
            remove_dead(function)
        for op in list(function.walk()):
            expose = _EXPOSE.get(op.defn)
            if expose is not None:
                expose(op, target, one)


# -- conversions


@lru_cache(maxsize=4096)
def plan_tile_conversion(
    src: LinearLayout, dst: LinearLayout, bits: int, target: SimtTarget
) -> Conversion:
    """Plan the conversion of a tile: within registers, by shuffles, or through shared memory.

    Shared memory is preferred to shuffles where it takes fewer instructions; see
    `shuffle_cost`.
    """
    shuffles, banks = target.shuffles, target.banks
    loads, stores = target.has_ldmatrix, target.has_stmatrix
    plan = plan_conversion(
        src, dst, bits, shuffles=shuffles, has_ldmatrix=loads, has_stmatrix=stores, banks=banks
    )
    if not isinstance(plan, ShufflePlan):
        return plan
    cost = shuffle_cost(plan, bits, target)
    if tile_bytes(src, bits) > conversion_limit(target) or cost <= 2 * target.tuning.barrier_cost:
        return plan
    instead = through_shared(src, dst, bits, banks, has_ldmatrix=loads, has_stmatrix=stores)
    return instead if shared_cost(instead, bits, target) < cost else plan


def conversion_limit(target: SimtTarget) -> int:
    """Return the shared memory that one conversion may take, in bytes, if it can be sliced."""
    return target.shared_bytes // target.tuning.conversion_share


def shared_conversion(op: Operation, target: SimtTarget) -> SharedConversion | None:
    """Return how a `convert_layout` goes through shared memory; None if it does not."""
    (value,) = op.inputs
    bits = value.type.element.storage_bits
    plan = plan_tile_conversion(layout_of(value), layout_of(op.result), bits, target)
    return plan if isinstance(plan, SharedConversion) else None


def conversion_bytes(op: Operation, target: SimtTarget) -> int:
    """Return the shared memory that a `convert_layout` takes at a time, in bytes."""
    if shared_conversion(op, target) is None:
        return 0
    src, dst = layout_of(op.inputs[0]), layout_of(op.result)
    most, size = conversion_limit(target), tile_bytes(src, op.result.type.element.storage_bits)
    return size if size <= most or find_split(src, dst) is None else most


def is_whole(op: Operation, target: SimtTarget) -> bool:
    """Return True if a `convert_layout` takes its whole tile through shared memory at once."""
    bits = op.result.type.element.storage_bits
    return conversion_bytes(op, target) == tile_bytes(layout_of(op.result), bits)


def tile_bytes(layout: LinearLayout, bits: int) -> int:
    """Return the bytes of a tile with elements of `bits` bits."""
    return (bits << sum(width for _, width in layout.outs)) // 8


def shuffle_cost(plan: ShufflePlan, bits: int, target: SimtTarget) -> int:
    """Return the instructions of a warp for shuffles, one per 32 bits, and register selections.

    A lane that sends one of 2**k registers, depending on its lane number, takes k selections for
    it; so does a lane that receives into one of 2**k.
    """
    words = max(1, bits // WORD_BITS)
    chosen = f2.rank(plan.send.columns) + f2.rank(plan.receive.columns)
    selections = len(plan.steps) * len(plan.packed) * words * chosen
    return plan.shuffles * words + selections // target.tuning.selections_per_shuffle


def shared_cost(plan: SharedConversion, bits: int, target: SimtTarget) -> int:
    """Return the cost of the wavefronts of a warp to store and load, and of two barriers."""
    cost = 2 * target.tuning.barrier_cost
    for access in (plan.store, plan.load):
        together = target.banks.lanes_together(bits * access.vector)
        cost += len(access.registers) * max(1, access.offsets.in_size(LANE) // together)
    return cost


def _convert(op: Operation, target: SimtTarget, one: LinearLayout) -> None:
    plan = shared_conversion(op, target)
    if plan is None:
        return
    src, dst = layout_of(op.inputs[0]), layout_of(op.result)
    size = tile_bytes(src, op.result.type.element.storage_bits)
    cut = find_split(src, dst) if size > conversion_limit(target) else None
    if cut is None:
        _through(op, plan.layout, target)
        return
    for half in split_conversion(op, cut):
        _convert(half, target, one)


def _exchange(op: Operation, target: SimtTarget, one: LinearLayout) -> None:
    """Lower an exchange, unless the XOR with its mask stays within registers and shuffled lanes."""
    mask = _mask_between_threads(op, target)
    if mask is not None:
        (value,) = op.inputs
        bits = value.type.element.storage_bits
        _through(op, _same(layout_of(value), bits, target.banks), target, mask)


def exchange_bytes(op: Operation, target: SimtTarget) -> int:
    """Return the shared memory that a `butterfly` takes, in bytes."""
    if _mask_between_threads(op, target) is None:
        return 0
    (value,) = op.inputs
    return tile_bytes(layout_of(value), value.type.element.storage_bits)


def _mask_between_threads(op: Operation, target: SimtTarget) -> tuple[int, ...] | None:
    """Return the mask of a `butterfly` per axis; None if registers or shuffles suffice."""
    (value,) = op.inputs
    layout = layout_of(value)
    rank = len(layout.outs)
    axis = op["axis"] % rank
    mask = tuple(op["mask"] if a == axis else 0 for a in range(rank))
    names = (REGISTER, LANE) if target.shuffles else (REGISTER,)
    return None if mask_within(layout, mask, names) else mask


def mask_within(layout: LinearLayout, mask: tuple[int, ...], names: tuple[str, ...]) -> bool:
    """Return True if coordinates that differ (XOR) by `mask` differ in the inputs `names` alone."""
    span = f2.Elimination()
    for name in names:
        for column in layout.images(name):
            span.define(column)
    moved = 0
    for number, (_, bits) in zip(mask, layout.outs, strict=True):
        moved = moved << bits | number
    return span.image(moved) is not None


def _through(
    op: Operation, shared: LinearLayout, target: SimtTarget, mask: tuple[int, ...] = ()
) -> None:
    """Store the operand, and load it as the result.

    A small tile is stored before the loads in front of the operation: they share a barrier.
    """
    (value,) = op.inputs
    first = op
    if tile_bytes(shared, value.type.element.storage_bits) <= target.spare_shared_bytes:
        first = _first_load(op)
    mem = LayoutBuilder.before(first).store(value, shared)
    result = op.result.type
    op.replace_by([LayoutBuilder.before(op)(ops.shared.local_load, mem, mask=mask, result=result)])


def _first_load(op: Operation) -> Operation:
    """Return the first of the loads in a row before an operation that none of its operands is."""
    first = op
    while (load := first.prev) is not None and load.defn is ops.shared.local_load:
        if load.result in op.inputs:
            break
        first = load
    return first


@lru_cache(maxsize=1024)
def _same(layout: LinearLayout, bits: int, banks: Banks) -> LinearLayout:
    """Return a shared layout suited to store and load one register layout."""
    return through_shared(layout, layout, bits, banks).layout


# -- results of atomic operations


def _one(target: SimtTarget, num_warps: int) -> LinearLayout:
    """Return the layout of a tile of one element, which every thread holds."""
    lanes, warps = log2_of(target.warp_size, "warp_size"), log2_of(num_warps, "num_warps")
    ins = ((REGISTER, ()), (LANE, (0,) * lanes), (WARP, (0,) * warps))
    return LinearLayout(ins, (("dim0", 0),))


def _atomic(op: Operation, target: SimtTarget, one: LinearLayout) -> None:
    """Broadcast the result from the thread that executes the operation to those that use it."""
    result, users = op.result, list(op.result.uses)
    element, is_tile = result.type.element, isinstance(result.type, Tile)
    layout = layout_of(result) if is_tile else one
    if not users or (is_tile and all(layout.images(LANE)) and all(layout.images(WARP))):
        return
    assert op.block is not None
    build = LayoutBuilder.after(op)
    if is_tile:
        mem = build.store(result, _same(layout, element.storage_bits, target.banks))
        received = build(ops.shared.local_load, mem, result=result.type)
    else:
        single = with_layout(with_shape((1,), element), one)
        mem = build.store(
            build(shape.splat, result, shape=(1,), layout=one),
            LinearLayout(((OFFSET, ()),), one.outs),
        )
        loaded = build(ops.shared.local_load, mem, result=single)
        region = _first(build, element)
        received = build(reduce.reduce_region, loaded, axis=-1, regions=[region])
    for user, index in users:
        user.set_operand(index, received)


def _first(build: LayoutBuilder, element: Scalar | Pointer) -> Block:
    """Return a combine region for an axis of extent 1, along which no elements are combined."""
    region = Block([element, element], ["a", "b"])
    with build.into(region):
        build.op(control.yield_, region.args[0])
    return region


_EXPOSE: dict[OpDef, Callable[[Operation, SimtTarget, LinearLayout], None]] = {
    ops.layout.convert_layout: _convert,
    ops.layout.butterfly: _exchange,
    memory.atomic_rmw: _atomic,
    memory.atomic_cas: _atomic,
    program.global_timer: _atomic,
}
