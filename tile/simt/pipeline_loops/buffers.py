"""The layouts of buffers in shared memory that tiles are stored or copied to.

A copy moves a vector that lies in one piece in global memory to one piece in the buffer. So the low
bits of the buffer's offset count along the axis along which a thread's pointers are neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from tile.analysis.axis_value import AxisInfo
from tile.simt.layouts.axes import vector_width
from tile.simt.layouts.banks import Banks
from tile.simt.layouts.conversion import plan_conversion
from tile.simt.layouts.dims import axis_name, places
from tile.simt.layouts.layout import LinearLayout
from tile.simt.layouts.shared_access import shared_access
from tile.simt.layouts.shared_conversion import Shared, by_matrices, conflict_free
from tile.simt.layouts.shared_layout import shared_layout


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
    as matrices, if that takes fewer instructions.
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
    return shared_layout(source, wanted, element_bits, banks, units, exact=True)
