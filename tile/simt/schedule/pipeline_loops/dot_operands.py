"""Loads whose tiles are wgmma operands, which wgmma reads from the buffers that copies fill.

If the operand is the transposed or reshaped tile, wgmma reads such a view of the buffer.

    %x = load %p : tile<..>               %s = local_subview %m, %iteration
    %y = trans %x {order = (1, 0)}        %t = local_trans %s {order = (1, 0)}
    %r = wgmma %a, %y, %acc               %r = wgmma %a, %t, %acc
"""

from __future__ import annotations

from dataclasses import dataclass

from tile.ir.core import Operation, Trait, Value
from tile.ir.ops import shape
from tile.ir.ops.dot import is_multiplied
from tile.ir.types import Shared, Tile
from tile.simt.hopper.wgmma_layouts import wgmma_buffer_layout
from tile.simt.layouts.dims import OFFSET
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.layouts.mma_fragments import Operand
from tile.simt.ops import shared
from tile.simt.ops.layout_inference import LayoutBuilder, operand_layout

# Operations that relabel a tile, and those that relabel a buffer in the same way.
_VIEWS = {shape.trans: shared.local_trans, shape.reshape: shared.local_reshape}


@dataclass(frozen=True)
class DotOperand:
    """Operand number `index` of a wgmma, and the operations that relabel the tile before it."""

    dot: Operation
    index: int
    relabeling: tuple[Operation, ...] = ()

    def layout(self, major: int) -> LinearLayout | None:
        """Return the layout of a buffer for the tile whose elements are contiguous along an axis.

        major: that axis, of the tile before it is relabeled.
        """
        ty = self.dot.inputs[self.index].type
        assert isinstance(ty, Tile)
        operand = (Operand.LEFT, Operand.RIGHT)[self.index]
        for along in (0, 1):
            layout = wgmma_buffer_layout(self.dot, operand, ty, along)
            if layout is None:
                continue
            for op in reversed(self.relabeling):
                layout = operand_layout(op, layout)
            if layout.bases(OFFSET)[0][major]:
                return layout
        return None


def dot_operands(value: Value) -> list[DotOperand]:
    """Return the wgmma operands in its block that a tile is used as, relabeled or as it is."""
    operands = [DotOperand(dot, index) for dot, index in _wgmma_uses(value)]
    for user in value.users:
        if user.defn in _VIEWS and user.block is value.block:
            operands += [
                DotOperand(later.dot, later.index, (user, *later.relabeling))
                for later in dot_operands(user.result)
            ]
    return operands


def _wgmma_uses(value: Value) -> list[tuple[Operation, int]]:
    uses = [use for use in value.uses if is_multiplied(*use) and use[0].block is value.block]
    return [(dot, index) for dot, index in uses if dot.has_trait(Trait.IN_FLIGHT)]


def operand_buffer_layout(value: Value, major: int) -> LinearLayout | None:
    """Return the layout of a buffer from which the first possible wgmma can read a tile.

    None if no wgmma can. major: the axis along which the buffer's elements are contiguous.
    """
    layouts = (operand.layout(major) for operand in dot_operands(value))
    return next((layout for layout in layouts if layout is not None), None)


def operands_readable_from(value: Value, layout: LinearLayout) -> list[DotOperand]:
    """Return the operands that wgmmas can read from a buffer of the tile in a layout."""
    return [
        operand
        for operand in dot_operands(value)
        if any(operand.layout(axis) == layout for axis in range(len(layout.outs)))
    ]


def read_from_buffer(value: Value, stage: Value) -> None:
    """Let wgmmas read a stage of the tile's buffer instead of the tile, where they can."""
    ty = stage.type
    assert isinstance(ty, Shared) and isinstance(ty.layout, LinearLayout)
    for operand in operands_readable_from(value, ty.layout):
        mem = stage
        if operand.relabeling:
            build = LayoutBuilder.before(operand.relabeling[-1])
            for op in operand.relabeling:
                mem = build(_VIEWS[op.defn], mem, **op.attributes)
        operand.dot.set_operand(operand.index, mem)
        for op in reversed(operand.relabeling):
            if not op.result.uses:
                op.erase()
