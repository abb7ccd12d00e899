"""Linear recurrences from the end of a row, which the gradients of scans are.

    t[j] = g[j] + c[j] * t[j + 1]        t[length] = 0

An element is the map from t[j + 1] to t[j]. The composition of two maps is such a map, so a scan of
pairs (g, c) computes a block, from whose last element the next block goes on.
"""

from __future__ import annotations

import tile
import tile.language as tl

BLOCK = 1024  # elements of an iteration


@tile.jit
def composed(later_g, later_c, g, c):
    """Return the map of an element after that of the elements behind it."""
    return g + c * later_g, c * later_c


@tile.jit
def recurrence(g, c, behind):
    """Return t of a block of rows, whose elements are in reverse order, and t of the last ones.

    behind: t of the elements behind the block.
    """
    sums, scales = tl.associative_scan((g, c), 1, composed)
    t = sums + scales * behind
    return t, last_of(t)


@tile.jit
def last_of(x):
    """Return the last column; `tl.reduce` of pairs would not keep their order."""
    lane = tl.arange(0, x.shape[1])[None, :]
    return tl.sum(tl.where(lane == x.shape[1] - 1, x, 0), axis=1, keep_dims=True)
