"""Assign a layout to each tile, and insert layout conversions: from TILE to LAID_OUT.

`anchor_layouts` finds the layouts in which values are computed. A backward walk then finds the
layouts in which each value is needed: users come before definitions. A forward walk materializes
them. A value with an anchor layout is converted from it; a value without one is computed in each
layout, unless that is expensive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tile.analysis.axis_info import axis_info
from tile.analysis.workload import named_tiles
from tile.ir.builder import Builder
from tile.ir.core import Block, Function, Operation, Value, clone
from tile.ir.module import Module
from tile.ir.op_definition import Level, Trait
from tile.ir.passes import module_pass
from tile.ir.types import Tile, with_layout
from tile.simt.assign.anchor_layouts import AnchorLayouts, LayoutOptions, find_anchors
from tile.simt.assign.coalesce import TileAccess, coalesced_layout, memory_accesses
from tile.simt.assign.dot_layouts import DotTiling, replace_dots
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.ops.layout import convert_layout
from tile.simt.ops.layout_inference import maybe_layout, operand_layout
from tile.simt.target import GENERIC, SimtTarget
from tile.simt.tile_sizes import NO_SIZES, TileSizes
from tile.simt.tuning import TuningConstants
from tile.transforms.region_utils import conversion_loc

# The operations whose attribute `result` is their result's type.


def insert_conversions(function: Function, anchors: AnchorLayouts, tuning: TuningConstants) -> None:
    """Give each value of a function its layout, and convert it where another is needed."""
    _Insertion(function, anchors, tuning).run()


class _Insertion:
    def __init__(self, function: Function, anchors: AnchorLayouts, tuning: TuningConstants) -> None:
        self.function = function
        self.recomputed_ops = tuning.recomputed_ops
        self.layouts = anchors.of
        self.taken = anchors.taken
        self.ops = list(function.walk())
        # The layouts in which each value is needed, its own first, each with its first user.
        self.needed: dict[Value, dict[LinearLayout, Operation]] = {}
        self.made: dict[tuple[Value, LinearLayout], Value] = {}

    def run(self) -> None:
        for op in reversed(self.ops):
            self.need(op)
        efforts = self.efforts()
        for value, layout in self.layouts.items():
            value.type = with_layout(value.type, layout)
        self.arguments(self.function.body)
        for op in self.ops:
            for region in op.regions:
                self.arguments(region)
            if op in self.taken:
                self.anchored(op)
            elif op.results and op.results[0] in self.needed:
                self.recompute(op, efforts[op.results[0]])
        for op in reversed(self.ops):
            if _is_left_over(op):
                op.erase()

    def need(self, op: Operation) -> None:
        """Record the layouts in which an operation takes its operands."""
        if op in self.taken:
            for value, layout in zip(op.operands, self.taken[op], strict=True):
                self.require(op, value, layout)
            return
        for result in op.results:
            for layout in self.needed.get(result, ()):
                taken = operand_layout(op, layout)
                for value in op.operands:
                    self.require(op, value, taken)

    def require(self, op: Operation, value: Value | None, layout: LinearLayout | None) -> None:
        if value is not None and layout is not None and isinstance(value.type, Tile):
            self.needed.setdefault(value, {})[layout] = op

    def efforts(self) -> dict[Value, int]:
        """Return how many operations compute each value without an anchor; shared ones recount."""
        effort: dict[Value, int] = {}
        for op in self.ops:
            if op not in self.taken:
                own = 1 + sum(effort.get(value, 0) for value in op.inputs)
                effort.update(dict.fromkeys(op.results, min(own, self.recomputed_ops + 1)))
        return effort

    def arguments(self, block: Block) -> None:
        """Convert the arguments of a block to the other layouts in which they are needed."""
        for value in block.args:
            self.convert(value, block, block.first)

    def anchored(self, op: Operation) -> None:
        for index, layout in enumerate(self.taken[op]):
            self.set_operand(op, index, op.operands[index], layout)
        if "results" in op.attributes:
            op.attributes["results"] = tuple(value.type for value in op.results)
        assert op.block is not None
        for value in op.results:
            self.convert(value, op.block, op.next)

    def set_operand(
        self, op: Operation, index: int, value: Value | None, layout: LinearLayout | None
    ) -> None:
        """Set an operand of an operation to the value in a layout."""
        if value is not None and layout is not None and isinstance(value.type, Tile):
            op.set_operand(index, self.made.get((value, layout), value))

    def convert(self, value: Value, block: Block, following: Operation | None) -> None:
        """Convert a value that has a layout to the others in which it is needed."""
        own = maybe_layout(value)
        for layout, user in self.needed.get(value, {}).items():
            if layout != own and (value, layout) not in self.made:
                b = Builder(block, following, conversion_loc(value, [user]))
                result = with_layout(value.type, layout)
                self.made[value, layout] = b(convert_layout, value, result=result)

    def recompute(self, op: Operation, effort: int) -> None:
        """Compute a value in the layouts in which it is needed."""
        operands, (value,) = list(op.operands), op.results
        first, *others = self.needed[value]
        assert op.block is not None
        following = op.next
        copies = others if effort <= self.recomputed_ops else []
        for layout in copies:
            copy = clone(op, {})
            op.block.insert(copy, following)
            self.compute(copy, operands, layout)
            self.made[value, layout] = copy.result
        self.compute(op, operands, first)
        self.convert(value, op.block, following)

    def compute(
        self, op: Operation, operands: Sequence[Value | None], layout: LinearLayout
    ) -> None:
        taken = operand_layout(op, layout)
        for index, value in enumerate(operands):
            self.set_operand(op, index, value, taken)
        value = op.result
        value.type = with_layout(value.type, layout)
        if op.has_trait(Trait.CONSTANT):
            op.attributes["result"] = value.type


def _is_left_over(op: Operation) -> bool:
    """Return True if an operation has no users, and so no layout."""
    return any(isinstance(v.type, Tile) and v.type.layout is None for v in op.results)


@module_pass("assign-layouts", before=Level.TILE, after=Level.LAID_OUT)
def assign_layouts(
    module: Module,
    *,
    target: SimtTarget = GENERIC,
    num_warps: int = 4,
    thread_tile: int = DotTiling.thread_tile,
    warp_rows: int = DotTiling.warp_rows,
    tile_sizes: TileSizes = NO_SIZES,
) -> None:
    """Give every tile a layout, and insert conversions where an operation needs another.

    Memory accesses have coalesced layouts (`coalesce`), dots those of their instructions
    (`dot_layouts`), which become `mma_dot` where the target has mma instructions; batched dots, and
    those of f32 as sums of terms, are decomposed into such (`decompose_dots`). Loaded and expensive
    values keep their layout through arithmetic, loops and branches. Cheap values (indices,
    constants, pointers made of them) are computed in each layout in which they are used.
    `thread_tile` and `warp_rows` are sizes of dots (`dot_layouts.DotTiling`), and `tile_sizes`
    those of single dots, loads and stores (`tile.simt.tile_sizes`).

        %o = arange {start = 0, end = 64}         %o = arange ... : tile<64xi32, #a>
        %p = splat %x {shape = (64)}              %p = splat %x ... : tile<64xptr<f32>, #a>
        %q = addptr %p, %o {stride = 4}           %q = addptr ... : tile<64xptr<f32>, #a>
        %v = load %q : tile<64xf32>               %v = load %q : tile<64xf32, #a>
    """
    machine = LayoutOptions(target, num_warps)
    for function in module:
        _lay_out(function, machine, DotTiling(thread_tile, warp_rows), tile_sizes)
    for function in module:
        function.result_types = tuple(
            with_layout(ty, machine.default(ty)) if isinstance(ty, Tile) else ty
            for ty in function.result_types
        )


def _lay_out(
    function: Function, machine: LayoutOptions, tiling: DotTiling, tile_sizes: TileSizes
) -> None:
    axes = axis_info(function)
    properties = memory_accesses(function, axes, machine.target)
    own: dict[Operation, DotTiling] = {}
    if tile_sizes.sizes:
        names = named_tiles(function)
        own = _own_tilings(names, tiling, tile_sizes, machine.num_warps)
        properties = _narrowed(names, properties, tile_sizes)
    layouts = coalesced_layout(properties, machine.target, machine.num_warps)
    dots = replace_dots(function, axes, machine.target, machine.num_warps, tiling, own)
    anchors = find_anchors(function, machine, layouts, dots)
    insert_conversions(function, anchors, machine.target.tuning)


def _own_tilings(
    names: Mapping[Operation, str], usual: DotTiling, tile_sizes: TileSizes, num_warps: int
) -> dict[Operation, DotTiling]:
    """Return the tilings of dots that have sizes of their own."""
    own: dict[Operation, DotTiling] = {}
    for op, name in names.items():
        size = tile_sizes.of(name)
        if size is not None and op.has_trait(Trait.DOT):
            rows, columns = (size.rows, size.columns) if size.rows else usual.part
            warp_rows = min(num_warps, size.warp_rows) or usual.warp_rows
            own[op] = DotTiling(rows, warp_rows, columns)
    return own


def _narrowed(
    names: Mapping[Operation, str],
    accesses: Mapping[Operation, TileAccess],
    tile_sizes: TileSizes,
) -> dict[Operation, TileAccess]:
    """Limit the width of accesses that have sizes, and of those connected with them."""
    limits: dict[int, int] = {}
    for op, access in accesses.items():
        size = tile_sizes.of(names.get(op, ""))
        if size is not None:
            limits[access.connected] = min(limits.get(access.connected, size.columns), size.columns)
    return {
        op: replace(access, vector=min(access.vector, limits.get(access.connected, access.vector)))
        for op, access in accesses.items()
    }
