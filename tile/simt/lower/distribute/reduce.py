"""Rules of reductions and scans inside of warps.

*Reductions* are a tree over registers, then butterflies among lanes.

    8 registers -> 4 -> 2 -> 1, then each lane with that at distance 1, 2, 4 and so on

Multiplications are added to four sums instead, the leaves of the tree: one instruction for each.

If the target has an instruction that reduces all lanes of a warp, that replaces the butterflies;
integers narrower than the ones that it takes are extended. The bits of an axis are those that move
along it and along no other axis. Bits that lead to copies move along none: copies are counted once.

*Scans* do each thread's contiguous run first, then the lanes' totals. The combination is
associative but may not be commutative, so earlier elements are its first operand. For each bit of a
position along the axis, from the lowest on, blocks of that size are paired: elements that have the
bit are combined with the total of the block before, which is the last element of that block.

    bit 0    a b c d e f g h   ->   a ab c cd e ef g gh
    bit 1                      ->   a ab abc abcd e ef efg efgh
    bit 2                      ->   a ab abc abcd abcde ...

Each bit takes half as many combinations as there are registers. Lanes do the same with the totals
of their runs, by shuffles; a lane's run is then combined with the total before it. A reverse scan
exchanges the ones and zeros of the bits.

*Regions* are inlined on fragments: many groups of scalars at once. They are pure, so both arms of
an `if` are computed and one is selected. Called functions are inlined, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tile.errors import CompilationError
from tile.ir.core import Block, Operation, Value
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith, control, reduce
from tile.ir.types import F32, I32, U32, Scalar, count_of, number_of, with_element
from tile.simt import ops
from tile.simt.layouts.axes import Registers, along_axis, axis_mask, inverse, sums
from tile.simt.layouts.dims import LANE, REGISTER, WARP
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.lower.decompose.reduce import COMBINE_OPS
from tile.simt.lower.distribute.context import Context, Rule
from tile.simt.ops.layout_inference import layout_of

Values = list[Value]

# Multiplications are added in 2^n chains of fused multiply-adds, which do not wait for each other.
_CHAIN_BITS = 2


def inline_region(
    ctx: Context, region: Block, first: Sequence[Value], second: Sequence[Value]
) -> Values:
    """Return a region's combination of two groups of fragments, all of equal register counts."""
    return _Inlining(ctx, first[0]).block(region, [*first, *second])


class _Inlining:
    def __init__(self, ctx: Context, like: Value) -> None:
        self.ctx = ctx
        self.like = like.type  # a fragment with as many registers as all values have
        self.values: dict[Value, Value] = {}

    def block(self, block: Block, args: Sequence[Value] = ()) -> Values:
        """Inline the operations of a block, and return the operands of its terminator."""
        self.values.update(zip(block.args, args, strict=True))
        for op in block:
            if op.defn.terminator:
                return self.operands(op)
            results = _RULES.get(op.defn, _Inlining.plain)(self, op)
            self.values.update(zip(op.results, results, strict=True))
        raise AssertionError("a block without a terminator")

    def operands(self, op: Operation) -> Values:
        return [self.values[value] for value in op.inputs]

    def plain(self, op: Operation) -> Values:
        """Inline an elementwise operation or a constant."""
        types = [with_element(self.like, value.type.element) for value in op.results]
        return self.ctx.copy(op, self.operands(op), types).results

    def both(self, op: Operation) -> Values:
        """Inline an `if`: compute both arms, and select."""
        condition = self.values[op.inputs[0]]
        arms = [self.block(region) for region in op.regions]
        return [self.ctx(arith.select, condition, x, y) for x, y in zip(*arms, strict=True)]

    def call(self, op: Operation) -> Values:
        return self.block(self.ctx.module[op["callee"]].body, self.operands(op))


_RULES: dict[OpDef, Callable[[_Inlining, Operation], Values]] = {
    arith.hint: _Inlining.operands,
    control.if_: _Inlining.both,
    control.call: _Inlining.call,
}


