"""Find anchor layouts, in which expensive values are computed.

A load gives its result in the layout of its pointers, a dot in that of its accumulator; these are
their *anchor layouts*. Arithmetic keeps the anchor layout of its operands; of several, the one with
the least to convert. A loop-carried value has the layout in which the loop computes it. Other
values, such as indices and what is computed from them alone, have no anchor layout, and are
computed wherever they are used.

Values that have no anchor layout get the *preferred layout* of their users
(`preferred_layouts.py`).

`LayoutOptions` holds the options that layouts are chosen for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tile.ir.core import Block, Function, Operation, Value
from tile.ir.op_definition import OpDef, Trait
from tile.ir.ops import control, debug, indexing, memory, reduce, shape
from tile.ir.types import Tile
from tile.simt.assign.coalesce import default_layout
from tile.simt.assign.dot_layouts import DotLayouts
from tile.simt.assign.layout_cost import conversion_cost, op_cost
from tile.simt.assign.preferred_layouts import preferred_layouts
from tile.simt.hopper.wgmma_layouts import operand_register_layout
from tile.simt.layouts.blocked import warp_striped
from tile.simt.layouts.dims import REGISTER
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.layouts.mma_fragments import Operand
from tile.simt.ops.layout_inference import (
    is_flexible,
    joined_layout,
    operand_layout,
    reduced_layout,
    result_layout,
    split_layout,
    spread_layout,
    tile_type,
)
from tile.simt.ops.wgmma import wgmma
from tile.simt.target import SimtTarget
from tile.transforms.region_utils import CONTROL_FLOW_OPS, CarriedTile, carried_tiles


@dataclass(frozen=True)
class LayoutOptions:
    """A target, and the number of warps of a program."""

    target: SimtTarget
    num_warps: int

    @property
    def threads(self) -> int:
        return self.target.warp_size * self.num_warps

    def default(self, ty: Tile, axis: int | None = None) -> LinearLayout:
        """Return the layout of an otherwise unconstrained tile.

        If it is combined along `axis`, counted from the right, that axis comes first: a warp then
        holds as much of it as possible.
        """
        order = None
        if axis is not None:
            first = axis % ty.rank
            order = (first, *(a for a in range(ty.rank)[::-1] if a != first))
        return default_layout(ty, self.target, self.num_warps, order)


# The layout in which an operation takes each operand; None for a scalar.
Taken = list[LinearLayout | None]


@dataclass(frozen=True)
class AnchorLayouts:
    """The anchor layouts of values, and the layouts in which operations take their operands."""

    of: dict[Value, LinearLayout] = field(default_factory=dict)
    taken: dict[Operation, Taken] = field(default_factory=dict)


def find_anchors(
    function: Function,
    machine: LayoutOptions,
    accesses: Mapping[Operation, LinearLayout],
    dots: Mapping[Operation, DotLayouts],
) -> AnchorLayouts:
    """Find the anchor layouts of a function's values, given its access and dot layouts."""
    search = _Search(function, machine, accesses, dots)
    search.run()
    return search.anchors


def tiles(op: Operation) -> list[Value]:
    """Return the operands that are tiles."""
    return [value for value in op.inputs if isinstance(value.type, Tile)]


