"""Obtain values in other layouts: compute them again, or convert them or their operands."""

from __future__ import annotations

from dataclasses import dataclass, field

from tile.ir.builder import Builder
from tile.ir.core import Block, Operation, Value, clone
from tile.ir.op_definition import Trait
from tile.ir.types import Tile, with_layout
from tile.simt.assign.layout_cost import conversion_cost, op_cost
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.ops.layout import convert_layout
from tile.simt.ops.layout_inference import (
    is_flexible,
    layout_of,
    maybe_layout,
    operand_layout,
    tile_type,
)
from tile.simt.tuning import TuningConstants
from tile.transforms.region_utils import conversion_loc


@dataclass
class RematerializationPlan:
    """A plan to obtain values in other layouts, for one conversion or in place of several."""

    tuning: TuningConstants
    block: Block  # where they are used
    instead: Operation | None = None  # the conversion that is then gone
    available: frozenset[tuple[Value, LinearLayout]] = frozenset()  # available after the rewrite
    reach: int = field(init=False)  # operations that may still be considered
    # The operations that are to be done in a layout; other values are converted.
    chosen: dict[tuple[Value, LinearLayout], bool] = field(default_factory=dict)
    made: dict[tuple[Value, LinearLayout], Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.reach = self.tuning.rematerialized_ops

    def cost(self, value: Value, layout: LinearLayout) -> float:
        """Return the cost to obtain a value in a layout."""
        key = value, layout
        if layout_of(value) == layout or key in self.chosen or key in self.available:
            return 0
        if self.has(value, layout):
            return 0
        converted = self.converted(value, layout)
        computed = self.computed(value, layout)
        self.chosen[key] = computed is not None and computed < converted
        return converted if computed is None else min(computed, converted)

    def has(self, value: Value, layout: LinearLayout) -> bool:
        """Return True if the value is converted to the layout anyway."""
        return any(
            op.defn is convert_layout and op is not self.instead and layout_of(op.result) == layout
            for op in value.users
        )

    def converted(self, value: Value, layout: LinearLayout) -> float:
        cost = conversion_cost(tile_type(value), layout_of(value), layout, self.tuning)
        return cost / self.tuning.loop_weight if self.block is not value.block else cost

    def computed(self, value: Value, layout: LinearLayout) -> float | None:
        """Return the cost to compute a value in a layout; None where that is impossible."""
        op = value.op
        if op is None or self.reach == 0:
            return None
        if op.defn is convert_layout:
            return self.cost(op.inputs[0], layout)
        if not is_flexible(op):
            return None
        taken = operand_layout(op, layout)
        self.reach -= 1
        # A value without other users is computed in the other layout only.
        replaced = len(value.uses) == 1
        before = op_cost(op, layout_of(value), self.tuning) if replaced else 0
        total: float = max(0, op_cost(op, layout, self.tuning) - before)
        for operand in op.inputs:
            if isinstance(operand.type, Tile):
                total += self.cost(operand, taken)
        return total

    def make(self, value: Value, layout: LinearLayout) -> Value:
        """Return the value in the layout, as `cost` has planned it."""
        key = value, layout
        if layout_of(value) == layout:
            return value
        if key not in self.made:
            computes = self.chosen.get(key, False)
            made = self.compute(value, layout) if computes else self.convert(value, layout)
            self.made[key] = made
        return self.made[key]

    def convert(self, value: Value, layout: LinearLayout) -> Value:
        """Convert directly after the value's definition, so that the result dominates all uses."""
        following = value.block.first if value.op is None else value.op.next
        instead = [] if self.instead is None else [self.instead]
        b = Builder(value.block, following, conversion_loc(value, instead))
        return b(convert_layout, value, result=with_layout(value.type, layout))

    def compute(self, value: Value, layout: LinearLayout) -> Value:
        op = value.op
        assert op is not None and op.block is not None
        if op.defn is convert_layout:
            return self.make(op.inputs[0], layout)
        taken = operand_layout(op, layout)
        copy = clone(op, {})
        for index, operand in enumerate(op.operands):
            if maybe_layout(operand) is not None:
                assert operand is not None
                copy.set_operand(index, self.make(operand, taken))
        op.block.insert(copy, op.next)
        set_layout(copy, layout)
        return copy.result


def set_layout(op: Operation, layout: LinearLayout) -> None:
    """Give the one result of an operation another layout."""
    op.result.type = with_layout(op.result.type, layout)
    if op.has_trait(Trait.CONSTANT):
        op.attributes["result"] = op.result.type
