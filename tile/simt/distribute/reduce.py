"""Rules of reductions inside of warps: a tree over registers, then butterflies among lanes.

    8 registers -> 4 -> 2 -> 1, then each lane with that at distance 1, 2, 4 and so on

If the target has an instruction that reduces all lanes of a warp, that replaces the butterflies;
integers narrower than the ones that it takes are extended.

The bits of an axis are those that move along it and along no other axis. Bits that lead to copies
move along none: copies are counted once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tile.errors import CompilationError
from tile.ir.core import Block, Operation, Value
from tile.ir.opdef import OpDef
from tile.ir.ops import arith, combine
from tile.ir.types import I32, U32, Scalar
from tile.simt import ops
from tile.simt.decompose.regions import KINDS
from tile.simt.distribute.context import Context, Rule, count_of
from tile.simt.distribute.inline import inline_region
from tile.simt.distribute.registers import along_axis, sums
from tile.simt.layout_rules import layout_of
from tile.simt.layouts.dims import LANE, REGISTER, WARP
from tile.simt.layouts.layout import LinearLayout


def reduce_by(ctx: Context, op: Operation) -> Sequence[Value]:
    """Combine the elements along an axis, in each thread that holds some of them."""
    layout, axis, region = layout_of(op.inputs[0]), op["axis"], op.regions[0]
    check_in_warp(ctx, op, layout)
    parts = [ctx.of(value) for value in op.inputs]
    for bit in sorted([bit for bit, _ in along_axis(layout, REGISTER, axis)], reverse=True):
        parts = inline_region(ctx, region, *[_half(ctx, parts, bit, upper) for upper in (0, 1)])
    lanes = along_axis(layout, LANE, axis)
    warp_reduction = (
        _warp_reduction(ctx, region) if 1 << len(lanes) == ctx.target.warp_size else None
    )
    if warp_reduction is not None:
        parts = [_reduce_warp(ctx, parts[0], **warp_reduction)]
        lanes = []
    for bit, _ in lanes:
        others = [ctx(ops.thread.shuffle_xor, part, mask=1 << bit) for part in parts]
        parts = inline_region(ctx, region, parts, others)
    if op.results[0].type.shape:
        return parts
    return [ctx(ops.thread.element, part, register=0) for part in parts]


def _warp_reduction(ctx: Context, region: Block) -> dict[str, Any] | None:
    """Return the attributes of the target's warp reduction; None if it has none for a region."""
    op, end = region.first, region.last
    if op is None or end is None or op.next is not end or op.defn not in _KINDS:
        return None
    if [*op.inputs] != [*region.args] or [*end.inputs] != [*op.results]:
        return None
    kind, element = _KINDS[op.defn], op.result.type.element
    if not isinstance(element, Scalar) or not ctx.target.reduces_lanes(kind, _widened(element)):
        return None
    return {"kind": kind, "propagate_nan": op.attributes.get("propagate_nan", False)}


def _widened(element: Scalar) -> Scalar:
    """Return the 32-bit integer of the same sign for a narrower one; else the element itself.

    The result, truncated, is that of the narrow type: sums wrap at either width, and the order of
    numbers is the same.
    """
    if not element.is_int() or element.bits >= 32:
        return element
    return I32 if element.is_int_signed() else U32


def _reduce_warp(ctx: Context, part: Value, **warp_reduction: Any) -> Value:
    """Combine all lanes by the target's warp reduction."""
    element = part.type.element
    assert isinstance(element, Scalar)
    wide = _widened(element)
    if wide is element:
        return ctx(ops.thread.lane_reduce, part, **warp_reduction)
    reduced = ctx(ops.thread.lane_reduce, ctx(arith.cast, part, to=wide), **warp_reduction)
    return ctx(arith.cast, reduced, to=element)


_KINDS = {defn: kind for kind, defn in KINDS.items()}


def _half(ctx: Context, parts: Sequence[Value], bit: int, upper: int) -> list[Value]:
    """Return the registers whose number has a bit equal to `upper`."""
    bits = count_of(parts[0]).bit_length() - 1
    lower = sums(1 << other for other in range(bits) if other != bit)
    registers = tuple([register | upper << bit for register in lower])
    return [ctx.pick(part, registers=registers) for part in parts]


def check_in_warp(ctx: Context, op: Operation, layout: LinearLayout) -> None:
    """Refuse an axis that lies across warps, or across lanes if the target has no shuffles."""
    inputs = (WARP,) if ctx.target.shuffles else (LANE, WARP)
    for name in inputs:
        if along_axis(layout, name, op["axis"]):
            raise CompilationError(
                f"`{op.name}` along axis {op['axis']} of {layout} combines elements of different "
                f"{name}s, which {ctx.target} does not shuffle; an earlier pass should have "
                "brought them together"
            )


RULES: dict[OpDef, Rule] = {combine.reduce_by: reduce_by}
