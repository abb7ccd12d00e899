"""Which products groups of four warps do, how groups share them, and where their factors lie.

Groups share the rows first: then each has whole rows, and what is computed of them can be the left
factor of another product, in the same registers. An instruction is as wide as a group's part of the
columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from tile.ir.core import Operation, Value
from tile.ir.ops.linalg import Precision
from tile.ir.types import BF16, F16, F32, Scalar, Shared, Tile
from tile.simt.layout_rules import layout_of
from tile.simt.layouts.dims import REGISTER
from tile.simt.layouts.factors import factor_layout
from tile.simt.layouts.fragments import MatrixShape, Operand, matrix_layout
from tile.simt.layouts.layout import LinearLayout
from tile.simt.ops.group import GROUP_WARPS
from tile.simt.target import SimtTarget

_ROWS, _COLUMNS = 64, 256  # of an instruction, at most

# Which elements are multiplied, and into which they are added up.
_ELEMENTS = {(F16, F32), (BF16, F32)}

left_layout = lru_cache(maxsize=1024)(matrix_layout)


def group_instruction(
    op: Operation, target: SimtTarget, num_warps: int, warp_rows: int = 0
) -> tuple[MatrixShape, tuple[int, int]] | None:
    """The instruction for a `dot`, and how many groups share its rows and its columns.

    None if there is none that fits. With `warp_rows`, so many warps share the rows.
    """
    a, acc = op.inputs[0].type, op.inputs[2].type
    if a.rank != 2 or (a.element, acc.element) not in _ELEMENTS or num_warps % GROUP_WARPS:
        return None
    element = a.element
    assert isinstance(element, Scalar)
    if element is F32 and op["input_precision"] is not Precision.TF32:
        return None
    (m, n), k = acc.shape, a.shape[1]
    count = num_warps // GROUP_WARPS
    rows = warp_rows // GROUP_WARPS or min(count, max(1, m // _ROWS))
    if rows * _ROWS > m or count % rows:
        return None
    columns = count // rows
    width = min(_COLUMNS, n // columns)
    fitting = (
        shape
        for shape in target.group_shapes
        if shape.bits == element.bits and shape.n == width and shape.k <= k
    )
    shape = next(fitting, None)
    return None if shape is None else (shape, (rows, columns))


def shared_factor(product: Operation, value: Value, source: LinearLayout) -> LinearLayout | None:
    """The layout of a buffer for a factor of a `group_dot` that threads hold in `source`.

    Neighbours of a thread are neighbours there. None if the instruction cannot read that.
    """
    operand = Operand.LEFT if value is product.inputs[0] else Operand.RIGHT
    assert isinstance(value.type, Tile)
    return factor_along(product, operand, value.type, run_axis(source))


def factor_along(
    product: Operation, operand: Operand, ty: Tile | Shared, along: int
) -> LinearLayout | None:
    """The layout of a factor's buffer with neighbours along an axis; None if it cannot be read."""
    shape, bits = MatrixShape(*product["shape"]), 8 * ty.element.itemsize
    name = operand.value[along]
    if bits != 16 and name != "k":
        return None
    piece = ty.shape[along] if name == "k" else getattr(shape, name)
    return factor_layout(tuple(ty.shape), bits, along, piece)


def run_axis(layout: LinearLayout) -> int:
    """The axis along which a thread's first registers hold neighbours; the last one, if none."""
    first = layout.images(REGISTER)[:1]
    return 0 if first and first[0] >> layout.outs[1][1] else 1


def stays_in_registers(product: Operation) -> bool:
    """Whether the left factor of a `group_dot` is as the instruction takes it from registers."""
    value = product.inputs[0]
    if not isinstance(value.type, Tile):
        return False
    return layout_of(value) == left_of(product, value.type.shape)


def left_of(product: Operation, extents: Sequence[int]) -> LinearLayout:
    """The layout in which a `group_dot` takes its left factor from registers."""
    shape = MatrixShape(*product["shape"])
    return left_layout(tuple(extents), shape, Operand.LEFT, tuple(product["groups"]))
