"""Linear recurrences from the end of a row, which the gradients of scans are.

    t[j] = g[j] + c[j] * t[j + 1]        t[length] = 0

An element is the map from t[j + 1] to t[j]. The composition of two maps is such a map, so a scan of
pairs (g, c) computes a block, from whose last element the next block goes on.
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.call import Call
from tile.ops.core.call_plans import launch

BLOCK = 1024  # elements of an iteration


@tile.jit
def composed(later_g, later_c, g, c):
    """Return the map of an element after that of the elements behind it."""
    return g + c * later_g, c * later_c


@tile.jit
def recurrence(g, c, behind):
    """Return t of a block, whose elements are in reverse order, and t of its last one.

    behind: t of the element behind the block.
    """
    sums, scales = tl.associative_scan((g, c), 0, composed)
    t = sums + scales * behind
    return t, last_of(t)


@tile.jit
def last_of(x):
    """Return the last element; `tl.reduce` of pairs would not keep their order."""
    lane = tl.arange(0, x.shape[0])
    return tl.sum(tl.where(lane == x.shape[0] - 1, x, 0), axis=0)


def gradient_of_scan(call: Call, kernel: Any, dy: Any, x: Any, y: Any) -> Any:
    """Return the gradient of x, which `kernel` computes from `dy`, x and the result y of a scan."""
    source = call.array("x", x)
    others = [
        call.array(name, array, dtypes=(source.dtype,), shape=source.shape)
        for name, array in (("dy", dy), ("y", y))
    ]
    rows, dy_rows, y_rows = (operand.rows() for operand in (source, *others))
    result = call.new(source.shape, source.dtype)
    if result.size:
        launch(kernel, (rows.count,))(
            *(dy, x, y, result.value, dy_rows.stride, rows.stride, y_rows.stride, rows.length),
            BLOCK=min(BLOCK, tile.next_power_of_2(rows.length)),
        )
    return result.value
