"""Tiles that change their layout inside of warps: registers get other names, or lanes shuffle.

A `Shuffle` plan is one of rounds, in each of which every lane sends a word: a register whose number
depends on the lane, from a lane that does, to a register that does. Here all rounds are done at
once. What depends on the lane is the same in every round but for an XOR with a constant, so it is
brought in front of and behind them all:

    sent  = x with registers r XOR send(lane, warp)       as many selects as bits that differ
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
from tile.ir.opdef import OpDef
from tile.ir.ops import arith
from tile.simt import ops
from tile.simt.distribute.context import Context, Rule, bits_of_element, count_of
from tile.simt.distribute.registers import Registers, axis_mask
from tile.simt.layout_rules import layout_of
from tile.simt.layouts import f2
from tile.simt.layouts.conversion import Conversion, Renaming, plan_conversion
from tile.simt.layouts.dims import LANE, REGISTER, WARP
from tile.simt.layouts.layout import LinearLayout
from tile.simt.layouts.shuffle import Shuffle


@lru_cache(maxsize=1024)
def plan(src: LinearLayout, dst: LinearLayout, bits: int, shuffles: bool) -> Conversion:
    """How to convert between two layouts; kept, since it takes a while to find."""
    return plan_conversion(src, dst, bits, shuffles=shuffles)


def convert_layout(ctx: Context, op: Operation) -> Sequence[Value]:
    """Registers by other names, or shuffles."""
    old = op.inputs[0]
    bits = bits_of_element(old.type)
    found = plan(layout_of(old), layout_of(op.result), bits, ctx.target.shuffles)
    x = ctx.of(old)
    if isinstance(found, Renaming):
        return [ctx.pick(x, registers=found.registers)]
    if isinstance(found, Shuffle):
        return [_shuffled(ctx, x, found)]
    raise CompilationError(
        f"`{op.name}` moves elements between warps of {ctx.target}; an earlier pass should have "
        "taken it through shared memory"
    )


# -- shuffles


@dataclass(frozen=True)
class Group:
    """Rounds that have one source: which registers they send, and which they fill."""

    turn: int
    source: int
    sent: Registers
    filled: Registers


@lru_cache(maxsize=1024)
def groups(found: Shuffle) -> tuple[Group, ...]:
    """The rounds of a plan by turn and source; registers of one word stand side by side."""
    rounds: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for step in found.rounds:
        moved = rounds.setdefault((step.turn, step.source), [])
        for sent, filled in found.packed:
            moved.append((step.send ^ sent, step.receive ^ filled))
    return tuple(
        Group(turn, source, *(tuple(numbers) for numbers in zip(*moved, strict=True)))
        for (turn, source), moved in sorted(rounds.items())
    )


def _shuffled(ctx: Context, x: Value, found: Shuffle) -> Value:
    """All rounds of a plan."""
    sent = permuted(ctx, x, found.send)
    turns: dict[int, list[tuple[Value, Registers]]] = {}
    for group in groups(found):
        got = _sent(ctx, ctx.pick(sent, registers=group.sent), found, group.source)
        turns.setdefault(group.turn, []).append((got, group.filled))
    filled = [_assembled(ctx, turns[turn]) for turn in range(len(turns))]
    for bit in range(found.turn.out_bits("turn")):
        late = _bit(found.turn, 1 << bit)
        pairs = zip(filled[::2], filled[1::2], strict=True)
        filled = [_either(ctx, late, second, first) for first, second in pairs]
    return permuted(ctx, filled[0], found.receive)


def _sent(ctx: Context, x: Value, found: Shuffle, source: int) -> Value:
    """What the lane that the plan reads from, XORed with `source`, gives."""
    if found.is_butterfly:
        return ctx(ops.thread.shuffle_xor, x, mask=source) if source else x
    return ctx(ops.thread.shuffle, x, ctx.xored(ctx.index(found.source), source))


def _assembled(ctx: Context, parts: Sequence[tuple[Value, Registers]]) -> Value:
    """The registers that were filled, in order."""
    filled = [register for _, registers in parts for register in registers]
    place = {register: at for at, register in enumerate(filled)}
    order = tuple([place[register] for register in range(len(filled))])
    return ctx.pick(*[got for got, _ in parts], registers=order)


def permuted(ctx: Context, x: Value, mask: LinearLayout) -> Value:
    """The fragment whose register r is r XOR `mask` of `x`, a layout of (lane, warp).

    A thread's mask is a sum of a few, each of which it has in it or not: so a select for each.
    """
    count = count_of(x)
    for direction in f2.basis(mask.columns):
        swapped = ctx.pick(x, registers=tuple([r ^ direction for r in range(count)]))
        x = _either(ctx, _coordinate(mask, direction), swapped, x)
    return x


@lru_cache(maxsize=1024)
def _coordinate(mask: LinearLayout, direction: int) -> LinearLayout:
    """Whether a thread's mask, as a sum of the basis, has this vector of it in it."""
    known = f2.Elimination()
    for vector in f2.basis(mask.columns):
        known.define(vector, int(vector == direction))
    ins = [
        (name, tuple([known.reduce(column)[1] for column in columns])) for name, columns in mask.ins
    ]
    return LinearLayout(tuple(ins), (("bit", 1),))


def _bit(layout: LinearLayout, bit: int) -> LinearLayout:
    """One bit of where a layout leads."""
    ins = [(name, tuple([int(bool(c & bit)) for c in columns])) for name, columns in layout.ins]
    return LinearLayout(tuple(ins), (("bit", 1),))


def _either(ctx: Context, condition: LinearLayout, x: Value, y: Value) -> Value:
    """`x` in threads from which a layout of one bit leads to 1, `y` in the others."""
    return ctx(arith.select, ctx.filled(ctx.any_bit(condition), count_of(x)), x, y)


# -- exchange


def exchange(ctx: Context, op: Operation) -> Sequence[Value]:
    """Registers by other names, lanes by a butterfly."""
    register, lane, warp = _distance(layout_of(op.result), op["axis"], op["mask"])
    if warp or (lane and not ctx.target.shuffles):
        raise CompilationError(
            f"`{op.name}` moves elements where {ctx.target} has no shuffles; an earlier pass "
            "should have taken it through shared memory"
        )
    x = ctx.of(op.inputs[0])
    x = ctx.pick(x, registers=tuple([r ^ register for r in range(count_of(x))]))
    return [ctx(ops.thread.shuffle_xor, x, mask=lane) if lane else x]


@lru_cache(maxsize=1024)
def _distance(layout: LinearLayout, axis: int, mask: int) -> tuple[int, int, int]:
    """What to XOR the register, lane and warp with to move along an axis by an XOR with `mask`."""
    known = f2.Elimination()
    bits = {name: layout.in_bits(name) for name in (REGISTER, LANE, WARP)}
    shift = 0
    for name in (REGISTER, LANE, WARP):
        for bit, column in enumerate(layout.images(name)):
            if column:
                known.define(column, 1 << shift + bit)
        shift += bits[name]
    whole = axis_mask(layout, axis)
    found = known.image(mask * (whole & -whole))
    assert found is not None, f"{layout} lacks elements"
    lanes = found >> bits[REGISTER]
    return (
        found & (1 << bits[REGISTER]) - 1,
        lanes & (1 << bits[LANE]) - 1,
        lanes >> bits[LANE],
    )


RULES: dict[OpDef, Rule] = {
    ops.layout.convert_layout: convert_layout,
    ops.layout.exchange: exchange,
}
