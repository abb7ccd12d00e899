"""Rules of layout conversions inside of warps: registers are renumbered, or lanes shuffle.

A `ShufflePlan` plan is a sequence of shuffles. In each of them every lane sends a 32-bit register
and reads one from another lane; the numbers of both registers and of that lane depend on the lane.
From shuffle to shuffle these numbers differ only by an XOR with a constant. So the dependence on
the lane is moved before and after all shuffles, which are then done at once:

    sent  = x with registers r XOR send(lane, warp)       a select for each bit that differs
    got   = registers of `sent`, by constant numbers, shuffled: one fragment for each source
    z     = registers of all `got`, by constant numbers
    y     = z with registers r XOR receive(lane, warp)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from tile.errors import CompilationError
from tile.ir.core import Operation, Value
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith
from tile.ir.types import count_of
from tile.simt import ops
from tile.simt.layouts import f2
from tile.simt.layouts.axes import Registers, axis_mask
from tile.simt.layouts.conversion import Conversion, Renaming, plan_conversion
from tile.simt.layouts.dims import LANE, REGISTER, WARP
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.layouts.warp_shuffle import ShufflePlan
from tile.simt.lower.distribute.context import Context, Rule
from tile.simt.ops.layout_inference import layout_of


@lru_cache(maxsize=1024)
def conversion_plan(src: LinearLayout, dst: LinearLayout, bits: int, shuffles: bool) -> Conversion:
    """Return the plan of a conversion between two layouts; cached, as planning is slow."""
    return plan_conversion(src, dst, bits, shuffles=shuffles)


def convert_layout(ctx: Context, op: Operation) -> Sequence[Value]:
    """Lower a conversion to renumbered registers or to shuffles."""
    old = op.inputs[0]
    bits = old.type.element.storage_bits
    plan = conversion_plan(layout_of(old), layout_of(op.result), bits, ctx.target.shuffles)
    x = ctx.of(old)
    if isinstance(plan, Renaming):
        return [ctx.pick(x, registers=plan.registers)]
    if isinstance(plan, ShufflePlan):
        return [_shuffled(ctx, x, plan)]
    raise CompilationError(
        f"`{op.name}` moves elements between warps of {ctx.target}; an earlier pass should have "
        "taken it through shared memory"
    )


# -- shuffles


@dataclass(frozen=True)
class ShuffleGroup:
    """The shuffles with one `source`: the registers that they send, and those that they fill."""

    coset: int
    source: int
    sent: Registers
    filled: Registers


@lru_cache(maxsize=1024)
def shuffle_groups(plan: ShufflePlan) -> tuple[ShuffleGroup, ...]:
    """Return the shuffles of a plan by coset and source.

    Registers that are packed into one 32-bit register are adjacent.
    """
    by_source: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for step in plan.steps:
        moved = by_source.setdefault((step.coset, step.source), [])
        for sent, filled in plan.packed:
            moved.append((step.send ^ sent, step.receive ^ filled))
    return tuple(
        ShuffleGroup(coset, source, *(tuple(numbers) for numbers in zip(*moved, strict=True)))
        for (coset, source), moved in sorted(by_source.items())
    )


def _shuffled(ctx: Context, x: Value, plan: ShufflePlan) -> Value:
    """Build all shuffles of a plan."""
    sent = permuted(ctx, x, plan.send)
    by_coset: dict[int, list[tuple[Value, Registers]]] = {}
    for group in shuffle_groups(plan):
        got = _sent(ctx, ctx.pick(sent, registers=group.sent), plan, group.source)
        by_coset.setdefault(group.coset, []).append((got, group.filled))
    filled = [_assembled(ctx, by_coset[coset]) for coset in range(len(by_coset))]
    for bit in range(plan.coset.out_bits("coset")):
        is_second = _bit(plan.coset, 1 << bit)
        pairs = zip(filled[::2], filled[1::2], strict=True)
        filled = [_either(ctx, is_second, second, first) for first, second in pairs]
    return permuted(ctx, filled[0], plan.receive)


def _sent(ctx: Context, x: Value, plan: ShufflePlan, source: int) -> Value:
    """Return the fragment that this thread reads from the plan's source lane XOR `source`."""
    if plan.is_butterfly:
        return ctx(ops.thread.shuffle_xor, x, mask=source) if source else x
    return ctx(ops.thread.shuffle_idx, x, ctx.xored(ctx.index(plan.source), source))


