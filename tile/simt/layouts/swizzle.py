"""Layouts of shared memory: from an offset, counted in elements, to the element that is there.

Row-major storage puts a whole column into one bank. A swizzle permutes the vectors of a row by XOR
with the row's number, so that a column is spread over the banks too:

    >>> swizzled([4, 8], vector=2, per_phase=1, max_phase=4).table()["dim1"].reshape(4, 8)
    array([[0, 1, 2, 3, 4, 5, 6, 7],
           [2, 3, 0, 1, 6, 7, 4, 5],
           [4, 5, 6, 7, 0, 1, 2, 3],
           [6, 7, 4, 5, 2, 3, 0, 1]])

Where the lanes of a target are SIMD lanes of a CPU, there are no banks. One vector instruction
serves as many lanes as its SIMD width if adjacent lanes access contiguous elements, or all lanes
access one element; else every lane is served by itself. So the lowest bits of an offset are the
lane bits of the access that takes the most instructions:

    >>> from tile.simt.layouts.blocked import blocked
    >>> rows = blocked([32, 32], [1, 1], [1, 32], [4, 1])
    >>> columns = blocked([32, 32], [1, 1], [32, 1], [1, 2])
    >>> simd_layout(rows, (rows,), 16).bases("offset")[:5]
    ((0, 1), (0, 2), (0, 4), (0, 8), (0, 16))
    >>> simd_layout(rows, (columns,), 16).bases("offset")[:5]      # which has more registers
    ((1, 0), (2, 0), (4, 0), (8, 0), (0, 1))
"""

from __future__ import annotations

from collections.abc import Sequence

from tile.simt.layouts import f2
from tile.simt.layouts.blocked import check_order, grid_of, row_major
from tile.simt.layouts.dims import (
    LANE,
    OFFSET,
    REGISTER,
    WARP,
    axis_name,
    bit_positions,
    bits_of,
    log2_of,
    named,
    require,
)
from tile.simt.layouts.linear_layout import LinearLayout


def swizzled(
    shape: Sequence[int],
    vector: int,
    per_phase: int,
    max_phase: int,
    order: Sequence[int] | None = None,
) -> LinearLayout:
    """Return rows along the axis `order[0]`, each with its vectors permuted by its phase.

    The phase of row r, counted along the axis `order[1]`, is `r // per_phase % max_phase`, and the
    vector number v of the row, of `vector` elements, is at position `v ^ phase`. With `max_phase` 1
    nothing is permuted. Further axes are outermost. Raises `LayoutError` where a row has fewer
    vectors than there are phases.
    """
    order = row_major(len(shape)) if order is None else order
    check_order(order, len(shape))
    plain = grid_of(OFFSET, shape, order)
    phases, period = log2_of(max_phase, "max_phase"), log2_of(per_phase, "per_phase")
    fits = max_phase == 1 or (len(shape) > 1 and vector * max_phase <= shape[order[0]])
    require(fits, f"a row of {list(shape)} does not have {max_phase} vectors of {vector} elements")
    step = log2_of(vector, "a vector")
    dims = named(shape)
    at = bit_positions(dims)
    ins = {name: [1 << at[name] + bit for bit in range(bits)] for name, bits in dims}
    for phase in range(phases):
        rows, bit = ins[axis_name(order[1])], period + phase
        if bit < len(rows):
            rows[bit] ^= 1 << at[axis_name(order[0])] + step + phase
    reordered = LinearLayout(tuple((name, tuple(columns)) for name, columns in ins.items()), dims)
    return reordered @ plain


def byte_swizzled(
    shape: Sequence[int], element_bits: int, row_bytes: int, order: Sequence[int] | None = None
) -> LinearLayout:
    """Return the layout with a swizzle of 32, 64 or 128 bytes, as TMA and wgmma define it.

    The tile is divided into strips as wide as the swizzle, which follow one another; in a strip,
    eight rows permute their vectors of 16 bytes so that a column of vectors covers every bank.
    Raises `LayoutError` for another width, or a tile whose rows are narrower than a strip.
    """
    require(row_bytes in (32, 64, 128), f"a swizzle is of 32, 64 or 128 bytes, not {row_bytes}")
    order = row_major(len(shape)) if order is None else order
    check_order(order, len(shape))
    width = row_bytes * 8 // element_bits
    columns = shape[order[0]]
    require(
        len(shape) > 1 and width <= columns,
        f"a swizzle of {row_bytes} bytes takes rows of {width} elements; {list(shape)} has none",
    )
    return in_strips(shape, element_bits, row_bytes, 128 // row_bytes, order)


def in_strips(
    shape: Sequence[int],
    element_bits: int,
    row_bytes: int,
    per_phase: int,
    order: Sequence[int],
) -> LinearLayout:
    """Return a tile divided into strips of `row_bytes` along `order[0]`, which follow one another.

    In a strip, each `per_phase` rows have the next permutation of their vectors of 16 bytes.
    """
    strip = [1] * len(shape)
    strip[order[0]], strip[order[1]] = row_bytes * 8 // element_bits, shape[order[1]]
    strips = [extent // part for extent, part in zip(shape, strip, strict=True)]
    inner = swizzled(strip, 128 // element_bits, per_phase, row_bytes // 16, order)
    return inner * grid_of(OFFSET, strips, order)


def simd_layout(
    store: LinearLayout, loads: Sequence[LinearLayout], simd_width: int
) -> LinearLayout:
    """Return the layout to which a tile is stored, and from which it is loaded.

    All are of (register, lane, warp). Lanes with zero bases access one element in any layout.
    """
    bits = log2_of(simd_width, "the SIMD width")
    sides = [store, *(load.transpose_outs(*store.out_dims) for load in loads)]
    sides.sort(key=lambda side: f2.rank(side.images(REGISTER)), reverse=True)
    walked = [column for side in sides for column in side.images(LANE)[:bits]]
    rest = [column for name in (LANE, WARP, REGISTER) for column in store.images(name)]
    offsets = f2.extend([], [*walked, *rest, *f2.units(bits_of(store.outs))])
    return LinearLayout(((OFFSET, tuple(offsets)),), store.outs)