class _Search:
    def __init__(
        self,
        function: Function,
        machine: LayoutOptions,
        accesses: Mapping[Operation, LinearLayout],
        dots: Mapping[Operation, DotLayouts],
    ) -> None:
        self.function = function
        self.machine = machine
        self.dots = dots
        self.tuning = machine.target.tuning
        self.anchors = AnchorLayouts()
        self.layouts = self.anchors.of
        self.ops = list(function.walk())
        self.groups = {
            op: list(carried_tiles(op)) for op in self.ops if op.defn in CONTROL_FLOW_OPS
        }
        self.depths: dict[Block, int] = {function.body: 0}
        for op in self.ops:
            self.note_depth(op)
        # A small tile has at most one element per thread; its layout is chosen later.
        self.small = {op: layout for op, layout in accesses.items() if self.is_small(op)}
        needs = {op: self.each(op, x) for op, x in accesses.items() if op not in self.small}
        needs |= {op: [*dot.operands, dot.result] for op, dot in dots.items()}
        self.preferred = preferred_layouts(function, needs)
        for value in function.args:
            self.settle(value, self.own_layout(value))
        for op, layouts in needs.items():
            self.anchor(op, layouts)
        # In the last sweep, operations on values without an anchor layout choose one.
        self.last = False

    def note_depth(self, op: Operation) -> None:
        assert op.block is not None
        for region in op.regions:
            self.depths[region] = self.depths.get(op.block, 0) + (op.has_trait(Trait.LOOP))

    def anchor(self, op: Operation, layouts: Taken) -> None:
        """Anchor an operation with given operand layouts; its result has the last of them."""
        if all(x is not None for x, v in zip(layouts, op.operands, strict=True) if _is_tile(v)):
            self.anchors.taken[op] = layouts
        for value in op.results:
            self.settle(value, next(x for x in reversed(layouts) if x is not None))

    def each(self, op: Operation, layout: LinearLayout | None) -> Taken:
        """Return one layout for all tile operands of an operation."""
        return [layout if _is_tile(v) else None for v in op.operands]

    def settle(self, value: Value, layout: LinearLayout | None) -> None:
        if layout is not None and isinstance(value.type, Tile):
            self.layouts[value] = layout

    def default(self, value: Value, axis: int | None = None) -> LinearLayout | None:
        """Return the layout that the users prefer, or the default one."""
        if not isinstance(value.type, Tile):
            return None
        return self.preferred.get(value) or self.machine.default(value.type, axis)

    # -- the search

    def run(self) -> None:
        self.sweep()
        if self.small:
            self.anchor_small()
        if any(group.result not in self.layouts for group in self.carried()):
            self.update_preferred()
            if self.decide_by_broadcasts():
                self.sweep()
            self.decide()
            self.sweep()
        self.last = True
        self.sweep()
        self.hand_over()

    def sweep(self) -> None:
        """Walk the function until no more anchor layouts are found."""
        before = -1
        while len(self.layouts) != before:
            before = len(self.layouts)
            for op in self.ops:
                if op not in self.anchors.taken:
                    self.visit(op)
            for groups in reversed(list(self.groups.values())):
                for group in groups:
                    if group.result not in self.layouts:
                        self.carry(group)

    def visit(self, op: Operation) -> None:
        if op.defn is control.return_:
            self.anchors.taken[op] = self.own(op)
        elif op.defn in CONTROL_FLOW_OPS or op.defn.terminator or op.defn is shape.broadcast:
            return
        elif is_flexible(op):
            self.flexible(op)
        else:
            _RULES.get(op.defn, _Search.alike)(self, op)

    def decide(self) -> None:
        """Give loop-carried values without an anchor layout the preferred one."""
        for group in self.carried():
            if group.result not in self.layouts:
                layout = self.default(group.result)
                for value in group.values:
                    self.settle(value, layout)

    def decide_by_broadcasts(self) -> bool:
        """Give carried tiles the layout of reduced vectors that a loop spreads over them.

        Such as the best of rows of a dot, which are inserted into lists. Return True if there are
        any.
        """
        before = len(self.layouts)
        for group in self.carried():
            if group.result in self.layouts or group.result in self.preferred:
                continue
            layouts = filter(None, map(self.spread, group.arguments))
            layout = next(layouts, None)
            for value in group.values:
                self.settle(value, layout)
        return len(self.layouts) > before

    def spread(self, tile: Value) -> LinearLayout | None:
        """Return the layout of a reduced vector that is combined with a tile, spread over it."""
        for user in tile.users:
            for value in user.inputs if is_flexible(user) else ():
                op = _first_broadcast(value)
                if op is not None and op.inputs[0] in self.layouts and _is_reduced(op.inputs[0]):
                    layout = self.layouts[op.inputs[0]]
                    return spread_layout(layout, tile_type(op.result).shape)
        return None

    def carried(self) -> Iterator[CarriedTile]:
        """Return the values that all loops and branches carry."""
        return (group for groups in self.groups.values() for group in groups)

    def update_preferred(self) -> None:
        """Update the preferred layouts from the operations that have layouts now."""
        self.preferred = preferred_layouts(self.function, self.anchors.taken)

    def is_small(self, op: Operation) -> bool:
        """Return True if any layout will do, as the tile has at most one element per thread."""
        few = tile_type(op.inputs[0]).numel <= self.machine.threads
        return few and (op.defn is memory.load or not any(v.uses for v in op.results))

    def anchor_small(self) -> None:
        """Load small tiles in the layouts of their users, and store them from their own."""
        self.update_preferred()
        for op, layout in self.small.items():
            if op.defn is memory.load and op not in self.anchors.taken:
                preferred = self.preferred.get(op.result, layout)
                few = preferred.in_size(REGISTER) <= self.tuning.replicated_registers
                self.anchor(op, self.each(op, preferred if few else layout))
        self.sweep()
        for op, layout in self.small.items():
            if op not in self.anchors.taken:
                self.anchor(op, self.each(op, self.layouts.get(op["value"], layout)))
        self.sweep()

    def carry(self, group: CarriedTile) -> None:
        sources = [v for v in (*group.yields, *group.inits) if v in self.layouts]
        if not sources:
            return
        layout = self.cheapest([self.layouts[v] for v in sources], sources, group.result)
        for value in group.values:
            self.settle(value, layout)

    def flexible(self, op: Operation) -> None:
        """Give the operation the layout of an operand, or the preferred one of its result."""
        anchored = [value for value in tiles(op) if value in self.layouts]
        if not anchored:
            return
        candidates = [result_layout(op, self.layouts[value]) for value in anchored]
        if op.result in self.preferred:
            candidates.append(self.preferred[op.result])
        layout = self.cheapest(candidates, anchored, op.result, op)
        self.anchors.taken[op] = self.each(op, operand_layout(op, layout))
        self.settle(op.result, layout)

    def cheapest(
        self,
        candidates: Sequence[LinearLayout],
        operands: Sequence[Value],
        result: Value,
        op: Operation | None = None,
    ) -> LinearLayout:
        """Return the candidate layout of a result with the least to convert; the first if equal."""
        distinct = list(dict.fromkeys(candidates))
        if len(distinct) == 1:
            return distinct[0]
        return min(distinct, key=lambda layout: self.cost(layout, operands, result, op))

    def cost(
        self,
        layout: LinearLayout,
        operands: Sequence[Value],
        result: Value,
        op: Operation | None,
    ) -> float:
        taken = layout if op is None else operand_layout(op, layout)
        assert isinstance(result.type, Tile)
        total: float = 0.0 if op is None else op_cost(op, layout, self.tuning)
        depth = self.depths[result.block]
        for value in operands:
            assert isinstance(value.type, Tile)
            # A conversion outside of a loop is executed once for many iterations.
            outside = max(0, depth - self.depths[value.block])
            cost = conversion_cost(value.type, self.layouts[value], taken, self.tuning)
            total += cost / self.tuning.loop_weight**outside
        if result in self.preferred:
            total += conversion_cost(result.type, layout, self.preferred[result], self.tuning)
        return total

    # -- operations that are not flexible

    def wgmma(self, op: Operation) -> None:
        """Take operands as they are or transposed, and the accumulator in the result's layout."""
        if self.last or all(v in self.layouts for v in op.inputs[:2]):
            operands = [
                self.wgmma_operand(op, operand) for operand in (Operand.LEFT, Operand.RIGHT)
            ]
            self.anchors.taken[op] = [*operands, self.layouts[op.result]]

    def wgmma_operand(self, op: Operation, operand: Operand) -> LinearLayout:
        index = int(operand is Operand.RIGHT)
        own, value = self.dots[op].operands[index], op.inputs[index]
        if own is not None:
            return own
        layout = self.layouts.get(value) or self.default(value)
        assert layout is not None
        threads = self.machine.target.warp_size, self.machine.num_warps
        return operand_register_layout(op, operand, tile_type(value), layout, threads)

    def alike(self, op: Operation) -> None:
        """Take all tiles in one layout, which determines the layout of the results."""
        operands = tiles(op)
        anchored = [value for value in operands if value in self.layouts]
        if not operands or not (anchored or self.last):
            return
        if anchored:
            layout = self.cheapest([self.layouts[v] for v in anchored], anchored, anchored[0])
        else:
            chosen = self.default(operands[0], op.attributes.get("axis"))
            assert chosen is not None
            layout = chosen
        self.anchors.taken[op] = self.each(op, layout)
        for value in op.results:
            if isinstance(value.type, Tile):
                self.settle(value, result_layout(op, layout))

    def free(self, op: Operation) -> None:
        """Choose the layout of the result independently of the operands'."""
        self.alike(op)
        if op in self.anchors.taken:
            for value in op.results:
                self.settle(value, self.default(value))

    def sort(self, op: Operation) -> None:
        (self.alike if op["count"] is None else self.free)(op)

    def rank(self, op: Operation) -> None:
        """Take a line, and give its ranks, as warps count it."""
        striped = self.striped(op)
        if striped is None:
            self.free(op)
        else:
            self.anchor(op, [striped])

    def scatter(self, op: Operation) -> None:
        """Take both tiles in one layout; the result has any, such as that of another rank."""
        self.alike(op)
        if op in self.anchors.taken:
            self.settle(op.result, self.preferred.get(op.result) or self.striped(op))
            self.settle(op.result, self.layouts.get(op.result) or self.default(op.result))

    def striped(self, op: Operation) -> LinearLayout | None:
        """Return the layout of a line in which warps count it, if there is one."""
        extents, machine = tile_type(op.result).shape, self.machine
        if len(extents) > 1:
            return None
        return warp_striped(extents[0], machine.target.warp_size, machine.num_warps)

    def gather(self, op: Operation) -> None:
        """Give the result the layout of the index; the tile may have any."""
        x, at = op.inputs
        if not (at in self.layouts or self.last):
            return
        where = self.layouts.get(at) or self.default(op.result)
        self.anchors.taken[op] = [self.layouts.get(x) or self.default(x), where]
        self.settle(op.result, where)

    def join(self, op: Operation) -> None:
        """Give the result pairs in two registers; for scalars, any layout."""
        if not tiles(op):
            self.settle(op.result, self.default(op.result))
            self.anchors.taken[op] = self.each(op, None)
            return
        preferred = self.preferred.get(op.result)
        if self.last and preferred is not None and not any(v in self.layouts for v in op.inputs):
            layout = split_layout(preferred) or reduced_layout(preferred, -1)
            self.anchors.taken[op] = self.each(op, layout)
            self.settle(op.result, joined_layout(layout))
        else:
            self.alike(op)

    def split(self, op: Operation) -> None:
        """Give the operand a layout in which each thread holds both of a pair in two registers."""
        (x,) = op.inputs
        if not (x in self.layouts or self.last):
            return
        own = self.layouts.get(x)
        half = split_layout(own) if own is not None else None
        if half is None:
            whole = own or self.machine.default(tile_type(x))
            half = self.default(op.results[0]) or reduced_layout(whole, -1)
            own = joined_layout(half)
        self.anchors.taken[op] = [own]
        for value in op.results:
            self.settle(value, half)

    def call(self, op: Operation) -> None:
        """Pass arguments and results of functions in default layouts."""
        self.anchors.taken[op] = self.own(op)
        for value in op.results:
            self.settle(value, self.own_layout(value))

    def observe(self, op: Operation) -> None:
        """Take each operand in the layout it has."""
        if self.last:
            self.anchors.taken[op] = [
                None if v is None else self.layouts.get(v) or self.default(v) for v in op.operands
            ]

    def own(self, op: Operation) -> Taken:
        return [None if v is None else self.own_layout(v) for v in op.operands]

    def own_layout(self, value: Value) -> LinearLayout | None:
        return self.machine.default(value.type) if isinstance(value.type, Tile) else None

    def hand_over(self) -> None:
        """Give loop inits and yields the layouts of the carried values."""
        for op in self.groups:
            results = [self.layouts.get(value) for value in op.results]
            fixed = [None] * len(op.defn.operands)
            self.anchors.taken[op] = [*fixed, *(results if op.has_trait(Trait.LOOP) else ())]
            for region in op.regions:
                if region.last is not None and region.last.defn is control.yield_:
                    self.anchors.taken[region.last] = results


