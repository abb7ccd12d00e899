"""Find anchor layouts: the layouts in which expensive values are computed.

A load gives its result in the layout of its pointers, a dot in that of its accumulator; these are
their *anchor layouts*. Arithmetic keeps the anchor layout of its operands; of several, the one with
the least to convert. A loop-carried value has the layout in which the loop computes it. Other
values, such as indices and what is computed from them alone, have no anchor layout, and are
computed wherever they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tile.analysis.liveness import LOOPS
from tile.ir.core import Block, Function, Operation, Value
from tile.ir.opdef import OpDef
from tile.ir.ops import control, debug, index, memory, shape
from tile.ir.types import Tile
from tile.simt.assign_layouts.machine import Machine
from tile.simt.assign_layouts.wishes import wishes
from tile.simt.carried import CARRYING, Carried, carried
from tile.simt.costs import conversion, work
from tile.simt.dot_layouts import Product
from tile.simt.group_layouts import taken_factor
from tile.simt.layout_rules import joined, parted, reduced
from tile.simt.layouts.dims import REGISTER
from tile.simt.layouts.fragments import Operand
from tile.simt.layouts.layout import LinearLayout
from tile.simt.operand_layouts import forward, is_flexible, operand_layout
from tile.simt.ops.group import group_dot

# The registers per thread for a small tile, at most: several threads load the same elements.
_FEW = 8

# The layout in which an operation takes each operand; None for a scalar.
Taken = list[LinearLayout | None]


@dataclass(frozen=True)
class Homes:
    """The anchor layouts of values, and the layouts in which operations take their operands."""

    of: dict[Value, LinearLayout] = field(default_factory=dict)
    taken: dict[Operation, Taken] = field(default_factory=dict)


def homes(
    function: Function,
    machine: Machine,
    accesses: Mapping[Operation, LinearLayout],
    products: Mapping[Operation, Product],
) -> Homes:
    """Find the anchor layouts of a function's values, given its access and dot layouts."""
    search = _Search(function, machine, accesses, products)
    search.run()
    return search.found


def tiles(op: Operation) -> list[Value]:
    """Return the operands that are tiles."""
    return [value for value in op.inputs if isinstance(value.type, Tile)]


