"""Layouts of the buffers in shared memory that tiles are stored or copied to.

A copy moves a vector that is contiguous in global memory to contiguous offsets of the buffer. So
the low bits of the offset run along the axis along which a thread's pointers are contiguous.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

from tile.analysis.axis_lattice import AxisInfo
from tile.simt.layouts.axes import vector_width
from tile.simt.layouts.conversion import (
    conflict_free,
    through_shared_by_ldmatrix,
)
from tile.simt.layouts.dims import OFFSET, axis_name, bit_positions
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.layouts.shared_access import Banks, shared_access
from tile.simt.layouts.shared_layout import shared_layout
from tile.simt.layouts.swizzle import in_strips


@lru_cache(maxsize=1024)
def copy_vector(
    layout: LinearLayout,
    pointers: AxisInfo,
    mask: AxisInfo | None,
    itemsize: int,
    cp_async_bytes: Sequence[int],
) -> tuple[int, int] | None:
    """Return the axis along which a thread can copy vectors, and their length in elements.

    cp_async_bytes: the sizes that a lane can copy at once. None if all vectors are shorter than the
        least of them.
    """
    vectors: dict[int, int] = {}
    for axis in range(pointers.rank):
        run = pointers.vector(axis, itemsize)
        if mask is not None:
            run = min(run, mask.constant[axis])
        vector_bytes = vector_width(layout, axis, run) * itemsize
        sizes = [size for size in cp_async_bytes if itemsize <= size <= vector_bytes]
        if sizes:
            vectors[axis] = max(sizes) // itemsize
    return max(vectors.items(), key=lambda vector: vector[1], default=None)


@lru_cache(maxsize=1024)
def copy_layout(
    source: LinearLayout,
    targets: tuple[LinearLayout, ...],
    element_bits: int,
    vectors: tuple[int, int],
    banks: Banks,
    has_ldmatrix: bool = False,
) -> LinearLayout:
    """Return the layout of a buffer that `source` is copied to, and from which `targets` are read.

    vectors: the axis of the copies' vectors and their length in elements. Vectors are contiguous
        in the buffer; as far as that allows, it has no bank conflicts.
    ldmatrix: True if warps may read the first target by ldmatrix. They do if that takes fewer
        instructions.

    Where it costs nothing, consecutive vectors along the axis share a line of the banks, too:
    lanes that copy contiguous memory to different lines request it from the cache once per line.
    """
    axis, vector = vectors
    at = bit_positions(source.outs)[axis_name(axis)]
    units = tuple([1 << at + bit for bit in range(vector.bit_length() - 1)])
    if has_ldmatrix:
        matrices = through_shared_by_ldmatrix(
            source, targets[0], element_bits, banks, units, exact=True
        )
        plain = conflict_free(source, targets[0], element_bits, banks, units)
        plain_load = shared_access(targets[0], plain, element_bits, banks)
        if matrices is not None and len(matrices.load.registers) < len(plain_load.registers):
            return matrices.layout
    best = shared_layout(source, targets, element_bits, banks, units, exact=True)
    if _in_lines(best, axis, element_bits, banks):
        return best
    candidates = _line_layouts(source.shape, element_bits, axis, banks)
    copies = (source, banks.up_to(element_bits * vector))
    sides = (copies, *((load, banks) for load in targets))

    def cost(layout: LinearLayout) -> list[tuple[int, int]]:
        """Return the number of instructions of each side, and its bank conflicts."""
        accesses = [
            shared_access(side, layout, element_bits, side_banks) for side, side_banks in sides
        ]
        return [(len(x.registers), x.conflicts(element_bits, banks)) for x in accesses]

    best_cost = cost(best)
    return next((layout for layout in candidates if _no_more(cost(layout), best_cost)), best)


def _no_more(costs: Sequence[tuple[int, int]], than: Sequence[tuple[int, int]]) -> bool:
    return all(x <= y and u <= v for (x, u), (y, v) in zip(costs, than, strict=True))


def _in_lines(layout: LinearLayout, axis: int, element_bits: int, banks: Banks) -> bool:
    """Return True if a line of the banks holds elements along an axis, as many as that has."""
    at = bit_positions(layout.outs)[axis_name(axis)]
    line = min(banks.line_bits // element_bits, layout.shape[axis])
    columns = layout.images(OFFSET)[: line.bit_length() - 1]
    return set(columns) == {1 << at + bit for bit in range(line.bit_length() - 1)}


def _line_layouts(
    shape: Sequence[int], element_bits: int, axis: int, banks: Banks
) -> Iterator[LinearLayout]:
    """Yield layouts whose lines lie along an axis, with vectors swizzled every few rows.

    Several rows that are shorter than a line share one.
    """
    row = min(banks.line_bits, shape[axis] * element_bits) // 8
    # Rows along the axis; of a batch there is one matrix.
    others = sorted({*range(len(shape))} - {axis}, key=lambda other: -shape[other])
    if (
        not others
        or math.prod(shape) > shape[axis] * shape[others[0]]
        or row < 2 * banks.vector_bits // 8
    ):
        return
    per_phase = 1
    while per_phase <= shape[others[0]]:
        yield in_strips(shape, element_bits, row, per_phase, (axis, *others))
        per_phase *= 2
