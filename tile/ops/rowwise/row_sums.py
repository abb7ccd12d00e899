"""Sums of rows that are exchanged at once: each exchange, all warps of a program wait.

The variance takes two, as that of the distances to the mean. It takes one as that of the distances
to a number near the mean: if that is the mean of SAMPLE elements of a row of n, its distance to the
mean has a square of at most n / SAMPLE times the variance, so that float32 has 15 of its 24 bits
left for a row of 16384, whatever its elements are. That suffices for elements of 16 bits.
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.device_functions import widen
from tile.ops.rowwise.cluster_sums import of_cluster, of_parts

SAMPLE = 32  # elements, one for each lane of a warp


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
def gradient_sums(
    x_ptr,
    mean_ptr,
    rstd_ptr,
    x,
    direct,
    row,
    x_stride,
    exists,
    inside,
    length,
    share,
    CENTERED: tl.constexpr,
    EPS: tl.constexpr,
    SAMPLE: tl.constexpr,
    WHOLE: tl.constexpr,
    SIZE: tl.constexpr = 1,
):
    """Return distances of x to the mean if CENTERED, rstd, and the sums that gradients depend on.

    These are of direct * distance, and of direct. The first two are loaded if they are given. A
    cluster of SIZE programs shares rows, one at a time, in equal parts: the sums are those of all.
    """
    distance = x
    by_one = 0.0
    if CENTERED:
        if mean_ptr is not None:
            mean = tl.load(mean_ptr + row, mask=exists, other=0.0)
        elif SAMPLE:
            mean = sample_mean(x_ptr, row, x_stride, exists, length, SAMPLE)
        else:  # of the part of a row that the program has
            mean = tl.sum(x, axis=1, keep_dims=True) * (share * SIZE)
        distance = x - mean  # where not inside, direct is 0
        if mean_ptr is None and not WHOLE:
            distance = tl.where(inside, distance, 0.0)
    by_x, square = direct * distance, distance * distance
    if rstd_ptr is not None:
        rstd = tl.load(rstd_ptr + row, mask=exists, other=0.0)
        if CENTERED:
            by_x, by_one = tl.reduce((by_x, direct), 1, add_2, keep_dims=True)
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
                (by_x, direct, square, distance), 1, add_4, keep_dims=True
            )
            by_x, by_one, square, apart = of_cluster((by_x, by_one, square, apart), SIZE)
            apart *= share
            by_x -= apart * by_one
            square = variance_of(square * share, apart)
            distance = x - (mean + apart)
        else:
            by_x, by_one, square = tl.reduce((by_x, direct, square), 1, add_3, keep_dims=True)
            if SIZE > 1:
                apart, by_x, by_one, square = of_parts(mean, by_x, by_one, square, share, SIZE)
                distance += apart
            square *= share
        rstd = 1.0 / tl.sqrt(square + EPS)
    return distance, rstd, by_x, by_one
