"""The layouts of buffers in shared memory that tiles are stored or copied to.

A copy moves a vector that lies in one piece in global memory to one piece in the buffer. So the low
bits of the buffer's offset count along the axis along which a thread's pointers are neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from tile.analysis.axis_value import AxisInfo
from tile.simt.layouts.axes import vector_width
from tile.simt.layouts.banks import Banks
from tile.simt.layouts.conversion import plan_conversion
from tile.simt.layouts.dims import OFFSET, axis_name, places
from tile.simt.layouts.layout import LinearLayout
from tile.simt.layouts.shared_access import shared_access
from tile.simt.layouts.shared_conversion import Shared, by_matrices, conflict_free
from tile.simt.layouts.shared_layout import shared_layout
from tile.simt.layouts.swizzle import in_strips


@lru_cache(maxsize=1024)
def copy_vector(
    layout: LinearLayout,
    pointers: AxisInfo,
    mask: AxisInfo | None,
    itemsize: int,
    copy_bytes: Sequence[int],
) -> tuple[int, int] | None:
    """The axis along which a thread can copy vectors, and how many elements each has.

    None if all vectors are shorter than the least of `copy_bytes`, what a lane can copy at once.
    """
    found: tuple[int, int] | None = None
    for axis in range(pointers.rank):
        run = pointers.vector(axis, itemsize)
        if mask is not None:
            run = min(run, mask.constant[axis])
        held = vector_width(layout, axis, run) * itemsize
        sizes = [size for size in copy_bytes if itemsize <= size <= held]
        if sizes and (found is None or max(sizes) // itemsize > found[1]):
            found = axis, max(sizes) // itemsize
    return found


@lru_cache(maxsize=1024)
def store_layout(
    source: LinearLayout,
    wanted: LinearLayout,
    element_bits: int,
    shuffles: bool,
    banks: Banks,
    matrix_loads: bool = False,
) -> LinearLayout | None:
    """The layout of a buffer through which a tile goes from `source` to `wanted`.

    None if it needs no shared memory for that.
    """
    plan = plan_conversion(
        source, wanted, element_bits, shuffles=shuffles, matrix_loads=matrix_loads, banks=banks
    )
    return plan.layout if isinstance(plan, Shared) else None


@lru_cache(maxsize=1024)
def copy_layout(
    source: LinearLayout,
    wanted: tuple[LinearLayout, ...],
    element_bits: int,
    vectors: tuple[int, int],
    banks: Banks,
    matrix_loads: bool = False,
) -> LinearLayout:
    """The layout of a buffer that `source` is copied to, and from which `wanted` are loaded.

    `vectors` are the axis and the length of the copies' vectors, which are in one piece in it. As
    far as such vectors allow, it has no bank conflicts. With `matrix_loads`, warps load the first
    as matrices, if that takes fewer instructions. If that can be, neighbouring vectors of the axis
    are in one line of the banks, too: lanes that copy a piece of memory to different lines ask the
    cache for it once a line.
    """
    axis, vector = vectors
    at = places(source.outs)[axis_name(axis)]
    units = tuple([1 << at + bit for bit in range(vector.bit_length() - 1)])
    if matrix_loads:
        matrices = by_matrices(source, wanted[0], element_bits, banks, units, exact=True)
        plain = conflict_free(source, wanted[0], element_bits, banks, units)
        alone = shared_access(wanted[0], plain, element_bits, banks)
        if matrices is not None and len(matrices.load.registers) < len(alone.registers):
            return matrices.layout
    found = shared_layout(source, wanted, element_bits, banks, units, exact=True)
    if _in_lines(found, axis, element_bits, banks):
        return found
    lined = _lined(source.shape, element_bits, axis, banks)
    copies = (source, banks.up_to(element_bits * vector))
    sides = (copies, *((load, banks) for load in wanted))

    def cost(layout: LinearLayout) -> list[tuple[int, int]]:
        """The instructions of each side, and its bank conflicts."""
        accesses = [shared_access(side, layout, element_bits, own) for side, own in sides]
        return [(len(x.registers), x.conflicts(element_bits, banks)) for x in accesses]

    least = cost(found)
    return next((layout for layout in lined if _no_more(cost(layout), least)), found)


def _no_more(costs: Sequence[tuple[int, int]], than: Sequence[tuple[int, int]]) -> bool:
    return all(x <= y and u <= v for (x, u), (y, v) in zip(costs, than, strict=True))


def _in_lines(layout: LinearLayout, axis: int, element_bits: int, banks: Banks) -> bool:
    """Whether what fills a line of the banks lies along an axis, as far as that goes."""
    at = places(layout.outs)[axis_name(axis)]
    line = min(banks.line_bits // element_bits, layout.shape[axis])
    columns = layout.images(OFFSET)[: line.bit_length() - 1]
    return set(columns) == {1 << at + bit for bit in range(line.bit_length() - 1)}


def _lined(
    shape: Sequence[int], element_bits: int, axis: int, banks: Banks
) -> Iterator[LinearLayout]:
    """Layouts whose lines lie along an axis, with vectors in orders that change every few rows."""
    row = banks.line_bits // 8
    if len(shape) != 2 or shape[axis] * element_bits < banks.line_bits:
        return
    per_phase = 1
    while per_phase <= shape[1 - axis]:
        yield in_strips(shape, element_bits, row, per_phase, (axis, 1 - axis))
        per_phase *= 2
