"""The kernels of moments.py: sums of parts of the elements, and what merges them."""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.device_functions import widen


@tile.jit
def sample_mean(x_ptr, exists, outer, inner, strides, SAMPLE: tl.constexpr):
    """Return the mean of SAMPLE elements of each statistic, evenly spaced."""
    number = tl.arange(0, SAMPLE)[:, None]
    if outer > 1:
        o = (number.to(tl.int64) * outer // SAMPLE).to(tl.int32)
        i = number % inner
    else:
        o = number * 0
        i = (number.to(tl.int64) * inner // SAMPLE).to(tl.int32)
    at = o.to(tl.int64) * strides[2] + i.to(tl.int64) * strides[3]
    x = widen(tl.load(x_ptr + at, mask=exists, other=0.0))
    return tl.sum(x, axis=0, keep_dims=True) / SAMPLE


@tile.jit
def store_moments(mean_ptr, variance_ptr, at, exists, origin, sums, squares, total):
    mean = sums / total
    variance = squares / total - mean * mean
    tl.store(mean_ptr + at, origin + mean, mask=exists)
    tl.store(variance_ptr + at, tl.where(variance < 0, 0.0, variance), mask=exists)


@tile.jit
def moments_kernel(
    x_ptr,
    mean_ptr,
    variance_ptr,
    origin_ptr,
    statistics,
    groups,
    strides,
    outer,
    inner,
    steps,
    span,
    total,
    WHOLE: tl.constexpr,
    EVEN: tl.constexpr,
    SAMPLE: tl.constexpr,
    OUTER: tl.constexpr,
    INNER: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Store means and variances, or unless it is the WHOLE, the sums of a part and their origins.

    strides: of batches, groups, outer and inner axis. EVEN: steps have no lanes without elements.
    """
    across = tl.cdiv(groups, BLOCK)
    n, part = tl.program_id(0) // across, tl.program_id(1)
    group = (tl.program_id(0) - n * across) * BLOCK + tl.arange(0, BLOCK)[None, :]
    lane = tl.arange(0, OUTER * INNER)[:, None]
    blocks = tl.cdiv(inner, INNER)
    exists = True if BLOCK == 1 else group < groups
    base = n.to(tl.int64) * strides[0] + group.to(tl.int64) * strides[1]
    origin = sample_mean(x_ptr + base, exists, outer, inner, strides, SAMPLE)
    base += (lane // INNER).to(tl.int64) * strides[2] + (lane % INNER).to(tl.int64) * strides[3]
    sums = tl.zeros((OUTER * INNER, BLOCK), origin.dtype)
    squares = sums
    for step in range(part * span, min(steps, (part + 1) * span)):
        o, i = step // blocks * OUTER, step % blocks * INNER
        x_at = x_ptr + (base + (o.to(tl.int64) * strides[2] + i.to(tl.int64) * strides[3]))
        if EVEN:
            distance = widen(tl.load(x_at)) - origin
        else:
            inside = exists & (i + lane % INNER < inner) & (o + lane // INNER < outer)
            distance = tl.where(inside, widen(tl.load(x_at, mask=inside, other=0.0)) - origin, 0.0)
        sums += distance
        squares += distance * distance
    sums = tl.sum(sums, axis=0, keep_dims=True)
    squares = tl.sum(squares, axis=0, keep_dims=True)
    column = n * groups + group
    if WHOLE:
        store_moments(mean_ptr, variance_ptr, column, exists, origin, sums, squares, total)
    else:
        at = part.to(tl.int64) * statistics + column
        tl.store(mean_ptr + at, sums, mask=exists)
        tl.store(variance_ptr + at, squares, mask=exists)
        tl.store(origin_ptr + column, origin, mask=exists & (part == 0))


@tile.jit
def merge_parts_kernel(
    sums_ptr,
    squares_ptr,
    origin_ptr,
    mean_ptr,
    variance_ptr,
    parts,
    statistics,
    total,
    PARTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Store means and variances from the sums of parts."""
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    exists = column < statistics
    origin = tl.load(origin_ptr + column, mask=exists, other=0.0)
    sums = tl.zeros((PARTS, BLOCK), origin.dtype)
    squares = sums
    for start in range(0, parts, PARTS):
        part = start + tl.arange(0, PARTS)[:, None]
        inside = exists & (part < parts)
        at = part.to(tl.int64) * statistics + column
        sums += tl.load(sums_ptr + at, mask=inside, other=0.0)
        squares += tl.load(squares_ptr + at, mask=inside, other=0.0)
    sums = tl.sum(sums, axis=0, keep_dims=True)
    squares = tl.sum(squares, axis=0, keep_dims=True)
    store_moments(mean_ptr, variance_ptr, column, exists, origin, sums, squares, total)


@tile.jit
def merge_positions_kernel(
    means_ptr, variances_ptr, mean_ptr, variance_ptr, length, BLOCK: tl.constexpr
):
    """Store the mean and variance of `length` positions that have as many elements each."""
    channel = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, BLOCK)
    inside = lane < length
    means = tl.load(means_ptr + channel * length + lane, mask=inside, other=0.0)
    mean = tl.sum(means, axis=0) / length
    distance = tl.where(inside, means - mean, 0.0)
    variances = tl.load(variances_ptr + channel * length + lane, mask=inside, other=0.0)
    tl.store(mean_ptr + channel, mean)
    variance = tl.sum(variances + distance * distance, axis=0) / length
    tl.store(variance_ptr + channel, variance)
