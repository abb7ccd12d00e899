"""Loads that are factors of products of groups, which read them where copies have put them.

A factor may be the transposed tile: then the product reads the buffer with its axes exchanged.

    %x = load %p : tile<..>               %s = slot %m, %turn
    %y = trans %x {order = (1, 0)}        %t = local_trans %s {order = (1, 0)}
    %r = group_dot %a, %y, %acc           %r = group_dot %a, %t, %acc
"""

from __future__ import annotations

from dataclasses import dataclass

from tile.ir.core import Operation, Value
from tile.ir.ops import shape
from tile.ir.types import Shared, Tile
from tile.simt.group_layouts import factor_along
from tile.simt.layout_rules import LayoutBuilder
from tile.simt.layouts.axes import permute_axes
from tile.simt.layouts.fragments import Operand
from tile.simt.layouts.layout import LinearLayout
from tile.simt.ops import group, shared

_TRANSPOSED = (1, 0)


@dataclass(frozen=True)
class Factor:
    """The operand number `index` of a product, and the transposition before it, if there is one."""

    product: Operation
    index: int
    transposition: Operation | None

    def layout(self, along: int) -> LinearLayout | None:
        """The layout of a buffer for the tile, with neighbours along an axis of that."""
        flipped = self.transposition is not None
        ty = self.product.inputs[self.index].type
        assert isinstance(ty, Tile)
        operand = (Operand.LEFT, Operand.RIGHT)[self.index]
        found = factor_along(self.product, operand, ty, 1 - along if flipped else along)
        return permute_axes(found, _TRANSPOSED) if found is not None and flipped else found


def factors(value: Value) -> list[Factor]:
    """The factors that a tile is in its block."""
    found = [Factor(product, index, None) for product, index in _products(value)]
    for user in value.users:
        if user.defn is shape.trans and user.block is value.block and user["order"] == _TRANSPOSED:
            found += [Factor(product, index, user) for product, index in _products(user.result)]
    return found


def _products(value: Value) -> list[tuple[Operation, int]]:
    return [
        (user, index)
        for user, index in value.uses
        if user.defn is group.group_dot and index < 2 and user.block is value.block
    ]


def wanted_layout(value: Value, along: int) -> LinearLayout | None:
    """The layout of a buffer from which the first product can read a tile; None if none can."""
    layouts = (factor.layout(along) for factor in factors(value))
    return next((layout for layout in layouts if layout is not None), None)


def factors_in(value: Value, layout: LinearLayout) -> list[Factor]:
    """The factors that products can read from a buffer of the tile in a layout."""
    return [factor for factor in factors(value) if layout in (factor.layout(0), factor.layout(1))]


def read_from(value: Value, stage: Value) -> None:
    """Let products read a stage of the tile's buffer instead of the tile, where they can."""
    held = stage.type
    assert isinstance(held, Shared) and isinstance(held.layout, LinearLayout)
    for factor in factors_in(value, held.layout):
        mem = stage
        if factor.transposition is not None:
            build = LayoutBuilder.before(factor.transposition)
            mem = build(shared.local_trans, stage, order=_TRANSPOSED)
        factor.product.set_operand(factor.index, mem)
        if factor.transposition is not None and not factor.transposition.result.uses:
            factor.transposition.erase()
