"""Which products groups of four warps do, how groups share them, and where their factors lie.

Groups share the rows first: then each has whole rows, and what is computed of them can be the left
factor of another product, in the same registers. An instruction is as wide as a group's part of the
columns.

Elements of 16 bits are read from buffers with neighbours along either axis, others along k alone.
A factor of these that lies the other way in memory is turned by threads: each takes a block of it,
and stores that with neighbours along k.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from tile.ir.core import Operation
from tile.ir.ops.linalg import Precision
from tile.ir.types import F32, Pointer, Scalar, Shared, Tile
from tile.simt.layout_rules import layout_of
from tile.simt.layouts.blocked import blocked
from tile.simt.layouts.dims import LANE, REGISTER
from tile.simt.layouts.factors import EITHER_WAY, factor_layout
from tile.simt.layouts.fragments import MatrixShape, Operand, matrix_layout
from tile.simt.layouts.layout import LinearLayout
from tile.simt.ops.group import GROUP_WARPS
from tile.simt.target import SimtTarget

_ROWS, _COLUMNS = 64, 256  # of an instruction, at most
_WORD, _VECTOR = 4, 16  # bytes that a thread reads across, and stores along k, at once
_BLOCK = 4  # elements across of a block of larger ones

# From so many on, `max_num_imprecise_acc` of a dot is no limit to what is added up in few digits.
UNLIMITED = 1 << 30

left_layout = lru_cache(maxsize=1024)(matrix_layout)


def group_instruction(
    op: Operation,
    target: SimtTarget,
    num_warps: int,
    warp_rows: int = 0,
    factors: Scalar | None = None,
) -> tuple[MatrixShape, tuple[int, int]] | None:
    """The instruction for a `dot`, and how many groups share its rows and its columns.

    None if there is none that fits. With `warp_rows`, so many warps share the rows. With `factors`,
    these are taken to be of that element.
    """
    a, acc = op.inputs[0].type, op.inputs[2].type
    element = a.element if factors is None else factors
    assert isinstance(element, Scalar) and isinstance(acc.element, Scalar)
    if a.rank != 2 or num_warps % GROUP_WARPS:
        return None
    if not target.group_multiplies(element, acc.element) or not _is_exact(op, element, target):
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


def _is_exact(op: Operation, element: Scalar, target: SimtTarget) -> bool:
    """Whether groups round a product's factors and sums no more than the `dot` allows."""
    if element is F32:
        return op["input_precision"] is Precision.TF32
    depth = op.inputs[0].type.shape[1]
    return op["max_num_imprecise_acc"] >= depth or not is_rough(element, target)


def is_rough(element: Scalar | Pointer, target: SimtTarget) -> bool:
    """Whether groups add up products of an element with fewer digits than f32 has."""
    return any(element is rough for rough, _ in target.group_digits)


def factor_along(
    product: Operation, operand: Operand, ty: Tile | Shared, along: int
) -> LinearLayout | None:
    """The layout of a factor's buffer with neighbours along an axis; None if it cannot be read."""
    shape, bits = MatrixShape(*product["shape"]), 8 * ty.element.itemsize
    name = operand.value[along]
    if bits not in EITHER_WAY and name != "k":
        return None
    piece = ty.shape[along] if name == "k" else getattr(shape, name)
    return factor_layout(tuple(ty.shape), bits, along, piece)


def run_axis(layout: LinearLayout) -> int:
    """The axis along which a thread's first registers hold neighbours; the last one, if none."""
    first = layout.images(REGISTER)[:1]
    return 0 if first and first[0] >> layout.outs[1][1] else 1


def taken_factor(
    product: Operation, operand: Operand, ty: Tile, home: LinearLayout, threads: tuple[int, int]
) -> LinearLayout:
    """The layout in which threads, (lanes, warps) of them, hold a factor that is `home` in one.

    That, if a buffer with the same neighbours can be read, or the instruction takes it so. Else one
    where each thread has a block of the factor, which it can turn.
    """
    if operand is Operand.LEFT and home == left_of(product, ty.shape):
        return home
    if factor_along(product, operand, ty, fastest_axis(home)) is not None:
        return home
    return _blocks(tuple(ty.shape), operand.value.index("k"), ty.element.itemsize, *threads)


@lru_cache(maxsize=1024)
def _blocks(
    shape: tuple[int, int], depth_axis: int, itemsize: int, lanes: int, warps: int
) -> LinearLayout:
    """A layout with a block for each thread: at least a word across, and then a vector along k."""
    each = max(1, shape[0] * shape[1] // (lanes * warps))
    across = min(_WORD // itemsize, each) if itemsize < _WORD else min(_BLOCK, each)
    deep = min(_VECTOR // itemsize, max(1, each // across))
    lanes_deep = min(lanes, max(1, shape[depth_axis] // deep))
    other = 1 - depth_axis

    def sizes(along_k: int, along_other: int) -> list[int]:
        return [along_k if axis == depth_axis else along_other for axis in (0, 1)]

    held, lane = sizes(deep, across), sizes(lanes_deep, lanes // lanes_deep)
    return blocked(shape, held, lane, sizes(1, warps), (depth_axis, other))


def fastest_axis(layout: LinearLayout) -> int:
    """The axis along which neighbours are in a thread's next register, or in the next lane."""
    units = {1 << layout.outs[1][1]: 0, 1: 1}
    columns = (*layout.images(REGISTER), *layout.images(LANE))
    return next((units[column] for column in columns if column in units), 1)


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