def reduce_region(ctx: Context, op: Operation) -> Sequence[Value]:
    """Combine the elements along an axis, in each thread that holds some of them."""
    layout, axis, region = layout_of(op.inputs[0]), op["axis"], op.regions[0]
    check_in_warp(ctx, op, layout)
    parts = [ctx.of(value) for value in op.inputs]
    bits = [bit for bit, _ in along_axis(layout, REGISTER, axis)]
    parts = _reduce_registers(ctx, region, parts, bits)
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
    return [ctx(ops.thread.frag_extract, part, register=0) for part in parts]


def _reduce_registers(ctx: Context, region: Block, parts: Values, bits: Sequence[int]) -> Values:
    """Combine the registers whose numbers differ in some bits."""
    op, cast = _only_op(region), parts[0].op
    narrow = op is not None and cast is not None and _packs(ctx, op, cast)
    if narrow:
        assert cast is not None
        parts = [*cast.inputs]
    bits = sorted(bits, reverse=True)
    if _fuses(region, parts):
        parts = _chain(ctx, region, parts, bits[:-_CHAIN_BITS])
        bits = bits[-_CHAIN_BITS:]
    for bit in bits:
        first, second = (_half(ctx, parts, bit, upper) for upper in (0, 1))
        if narrow:
            assert op is not None
            parts = [ctx(op.defn, *first, *second, **op.attributes)]
        else:
            parts = inline_region(ctx, region, first, second)
    return [ctx(arith.cast, part, to=F32) for part in parts] if narrow else parts


def _fuses(region: Block, parts: Values) -> bool:
    """Return True if a region adds floats, some of which were multiplied.

    One instruction multiplies and adds to a sum, but two are needed to add two multiplications.
    """
    adds = [op for op in region if not op.defn.terminator]
    return all(
        op.defn is arith.add and number_of(op.result.type).is_floating() for op in adds
    ) and any(part.op is not None and part.op.defn is arith.mul for part in parts)


def _chain(ctx: Context, region: Block, parts: Values, bits: Sequence[int]) -> Values:
    """Combine the registers whose numbers differ in some bits, one after the other."""
    count = count_of(parts[0].type).bit_length() - 1
    others = sums(1 << bit for bit in range(count) if bit not in bits)
    first, *rest = [
        [ctx.pick(part, registers=tuple([other | place for other in others])) for part in parts]
        for place in sums(1 << bit for bit in bits)
    ]
    for part in rest:
        first = inline_region(ctx, region, first, part)
    return first


def _packs(ctx: Context, op: Operation, cast: Operation) -> bool:
    """Return True if extremes of widened floats are better computed two at a time, before that.

    The greatest of widened numbers is the greatest number, widened.
    """
    if op.defn not in (arith.max_, arith.min_) or cast.defn is not arith.cast:
        return False
    element = cast.inputs[0].type.element
    return cast.result.type.element == F32 and element in ctx.target.packed_extremes


def _only_op(region: Block) -> Operation | None:
    """Return the operation that combines both arguments of a region, if the region has no other."""
    op, end = region.first, region.last
    if op is None or end is None or op.next is not end:
        return None
    same = [*op.inputs] == [*region.args] and [*end.inputs] == [*op.results]
    return op if same else None


def _warp_reduction(ctx: Context, region: Block) -> dict[str, Any] | None:
    """Return the attributes of the target's warp reduction; None if it has none for a region."""
    op = _only_op(region)
    if op is None or op.defn not in _KINDS:
        return None
    kind, element = _KINDS[op.defn], op.result.type.element
    if not isinstance(element, Scalar) or not ctx.target.has_warp_reduce(kind, _widened(element)):
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
    element = number_of(part.type)
    wide = _widened(element)
    if wide is element:
        return ctx(ops.thread.warp_reduce, part, **warp_reduction)
    reduced = ctx(ops.thread.warp_reduce, ctx(arith.cast, part, to=wide), **warp_reduction)
    return ctx(arith.cast, reduced, to=element)