def _first_broadcast(value: Value, depth: int = 3) -> Operation | None:
    """Return a broadcast that a value is computed from elementwise."""
    op = value.op
    if op is None or not depth or op.defn is shape.broadcast:
        return op if depth else None
    inputs = op.inputs if is_flexible(op) else ()
    return next(filter(None, (_first_broadcast(each, depth - 1) for each in inputs)), None)


def _is_reduced(value: Value, depth: int = 6) -> bool:
    """Return True if a value is computed elementwise from a reduction."""
    op = value.op
    if op is None or not depth or op.defn in _REDUCTIONS:
        return op is not None and depth > 0
    return is_flexible(op) and any(_is_reduced(each, depth - 1) for each in op.inputs)


_REDUCTIONS = frozenset({reduce.reduce, reduce.arg_reduce, reduce.reduce_region})


def _is_tile(value: Value | None) -> bool:
    return value is not None and isinstance(value.type, Tile)


_RULES: dict[OpDef, Callable[[_Search, Operation], None]] = {
    wgmma: _Search.wgmma,
    indexing.gather: _Search.gather,
    indexing.histogram: _Search.free,
    indexing.rank: _Search.rank,
    indexing.scatter: _Search.scatter,
    indexing.sort: _Search.sort,
    shape.join: _Search.join,
    shape.split: _Search.split,
    control.call: _Search.call,
    debug.device_print: _Search.observe,
}
