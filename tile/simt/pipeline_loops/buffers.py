"""The layouts of buffers in shared memory that tiles are stored or copied to.

A copy moves a vector that lies in one piece in global memory to one piece in the buffer. So the low
bits of the buffer's offset count along the axis along which a thread's pointers are neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from tile.analysis.axis_value import AxisInfo
from tile.simt.layouts import f2
from tile.simt.layouts.axes import vector_width
from tile.simt.layouts.banks import Banks
from tile.simt.layouts.conversion import plan_conversion
from tile.simt.layouts.dims import OFFSET, axis_name, places
from tile.simt.layouts.layout import LinearLayout
from tile.simt.layouts.shared_access import shared_access
from tile.simt.layouts.shared_conversion import Shared, conflict_free
from tile.simt.layouts.swizzle import swizzled

PHASES = 8  # rows of a swizzle without conflicts: vectors of 16 bytes in a line of 128


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
    source: LinearLayout, wanted: LinearLayout, element_bits: int, shuffles: bool, banks: Banks
) -> LinearLayout | None:
    """The layout of a buffer through which a tile goes from `source` to `wanted`.

    None if it needs no shared memory for that.
    """
    plan = plan_conversion(source, wanted, element_bits, shuffles=shuffles, banks=banks)
    return plan.layout if isinstance(plan, Shared) else None


@lru_cache(maxsize=1024)
def copy_layout(
    source: LinearLayout,
    wanted: LinearLayout,
    element_bits: int,
    vectors: tuple[int, int],
    banks: Banks,
) -> LinearLayout:
    """The layout of a buffer that `source` is copied to and `wanted` is loaded from.

    `vectors` are the axis and the length of the copies' vectors, which are in one piece in it. It
    is the layout without bank conflicts if that can have such vectors, and a swizzled one if not.
    """
    axis, vector = vectors
    free = conflict_free(source, wanted, element_bits, banks)
    at = places(free.outs)[axis_name(axis)]
    units = [1 << at + bit for bit in range(vector.bit_length() - 1)]
    led = _led_by(free, units, banks.vector_bits // element_bits)
    if led is not None and shared_access(source, led, element_bits, banks).vector >= vector:
        return led
    return _rows(free.shape, axis, element_bits, vector, banks)


def _led_by(layout: LinearLayout, units: list[int], widest: int) -> LinearLayout | None:
    """The same vectors with elements in an order that starts with `units`; None if not all do.

    Which vector is in which bank, and so what conflicts, stays the same.
    """
    columns = layout.images(OFFSET)
    for count in range(len(units), widest.bit_length()):
        head = columns[:count]
        if not f2.extend(head, units):
            again = (*units, *f2.extend(units, head), *columns[count:])
            return LinearLayout(((OFFSET, again),), layout.outs)
    return None


def _rows(
    shape: Sequence[int], axis: int, element_bits: int, vector: int, banks: Banks
) -> LinearLayout:
    """Rows along an axis, swizzled as far as they are long enough."""
    order = (axis, *(other for other in reversed(range(len(shape))) if other != axis))
    extent = shape[axis]
    wide = max(vector, min(extent, banks.vector_bits // element_bits))
    per_phase = max(1, banks.line_bits // (extent * element_bits))
    phases = max(1, min(PHASES // min(per_phase, PHASES), extent // wide))
    return swizzled(shape, wide, per_phase, phases if len(shape) > 1 else 1, order)
