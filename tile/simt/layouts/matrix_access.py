"""ldmatrix and stmatrix: a warp moves matrices of 8 rows of 16 bytes to or from shared memory.

A lane gives the address of a row and gets four bytes of each of several rows. So there are two
layouts: the *address* layout, whose registers walk a row and whose lanes walk the rows, and the
layout in which the tile arrives. For four matrices of 16-bit elements, with r, l the bits of the
registers and lanes in which the tile arrives:

                        register            lane                 a lane gets of a row
    addresses           r0 l0 l1 r3..       l2 l3 l4 r1 r2       two contiguous elements
    if transposed       l2 l3 l4 r3..       r0 l0 l1 r1 r2       one element of two rows

A tile arrives in its layout if the first register bits of the address layout are the low bits of
the offset:

    >>> from tile.simt.layouts.fragments import MatrixShape, Operand, matrix_fragment
    >>> from tile.simt.layouts.swizzle import swizzled
    >>> right = matrix_fragment(MatrixShape(16, 8, 16, 16), Operand.RIGHT)  # k, n
    >>> right = LinearLayout((*right.ins[:2], ("warp", ())), right.outs)
    >>> access = matrix_access(right, swizzled([16, 8], 8, 1, 1, [0, 1]), 16)
    >>> access.matrices, access.transposed, access.rows.apply(lane=1), access.rows.apply(lane=8)
    (2, False, {'offset': 16}, {'offset': 8})
    >>> access = matrix_access(right, swizzled([16, 8], 8, 1, 1), 16)
    >>> access.matrices, access.transposed, access.rows.apply(lane=1), access.rows.apply(lane=8)
    (2, True, {'offset': 8}, {'offset': 64})

A store is the inverse: the elements that lanes hold in the layout go to the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from tile.simt.layouts import f2
from tile.simt.layouts.banks import BANKS, Banks
from tile.simt.layouts.dims import LANE, OFFSET, REGISTER, WARP, log2_of
from tile.simt.layouts.layout import LinearLayout, identity1d
from tile.simt.layouts.shared_access import shared_access

_PART_BITS = 32  # bits of a row that one lane gets
_LANE_BITS = 5
_ROW_BITS = 3  # the number of a row in its matrix
_MATRIX_BITS = 2  # up to four at once


@dataclass(frozen=True)
class MatrixAccess:
    """An access to a tile by ldmatrix or stmatrix, `matrices` matrices each.

    `rows` maps (register, lane, warp) to the offsets of the rows; its registers number the
    instructions, whose results are in the order of the tile's own registers.
    """

    matrices: int
    transposed: bool
    rows: LinearLayout


@dataclass(frozen=True)
class Asked:
    """An address layout for rows: the first `row` bits of its registers walk a row."""

    layout: LinearLayout
    row: int
    matrices: int
    transposed: bool

    @property
    def units(self) -> tuple[int, ...]:
        """The images of a row's bits."""
        return self.layout.images(REGISTER)[: self.row]


def asked_for(layout: LinearLayout, element_bits: int) -> Iterator[Asked]:
    """Yield the address layouts for tiles that arrive in this (register, lane, warp) layout."""
    part = log2_of(max(1, _PART_BITS // element_bits), "the elements of a lane's part")
    registers, lanes, warps = (layout.images(name) for name in (REGISTER, LANE, WARP))
    if element_bits > _PART_BITS or len(lanes) != _LANE_BITS or len(registers) < part:
        return
    own, rest = registers[:part], registers[part:]
    together, later = rest[:_MATRIX_BITS], rest[_MATRIX_BITS:]
    copies = (0,) * (_MATRIX_BITS - len(together))
    for transposed in (False, True)[: 1 + (part == 1)]:
        row, down = (*own, *lanes[:2]), lanes[2:]
        if transposed:
            row, down = lanes[2:], (*own, *lanes[:2])
        if all(row):
            ins = (
                (REGISTER, (*row, *later)),
                (LANE, (*down, *together, *copies)),
                (WARP, warps),
            )
            yield Asked(LinearLayout(ins, layout.outs), len(row), 1 << len(together), transposed)


@lru_cache(maxsize=1024)
def matrix_access(
    layout: LinearLayout, shared: LinearLayout, element_bits: int
) -> MatrixAccess | None:
    """Return the ldmatrix access that loads a tile in this layout; None without contiguous rows."""
    for asked in asked_for(layout, element_bits):
        offsets = shared.invert_and_compose(asked.layout)
        if offsets.divide_left(identity1d(1 << asked.row, REGISTER, OFFSET)) is not None:
            (_, registers), *threads = offsets.ins
            rows = LinearLayout(((REGISTER, registers[asked.row :]), *threads), offsets.outs)
            return MatrixAccess(asked.matrices, asked.transposed, rows)
    return None


@lru_cache(maxsize=1024)
def matrix_store(
    layout: LinearLayout, shared: LinearLayout, element_bits: int, banks: Banks = BANKS
) -> MatrixAccess | None:
    """Return the stmatrix access that stores a tile in this layout; None where vectors do as well.

    Vectors do as well where they take no more instructions, where several threads hold the same
    element, of which only one is to store it, or where the rows of a matrix conflict in the banks.
    """
    if not all(layout.images(LANE)) or not all(layout.images(WARP)):
        return None
    access = matrix_access(layout, shared, element_bits)
    if access is None:
        return None
    vectors = len(shared_access(layout, shared, element_bits, banks).registers)
    if access.rows.in_size(REGISTER) >= vectors or _rows_meet(access.rows, element_bits, banks):
        return None
    return access


def _rows_meet(rows: LinearLayout, element_bits: int, banks: Banks) -> bool:
    """Return True if some of the eight rows of a matrix are in the same banks."""
    line = (1 << log2_of(banks.line_bits // element_bits, "the elements of a line")) - 1
    down = rows.images(LANE)[:_ROW_BITS]
    return f2.rank([offset & line for offset in down]) < _ROW_BITS