def _assembled(ctx: Context, parts: Sequence[tuple[Value, Registers]]) -> Value:
    """Return the registers that were filled, in order."""
    filled = [register for _, registers in parts for register in registers]
    position = {register: at for at, register in enumerate(filled)}
    order = tuple([position[register] for register in range(len(filled))])
    return ctx.pick(*[got for got, _ in parts], registers=order)


def permuted(ctx: Context, x: Value, mask: LinearLayout) -> Value:
    """Return the fragment whose register r is register r XOR `mask(lane, warp)` of `x`.

    A thread's mask is the XOR of some vectors of a basis; there is a select for each of these.
    """
    count = count_of(x.type)
    for direction in f2.basis(mask.columns):
        swapped = ctx.pick(x, registers=tuple([r ^ direction for r in range(count)]))
        x = _either(ctx, _coordinate(mask, direction), swapped, x)
    return x


@lru_cache(maxsize=1024)
def _coordinate(mask: LinearLayout, direction: int) -> LinearLayout:
    """Return the one-bit layout that is 1 if a thread's mask contains a vector of the basis."""
    basis = f2.Elimination()
    for vector in f2.basis(mask.columns):
        basis.define(vector, int(vector == direction))
    ins = [
        (name, tuple([basis.reduce(column)[1] for column in columns])) for name, columns in mask.ins
    ]
    return LinearLayout(tuple(ins), (("bit", 1),))


def _bit(layout: LinearLayout, bit: int) -> LinearLayout:
    """Return one bit of a layout's image, as a layout."""
    ins = [(name, tuple([int(bool(c & bit)) for c in columns])) for name, columns in layout.ins]
    return LinearLayout(tuple(ins), (("bit", 1),))


def _either(ctx: Context, condition: LinearLayout, x: Value, y: Value) -> Value:
    """Select `x` in threads whose image under a one-bit layout is 1, and `y` in the others."""
    return ctx(arith.select, ctx.splat(ctx.any_bit(condition), count_of(x.type)), x, y)


# -- exchange


def exchange(ctx: Context, op: Operation) -> Sequence[Value]:
    """Lower an exchange: renumber registers, and shuffle lanes by a butterfly."""
    register, lane, warp = _distance(layout_of(op.result), op["axis"], op["mask"])
    if warp or (lane and not ctx.target.shuffles):
        raise CompilationError(
            f"`{op.name}` moves elements where {ctx.target} has no shuffles; an earlier pass "
            "should have taken it through shared memory"
        )
    x = ctx.of(op.inputs[0])
    x = ctx.pick(x, registers=tuple([r ^ register for r in range(count_of(x.type))]))
    return [ctx(ops.thread.shuffle_xor, x, mask=lane) if lane else x]


@lru_cache(maxsize=1024)
def _distance(layout: LinearLayout, axis: int, mask: int) -> tuple[int, int, int]:
    """Return what an XOR of an axis's index with `mask` XORs the register, lane and warp with."""
    basis = f2.Elimination()
    bits = {name: layout.in_bits(name) for name in (REGISTER, LANE, WARP)}
    shift = 0
    for name in (REGISTER, LANE, WARP):
        for bit, column in enumerate(layout.images(name)):
            if column:
                basis.define(column, 1 << shift + bit)
        shift += bits[name]
    whole = axis_mask(layout, axis)
    source = basis.image(mask * (whole & -whole))
    assert source is not None, f"{layout} lacks elements"
    lanes = source >> bits[REGISTER]
    return (
        source & (1 << bits[REGISTER]) - 1,
        lanes & (1 << bits[LANE]) - 1,
        lanes >> bits[LANE],
    )


def own_element(ctx: Context, op: Operation) -> Sequence[Value]:
    """Return the element that this warp holds, as a number that differs from warp to warp."""
    return [ctx(ops.thread.frag_extract, ctx.of(op.inputs[0]), register=0)]


RULES: dict[OpDef, Rule] = {
    ops.layout.convert_layout: convert_layout,
    ops.layout.butterfly: exchange,
    ops.layout.warp_any: own_element,
}
