"""Find the *preferred layout* of each value, in which its users take it without a conversion.

A backward walk starts from loads, stores and dots. Of several users, those in inner loops count,
and then the first.

    %o = arange {start = 0, end = 64}         // preferred: that of the load
    %q = addptr %p, %o {stride = 4}           // the same
    %v = load %q : tile<64xf32>
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tile.ir.core import Block, Function, Operation, Value
from tile.ir.op_definition import Trait
from tile.ir.ops import shape
from tile.ir.types import Tile
from tile.simt.layouts.dims import REGISTER
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.ops.layout_inference import is_flexible, joined_layout, operand_layout
from tile.transforms.region_utils import CONTROL_FLOW_OPS, carried_tiles

# The layout in which an operation takes each operand; None for a scalar.
Needs = Mapping[Operation, Sequence[LinearLayout | None]]


def preferred_layouts(function: Function, needs: Needs) -> dict[Value, LinearLayout]:
    """Return the preferred layout of each value that has one, given what some operations need."""
    sweep = _Preferences(needs)
    sweep.block(function.body, 0)
    return {value: layout for value, (layout, _) in sweep.preferred.items()}


class _Preferences:
    def __init__(self, needs: Needs) -> None:
        self.needs = needs
        self.preferred: dict[Value, tuple[LinearLayout, int]] = {}

    def prefer(self, value: Value | None, layout: LinearLayout | None, depth: int) -> None:
        if value is None or layout is None or not isinstance(value.type, Tile):
            return
        if value not in self.preferred or depth >= self.preferred[value][1]:
            self.preferred[value] = layout, depth

    def block(self, block: Block, depth: int) -> None:
        for op in reversed(list(block)):
            self.op(op, depth)

    def op(self, op: Operation, depth: int) -> None:
        if op in self.needs:
            for value, layout in zip(op.operands, self.needs[op], strict=True):
                self.prefer(value, layout, depth)
        elif op.defn in CONTROL_FLOW_OPS:
            self.carrying(op, depth)
        elif op.defn is shape.split:
            self.split(op, depth)
        elif is_flexible(op) and op.result in self.preferred:
            layout = operand_layout(op, self.preferred[op.result][0])
            for value in op.operands:
                self.prefer(value, layout, depth)

    def split(self, op: Operation, depth: int) -> None:
        """Prefer pairs in two registers, so that a chain of splits converts its tile once.

        Where threads would hold copies of more than four registers, each split converts instead:
        all of a tree that ends in one number would be computed by each thread.
        """
        for value in op.results:
            if value in self.preferred:
                pairs = joined_layout(self.preferred[value][0])
                if pairs.is_injective() or pairs.in_bits(REGISTER) <= 2:
                    self.prefer(op.inputs[0], pairs, depth)

    def carrying(self, op: Operation, depth: int) -> None:
        groups = list(carried_tiles(op))
        for group in groups:
            self.all_of(group.yields, group.result, depth)
        for region in op.regions:
            self.block(region, depth + (op.has_trait(Trait.LOOP)))
        for group in groups:
            for argument in group.arguments:
                self.all_of((group.result,), argument, depth + 1)
            self.all_of(group.inits, group.result, depth)

    def all_of(self, values: Sequence[Value], other: Value, depth: int) -> None:
        """Give some values the preferred layout of another value."""
        if other in self.preferred:
            for value in values:
                self.prefer(value, self.preferred[other][0], depth)
