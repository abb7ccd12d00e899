"""Layout cost model: costs of operations, conversions and accesses of tiles.

The unit is one instruction of a thread. A conversion moves each byte through shared memory and
back, which is eight times as slow as arithmetic on it; one that only renames registers is free.

`RematerializationPlan` obtains values in other layouts at the least cost: it computes them again,
or converts them or their operands.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from tile.ir.builder import Builder
from tile.ir.core import Block, Operation, Value, clone
from tile.ir.op_definition import Trait
from tile.ir.types import Tile, with_layout
from tile.simt.layouts.dims import REGISTER
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.ops.layout import convert_layout
from tile.simt.ops.layout_inference import (
    is_flexible,
    layout_of,
    maybe_layout,
    operand_layout,
    tile_type,
)
from tile.simt.target import SimtTarget
from tile.simt.tuning import TuningConstants
from tile.transforms.region_utils import conversion_loc

SECTOR = 32  # bytes of a sector, the smallest transfer of global memory


def op_cost(op: Operation, layout: LinearLayout, tuning: TuningConstants) -> int:
    """Return the cost of an operation on a tile in a layout, replicated elements included."""
    return tuning.op_cost(op) << layout.in_bits(REGISTER)


def conversion_cost(
    ty: Tile, source: LinearLayout, result: LinearLayout, tuning: TuningConstants
) -> int:
    """Return the cost of a conversion between two layouts of a tile."""
    if source == result:
        return 0
    sync = tuning.conversion_sync_cost * _moves(source, result)
    return sync + ty.of.bytes_of(_registers(source, result))


def access_cost(itemsize: int, taken: int, apart: int | None, target: SimtTarget) -> float:
    """Return the cost of an access to global memory, for each element of a thread.

    Elements are of `itemsize` bytes. Each instruction accesses `taken` contiguous elements a lane;
    those of the next lane begin `apart` elements on, or anywhere (None). An instruction costs one
    for its issue, and `sector_cost` for each sector that its warp touches.
    """
    alone = max(taken * itemsize, SECTOR)
    each = alone if apart is None else min(apart * itemsize, alone)
    sectors = target.warp_size * each / SECTOR
    return (1 + target.tuning.sector_cost * sectors) / taken


@lru_cache(maxsize=4096)
def _moves(source: LinearLayout, result: LinearLayout) -> bool:
    """Return True if elements move between threads."""
    same = all(
        a == b for (name, a), (_, b) in zip(source.ins, result.ins, strict=True) if name != REGISTER
    )
    return not same or {*source.images(REGISTER)} != {*result.images(REGISTER)}


def _registers(source: LinearLayout, result: LinearLayout) -> int:
    """Return the number of registers that are written to shared memory, plus those read from it."""
    if not _moves(source, result):
        return 0
    return (1 << source.in_bits(REGISTER)) + (1 << result.in_bits(REGISTER))


@dataclass
class RematerializationPlan:
    """A plan to obtain values in other layouts, for one conversion or in place of several."""

    tuning: TuningConstants
    block: Block  # where they are used
    instead: Operation | None = None  # the conversion that is then gone
    available: frozenset[tuple[Value, LinearLayout]] = frozenset()  # available after the rewrite
    buffered: frozenset[Value] = frozenset()  # in shared memory, whence any layout can be read
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
        if value in self.buffered:
            return tile_type(value).of.bytes_of(1 << layout.in_bits(REGISTER))
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
