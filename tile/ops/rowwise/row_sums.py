"""Sums of rows that are exchanged at once: each exchange, all warps of a program wait.

The variance takes two, as that of the distances to the mean. It takes one as that of the distances
to a number near the mean: if that is the mean of SAMPLE elements of a row of n, its distance to the
mean has a square of at most n / SAMPLE times the variance, so that float32 has 15 of its 24 bits
left for a row of 16384, whatever its elements are. That suffices for elements of 16 bits.
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.device_functions import widen
from tile.ops.rowwise.cluster_sums import of_cluster, of_parts

SAMPLE = 32  # elements, one for each lane of a warp
# Elements that a thread adds up before tiles are: of four tiles of 16384 elements, layer norm's
# gradient of 8192 rows takes 206 us, with eight 208.5 (H200, float16, 2026-11-30).
VECTOR: tl.constexpr = tl.constexpr(4)


@tile.jit
def add_2(a, b, c, d):
    return a + c, b + d


@tile.jit
def add_3(a, b, c, d, e, f):
    return a + d, b + e, c + f


@tile.jit
def add_4(a, b, c, d, e, f, g, h):
    return a + e, b + f, c + g, d + h


@tile.jit
def sample_mean(x_ptr, row, stride, exists, length, SAMPLE: tl.constexpr):
    """Return the means of the first elements of rows."""
    lane = tl.arange(0, SAMPLE)[None, :]
    first = tl.load(x_ptr + row * stride + lane, mask=exists & (lane < length), other=0.0)
    return tl.sum(widen(first), axis=1, keep_dims=True) / min(length, SAMPLE)


@tile.jit
def variance_of(square, apart):
    """Return the variance, by the means of distances' squares and of distances."""
    return tl.maximum(square - apart * apart, 0.0, propagate_nan=tl.PropagateNan.ALL)


@tile.jit
def of_vectors(x, TILES: tl.constexpr):
    """Return the sums of adjacent elements, which a thread has, if rows have several TILES.

    So one register is for the sums of all tiles, not one for each element.
    """
    if TILES > 1:
        count: tl.constexpr = x.shape[1]
        vector: tl.constexpr = max(1, min(VECTOR, count // tl.extra.cuda.num_threads()))
        x = tl.sum(tl.reshape(x, (1, count // vector, vector)), 2)
    return x


@tile.jit
def of_tiles(xs):
    """Return sums of elements of a row's tiles, to be added up."""
    total = of_vectors(xs[0], len(xs))
    for t in tl.static_range(1, len(xs)):
        total += of_vectors(xs[t], len(xs))
    return total


@tile.jit
def gradient_sums(
    x_ptr,
    mean,
    rstd,
    xs,
    dys,
    weights,
    row,
    x_stride,
    exists,
    in_row,
    length,
    share,
    CENTERED: tl.constexpr,
    EPS: tl.constexpr,
    SAMPLE: tl.constexpr,
    WHOLE: tl.constexpr,
    SIZE: tl.constexpr = 1,
):
    """Return the mean of a row if CENTERED, rstd, and the sums that gradients depend on.

    These are of direct * distance, and of direct = dy * weight. mean, rstd: None if they are to be
    computed. in_row: which elements of the last tile exist. A cluster of SIZE programs shares
    rows, one at a time, in equal parts: the sums are those of all.
    """
    by_one = 0.0
    has_statistics: tl.constexpr = rstd is not None
    if not CENTERED:
        mean = 0.0
    elif not has_statistics:
        if SAMPLE:
            mean = sample_mean(x_ptr, row, x_stride, exists, length, SAMPLE)
        else:  # of the part of a row that the program has
            mean = tl.sum(of_tiles(xs), axis=1, keep_dims=True) * (share * SIZE)
    directs: Any = ()
    distances: Any = ()
    by_xs: Any = ()
    squares: Any = ()
    for t in tl.static_range(len(xs)):
        distance = xs[t]
        if CENTERED:
            distance -= mean  # where not inside, direct is 0
            if not has_statistics and not WHOLE and t == len(xs) - 1:
                distance = tl.where(exists & in_row, distance, 0.0)
        distances += (distance,)
        directs += (dys[t] * weights[t],)
        by_xs += (directs[t] * distance,)
        squares += (distance * distance,)
    by_x, square = of_tiles(by_xs), of_tiles(squares)
    if has_statistics:
        if CENTERED:
            by_x, by_one = tl.reduce((by_x, of_tiles(directs)), 1, add_2, keep_dims=True)
            by_x, by_one = of_cluster((by_x, by_one), SIZE)
        else:
            (by_x,) = of_cluster((tl.sum(by_x, axis=1, keep_dims=True),), SIZE)
    else:
        if not CENTERED:
            by_x, square = tl.reduce((by_x, square), 1, add_2, keep_dims=True)
            by_x, square = of_cluster((by_x, square), SIZE)
            square *= share
        elif SAMPLE:
            by_x, by_one, square, apart = tl.reduce(
                (by_x, of_tiles(directs), square, of_tiles(distances)), 1, add_4, keep_dims=True
            )
            by_x, by_one, square, apart = of_cluster((by_x, by_one, square, apart), SIZE)
            apart *= share
            by_x -= apart * by_one
            square = variance_of(square * share, apart)
            mean += apart
        else:
            by_x, by_one, square = tl.reduce(
                (by_x, of_tiles(directs), square), 1, add_3, keep_dims=True
            )
            if SIZE > 1:
                apart, by_x, by_one, square = of_parts(mean, by_x, by_one, square, share, SIZE)
                mean -= apart
            square *= share
        rstd = 1.0 / tl.sqrt(square + EPS)
    return mean, rstd, by_x, by_one
