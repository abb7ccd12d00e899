"""Sums of rows that the programs of a cluster share: each has those of a part, and gets all.

Moments of parts r are of distances to the mean of the part; those of the row follow (Chan et al.,
1979):

    mean = sum_r n_r mean_r / n        M = sum_r M_r + n_r (mean_r - mean)^2
"""

from __future__ import annotations

import tile
import tile.language as tl


@tile.jit
def gathered(sums, SIZE: tl.constexpr):
    """Return sums, each a tile of one element, of all programs of the cluster."""
    numbers = sums[:0]
    for at in tl.static_range(len(sums)):
        numbers += (tl.sum(tl.reshape(sums[at], (1,)), axis=0),)
    return tl.extra.cuda.cluster_gather(numbers, SIZE)


@tile.jit
def of_cluster(sums, SIZE: tl.constexpr):
    """Return sums of parts of a row, one a program, added up in its cluster."""
    if SIZE > 1:
        parts = gathered(sums, SIZE)
        sums = ()
        for at in tl.static_range(len(parts)):
            total = parts[at][0]
            for part in tl.static_range(1, SIZE):
                total += parts[at][part]
            sums += (total,)
    return sums


@tile.jit
def of_parts(mean, by_x, by_one, square, share, SIZE: tl.constexpr):
    """Return the distance from the mean of a row to that of a part, and the sums of the row.

    Those of the part are of distances to its own mean.
    """
    means, by_xs, by_ones, squares = gathered((mean, by_x, by_one, square), SIZE)
    whole = 0.0
    for part in tl.static_range(SIZE):
        whole += means[part] * (1.0 / SIZE)
    by_x = by_one = square = 0.0
    for part in tl.static_range(SIZE):
        apart = means[part] - whole
        by_x += by_xs[part] + apart * by_ones[part]
        by_one += by_ones[part]
        square += squares[part] + apart * apart / (share * SIZE)
    return mean - whole, by_x, by_one, square


@tile.jit
def moments_of_parts(mean, square, length, SIZE: tl.constexpr, PART: tl.constexpr):
    """Return the distance from the mean of a part to that of the row, and the row's sum of squares.

    square: the sum of squares of distances to the mean of the part.
    """
    means, squares = tl.extra.cuda.cluster_gather((mean, square), SIZE)
    apart = 0.0
    for part in tl.static_range(SIZE):
        apart += (means[part] - mean) * min(PART, length - part * PART)
    apart /= length
    square = 0.0
    for part in tl.static_range(SIZE):
        distance = means[part] - mean - apart
        square += squares[part] + distance * distance * min(PART, length - part * PART)
    return apart, square