_KINDS = {defn: kind for kind, defn in COMBINE_OPS.items()}


def _half(ctx: Context, parts: Sequence[Value], bit: int, upper: int) -> list[Value]:
    """Return the registers whose number has a bit equal to `upper`."""
    bits = count_of(parts[0].type).bit_length() - 1
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


def scan_region(ctx: Context, op: Operation) -> Sequence[Value]:
    """Combine each element with all earlier ones along the axis."""
    layout = layout_of(op.inputs[0])
    check_in_warp(ctx, op, layout)
    scan = _Scan(ctx, op, layout)
    parts = scan.runs([ctx.of(value) for value in op.inputs])
    return scan.lanes(parts) if scan.lane_bits else parts


class _Scan:
    """One scan; `register_bits`, then `lane_bits`, are the bits of the axis, the lowest first."""

    def __init__(self, ctx: Context, op: Operation, layout: LinearLayout) -> None:
        self.ctx = ctx
        self.region = op.regions[0]
        self.reverse = bool(op["reverse"])
        registers = along_axis(layout, REGISTER, op["axis"])
        lanes = along_axis(layout, LANE, op["axis"])
        if not _is_in_order(layout, op["axis"], [image for _, image in registers + lanes]):
            raise CompilationError(
                f"`{op.name}` along axis {op['axis']} takes a layout in which registers, then "
                f"lanes count along the axis, not {layout}; an earlier pass should have converted"
            )
        self.register_bits = [bit for bit, _ in registers]
        self.lane_bits = [bit for bit, _ in lanes]
        self.lane_mask = sum(1 << bit for bit in self.lane_bits)
        self.lane_count = layout.in_bits(LANE)
        self.warp_count = layout.in_bits(WARP)

    def runs(self, parts: Values) -> Values:
        """Return the scan of each thread's run."""
        bits = count_of(parts[0].type).bit_length() - 1
        below: list[int] = []
        for bit in self.register_bits:
            others = sums(1 << other for other in range(bits) if other != bit)
            lower, upper = (tuple([r | has << bit for r in others]) for has in (0, 1))
            if self.reverse:
                lower, upper = upper, lower
            last = tuple([self._last(r, below) for r in lower])
            before, own = self._picked(parts, last), self._picked(parts, upper)
            new = inline_region(self.ctx, self.region, before, own)
            lower_parts = [self.ctx.pick(part, registers=lower) for part in parts]
            order = inverse([*lower, *upper])
            pairs = zip(lower_parts, new, strict=True)
            parts = [self.ctx.pick(x, y, registers=order) for x, y in pairs]
            below.append(bit)
        return parts

    def _last(self, register: int, bits: Sequence[int]) -> int:
        """Return the last register, in the scan's order, of those that differ in some bits."""
        whole = sum(1 << bit for bit in bits)
        return register & ~whole if self.reverse else register | whole

    def _picked(self, parts: Sequence[Value], registers: Registers) -> Values:
        return [self.ctx.pick(part, registers=registers) for part in parts]

    def lanes(self, parts: Values) -> Values:
        """Combine each lane's run with the total of all earlier lanes."""
        bits = count_of(parts[0].type).bit_length() - 1
        others = [1 << bit for bit in range(bits) if bit not in self.register_bits]
        ends = tuple([self._last(r, self.register_bits) for r in sums(others)])
        totals = self._totals(self._picked(parts, ends))
        if not self.register_bits:
            return totals
        lane = self._previous()
        before = [self.ctx(ops.thread.shuffle_idx, total, lane) for total in totals]
        position = {
            1 << bit: 1 << at for at, bit in enumerate(_other_bits(bits, self.register_bits))
        }
        repeated = sums(position.get(1 << bit, 0) for bit in range(bits))
        new = inline_region(self.ctx, self.region, self._picked(before, repeated), parts)
        return self._where(self._is_first(), parts, new)

    def _totals(self, totals: Values) -> Values:
        """Return the scan of the totals, one for each lane."""
        for level, bit in enumerate(self.lane_bits):
            lane = self._last_lane(self.lane_bits[:level], bit)
            before = [self.ctx(ops.thread.shuffle_idx, total, lane) for total in totals]
            new = inline_region(self.ctx, self.region, before, totals)
            has = self.ctx.any_bit(self._lane_map({bit: 1}, "bit", 1))
            if self.reverse:
                totals = self._where(has, totals, new)
            else:
                totals = self._where(has, new, totals)
        return totals

    def _where(self, condition: Value, xs: Values, ys: Values) -> Values:
        """Select by a condition of the thread."""
        splat = self.ctx.splat(condition, count_of(xs[0].type))
        return [self.ctx(arith.select, splat, x, y) for x, y in zip(xs, ys, strict=True)]

    # -- the lane to read from

    def _lane_map(self, columns: dict[int, int], out: str, bits: int) -> LinearLayout:
        """Return a layout of (lane, warp) that depends on some bits of the lane only."""
        lanes = tuple([columns.get(bit, 0) for bit in range(self.lane_count)])
        return LinearLayout(((LANE, lanes), (WARP, (0,) * self.warp_count)), ((out, bits),))

    def _lane_without(self, dropped: Sequence[int]) -> Value:
        """Return this lane's number with zeros for some of its bits."""
        columns = {bit: 1 << bit for bit in _other_bits(self.lane_count, dropped)}
        return self.ctx.index(self._lane_map(columns, LANE, self.lane_count))

    def _last_lane(self, below: Sequence[int], bit: int) -> Value:
        """Return the last lane of the block before: `bit` is 0, and the bits below are ones."""
        lane = self._lane_without([*below, bit])
        ones = 1 << bit if self.reverse else sum(1 << low for low in below)
        return self.ctx.xored(lane, ones)

    def _previous(self) -> Value:
        """Return the lane before this one along the axis; any lane for the first one.

        To subtract 1 within a mask, bits outside of it are 0, so that they pass the borrow on. To
        add 1, they are ones, so that they pass the carry on.
        """
        ctx = self.ctx
        outside = self._lane_without(self.lane_bits)
        if self.reverse:
            every = (1 << self.lane_count) - 1
            counted = ctx.once(
                arith.add, ctx.xored(self._inside(), every ^ self.lane_mask), ctx.number(1)
            )
        else:
            counted = ctx.once(arith.sub, self._inside(), ctx.number(1))
        inside = ctx.once(arith.and_, counted, ctx.number(self.lane_mask))
        return ctx.once(arith.or_, outside, inside)

    def _inside(self) -> Value:
        """Return the lane's bits along the axis."""
        return self._lane_without(_other_bits(self.lane_count, self.lane_bits))

    def _is_first(self) -> Value:
        """Return, as an i1, whether this lane is the first one along the axis."""
        end = self.ctx.number(self.lane_mask if self.reverse else 0)
        return self.ctx.once(arith.cmp, self._inside(), end, predicate=arith.Predicate.EQ)


def _other_bits(count: int, bits: Sequence[int]) -> list[int]:
    """Return the bits below `count` that are not in `bits`."""
    return [bit for bit in range(count) if bit not in bits]


def _is_in_order(layout: LinearLayout, axis: int, images: Sequence[int]) -> bool:
    """Return True if `images` are all the bits of a position along an axis, in order."""
    mask = axis_mask(layout, axis)
    nonzero = sum(bool(column & mask) for column in layout.columns)
    return nonzero == len(images) and list(images) == [1 << bit for bit in range(nonzero)]


RULES: dict[OpDef, Rule] = {
    reduce.reduce_region: reduce_region,
    reduce.scan_region: scan_region,
}
