"""The origin of the powers of attention's scores, where it is not their running maximum.

    softmax(s) = 2^(s - c) / sum of 2^(s - c)        for any c

The maximum of a query's scores of the first block of keys is the origin c of later ones, too, so
that no maximum of these is needed, and no sum is scaled. It is raised for powers whose sum exceeds
what float16 holds. Powers that are infinite even in float32 are those of scores 127 above it: the
block of queries is then computed again with the running maximum.
"""

from __future__ import annotations

import tile
import tile.language as tl

# A power is at most the sum of a block's powers, and the greatest number of float16 is 65504.
HIGHEST_SUM = tl.constexpr(2.0**15)
# The power of the origin is 1, and more than 1/2 where the origin was raised.
LOWEST_SUM = tl.constexpr(0.25)


@tile.jit
def raised(grown, powers, sums, weights, total, origin):
    """Return powers and sums for a higher origin of queries of which a sum has `grown`.

    They are scaled by powers of two, so exactly.
    """
    rows = tl.reduce_or(grown, axis=1)
    growth = tl.ceil(tl.log2(tl.max(powers, axis=1)))
    every, shrink = rows[:, None], tl.exp2(-growth)[:, None]
    powers = tl.where(every, powers * shrink, powers)
    sums = tl.where(every, sums * shrink, sums)
    weights = tl.where(every, weights * shrink, weights)
    total = tl.where(every, total * shrink, total)
    return powers, sums, weights, total, tl.where(rows, origin + growth, origin)


@tile.jit
def out_of_reach(weights, SEES_NONE: tl.constexpr):
    """Return True if scores of a query were too far above its origin, or are NaN or infinite."""
    sums = tl.sum(weights, axis=1)
    reached = (sums >= LOWEST_SUM) & (sums < float("inf"))
    if SEES_NONE:
        reached |= sums == 0.0
    return tl.reduce_or(~reached, axis=None)