class _Search:
    def __init__(
        self,
        function: Function,
        machine: Machine,
        accesses: Mapping[Operation, LinearLayout],
        products: Mapping[Operation, Product],
    ) -> None:
        self.function = function
        self.machine = machine
        self.found = Homes()
        self.home = self.found.of
        self.ops = list(function.walk())
        self.groups = {op: list(carried(op)) for op in self.ops if op.defn in CARRYING}
        self.depths: dict[Block, int] = {function.body: 0}
        for op in self.ops:
            self.note_depth(op)
        # A small tile has at most one element per thread; its layout is chosen later.
        self.small = {op: layout for op, layout in accesses.items() if self.is_small(op)}
        needs = {op: self.each(op, x) for op, x in accesses.items() if op not in self.small}
        needs |= {op: [*product.factors, product.result] for op, product in products.items()}
        self.wished = wishes(function, needs)
        for value in function.args:
            self.settle(value, self.own_layout(value))
        for op, layouts in needs.items():
            self.anchor(op, layouts)
        # In the last sweep, operations on values without an anchor layout choose one.
        self.last = False

    def note_depth(self, op: Operation) -> None:
        assert op.block is not None
        for region in op.regions:
            self.depths[region] = self.depths.get(op.block, 0) + (op.defn in LOOPS)

    def anchor(self, op: Operation, layouts: Taken) -> None:
        """Anchor an operation with given operand layouts; its result has the last of them."""
        if all(x is not None for x, v in zip(layouts, op.operands, strict=True) if _is_tile(v)):
            self.found.taken[op] = layouts
        for value in op.results:
            self.settle(value, next(x for x in reversed(layouts) if x is not None))

    def each(self, op: Operation, layout: LinearLayout | None) -> Taken:
        """Return one layout for all tile operands of an operation."""
        return [layout if _is_tile(v) else None for v in op.operands]

    def settle(self, value: Value, layout: LinearLayout | None) -> None:
        if layout is not None and isinstance(value.type, Tile):
            self.home[value] = layout

    def default(self, value: Value, axis: int | None = None) -> LinearLayout | None:
        """Return the layout that the users prefer, or the default one."""
        if not isinstance(value.type, Tile):
            return None
        return self.wished.get(value) or self.machine.default(value.type, axis)

    # -- the search

    def run(self) -> None:
        self.sweep()
        if self.small:
            self.place_small()
        if any(group.result not in self.home for group in self.carried()):
            self.wish()
            self.decide()
            self.sweep()
        self.last = True
        self.sweep()
        self.hand_over()

    def sweep(self) -> None:
        """Walk the function until no more anchor layouts are found."""
        before = -1
        while len(self.home) != before:
            before = len(self.home)
            for op in self.ops:
                if op not in self.found.taken:
                    self.visit(op)
            for groups in reversed(list(self.groups.values())):
                for group in groups:
                    if group.result not in self.home:
                        self.carry(group)

    def visit(self, op: Operation) -> None:
        if op.defn is control.return_:
            self.found.taken[op] = self.own(op)
        elif op.defn in CARRYING or op.defn.terminator or op.defn is shape.broadcast:
            return
        elif is_flexible(op):
            self.flexible(op)
        else:
            _RULES.get(op.defn, _Search.alike)(self, op)

    def decide(self) -> None:
        """Give loop-carried values without an anchor layout the preferred one."""
        for group in self.carried():
            if group.result not in self.home:
                layout = self.default(group.result)
                for value in group.values:
                    self.settle(value, layout)

    def carried(self) -> Iterator[Carried]:
        """Return the values that all loops and branches carry."""
        return (group for groups in self.groups.values() for group in groups)

    def wish(self) -> None:
        """Update the preferred layouts from the operations that have layouts now."""
        self.wished = wishes(self.function, self.found.taken)

    def is_small(self, op: Operation) -> bool:
        """Return True if any layout will do, as the tile has at most one element per thread."""
        few = _tile(op.inputs[0]).numel <= self.machine.threads
        return few and (op.defn is memory.load or not any(v.uses for v in op.results))

    def place_small(self) -> None:
        """Load small tiles in the layouts of their users, and store them from their own."""
        self.wish()
        for op, layout in self.small.items():
            if op.defn is memory.load and op not in self.found.taken:
                wish = self.wished.get(op.result, layout)
                few = wish.in_size(REGISTER) <= _FEW
                self.anchor(op, self.each(op, wish if few else layout))
        self.sweep()
        for op, layout in self.small.items():
            if op not in self.found.taken:
                self.anchor(op, self.each(op, self.home.get(op["value"], layout)))
        self.sweep()

    def carry(self, group: Carried) -> None:
        sources = [v for v in (*group.yields, *group.inits) if v in self.home]
        if not sources:
            return
        layout = self.cheapest([self.home[v] for v in sources], sources, group.result)
        for value in group.values:
            self.settle(value, layout)

    def flexible(self, op: Operation) -> None:
        """Give the operation the layout of an operand, or the preferred one of its result."""
        placed = [value for value in tiles(op) if value in self.home]
        if not placed:
            return
        candidates = [forward(op, self.home[value]) for value in placed]
        if op.result in self.wished:
            candidates.append(self.wished[op.result])
        layout = self.cheapest(candidates, placed, op.result, op)
        self.found.taken[op] = self.each(op, operand_layout(op, layout))
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
        total: float = 0.0 if op is None else work(op, layout)
        depth = self.depths[result.block]
        for value in operands:
            assert isinstance(value.type, Tile)
            # A conversion outside of a loop is executed once for many iterations.
            outside = max(0, depth - self.depths[value.block])
            total += conversion(value.type, self.home[value], taken) / 4**outside
        if result in self.wished:
            total += conversion(result.type, layout, self.wished[result])
        return total

    # -- operations that are not flexible

    def product(self, op: Operation) -> None:
        """Take operands as they are or transposed, and the accumulator in the result's layout."""
        if self.last or all(v in self.home for v in op.inputs[:2]):
            factors = [self.factor(op, operand) for operand in (Operand.LEFT, Operand.RIGHT)]
            self.found.taken[op] = [*factors, self.home[op.result]]

    def factor(self, op: Operation, operand: Operand) -> LinearLayout:
        value = op.inputs[operand is Operand.RIGHT]
        home = self.home.get(value) or self.default(value)
        assert home is not None
        threads = self.machine.target.warp_size, self.machine.num_warps
        return taken_factor(op, operand, _tile(value), home, threads)

    def alike(self, op: Operation) -> None:
        """Take all tiles in one layout, from which that of the results follows."""
        operands = tiles(op)
        placed = [value for value in operands if value in self.home]
        if not operands or not (placed or self.last):
            return
        if placed:
            layout = self.cheapest([self.home[v] for v in placed], placed, placed[0])
        else:
            chosen = self.default(operands[0], op.attributes.get("axis"))
            assert chosen is not None
            layout = chosen
        self.found.taken[op] = self.each(op, layout)
        for value in op.results:
            if isinstance(value.type, Tile):
                self.settle(value, forward(op, layout))

    def free(self, op: Operation) -> None:
        """Choose the layout of the result independently of the operands'."""
        self.alike(op)
        if op in self.found.taken:
            for value in op.results:
                self.settle(value, self.default(value))

    def sort(self, op: Operation) -> None:
        (self.alike if op["count"] is None else self.free)(op)

    def gather(self, op: Operation) -> None:
        """Give the result the layout of the index; the tile may have any."""
        x, at = op.inputs
        if not (at in self.home or self.last):
            return
        where = self.home.get(at) or self.default(op.result)
        self.found.taken[op] = [self.home.get(x) or self.default(x), where]
        self.settle(op.result, where)

    def join(self, op: Operation) -> None:
        """Give the result pairs in two registers; for scalars, any layout."""
        if not tiles(op):
            self.settle(op.result, self.default(op.result))
            self.found.taken[op] = self.each(op, None)
            return
        wish = self.wished.get(op.result)
        if self.last and wish is not None and not any(v in self.home for v in op.inputs):
            layout = parted(wish) or reduced(wish, -1)
            self.found.taken[op] = self.each(op, layout)
            self.settle(op.result, joined(layout))
        else:
            self.alike(op)

    def split(self, op: Operation) -> None:
        """Give the operand a layout in which each thread holds both of a pair in two registers."""
        (x,) = op.inputs
        if not (x in self.home or self.last):
            return
        own = self.home.get(x)
        half = parted(own) if own is not None else None
        if half is None:
            whole = own or self.machine.default(_tile(x))
            half = self.default(op.results[0]) or reduced(whole, -1)
            own = joined(half)
        self.found.taken[op] = [own]
        for value in op.results:
            self.settle(value, half)

    def call(self, op: Operation) -> None:
        """Pass arguments and results of functions in default layouts."""
        self.found.taken[op] = self.own(op)
        for value in op.results:
            self.settle(value, self.own_layout(value))

    def observe(self, op: Operation) -> None:
        """Take each operand in the layout it has."""
        if self.last:
            self.found.taken[op] = [
                None if v is None else self.home.get(v) or self.default(v) for v in op.operands
            ]

    def own(self, op: Operation) -> Taken:
        return [None if v is None else self.own_layout(v) for v in op.operands]

    def own_layout(self, value: Value) -> LinearLayout | None:
        return self.machine.default(value.type) if isinstance(value.type, Tile) else None

    def hand_over(self) -> None:
        """Give loop inits and yields the layouts of the carried values."""
        for op in self.groups:
            results = [self.home.get(value) for value in op.results]
            fixed = [None] * len(op.defn.operands)
            self.found.taken[op] = [*fixed, *(results if op.defn in LOOPS else ())]
            for region in op.regions:
                if region.last is not None and region.last.defn is control.yield_:
                    self.found.taken[region.last] = results


def _is_tile(value: Value | None) -> bool:
    return value is not None and isinstance(value.type, Tile)


def _tile(value: Value) -> Tile:
    assert isinstance(value.type, Tile)
    return value.type


_RULES: dict[OpDef, Callable[[_Search, Operation], None]] = {
    group_dot: _Search.product,
    index.gather: _Search.gather,
    index.histogram: _Search.free,
    index.sort: _Search.sort,
    shape.join: _Search.join,
    shape.split: _Search.split,
    control.call: _Search.call,
    debug.device_print: _Search.observe,
}
