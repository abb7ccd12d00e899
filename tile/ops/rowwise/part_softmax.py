"""Softmax of long rows whose parts programs hold (row_parts.py), in registers or shared memory.

    m = max_r m_r        s = sum_r s_r exp(m_r - m)        of the maxima m_r and sums s_r of parts r

Elements of 16 bits that registers would not hold as float32 are read three times. exp2(d * log2(e))
has an error of about |d| * 2^-24, far below that of these results.
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.device_functions import widen
from tile.ops.core.tables import ANY, Table
from tile.ops.rowwise.row_parts import (
    less,
    load_tiles,
    part_of,
    sum_of_tiles,
    tile_of,
    vectors_of_part,
)

LOG2_E = tl.constexpr(1.4426950408889634)
# By the length and the bytes of an element; an empty entry is for other kernels. H200, 2026-11-30,
# us, by two tiles a part, or one or two in shared memory, and so: float16, 4096 x 24000 98.2 and
# 95.7, x 32000 130.2 and 127.7, x 50256 231 and 197, 1024 x 100000 116.6 and 105, 512 x 131072 71.7
# and 67, 8192 x 14000 121 and 111.7, x 16384 133.8 and 131; by one program a row 4096 x 50256 204,
# by four 206; by eight 4096 x 40000 162.5, by four 159.5. Float32: 4096 x 32000 254.3 and 252.8;
# 1024 x 100000, by tiles of 4096 elements 212, of 2048 202.6.
# A thread has more elements of 16 bits than registers, so that they are in shared memory.
PARTS = Table(
    {(ANY, ANY): {}},
    {
        "nvptx": {
            (8192, ANY): {},
            (11264, 2): {"BLOCK": 2048, "num_warps": 8},
            (12352, 2): {"BLOCK": 4096, "num_warps": 16},
            (16384, 2): {"BLOCK": 4096, "STAGED": True, "num_warps": 16, "maxnreg": 31},
            (16384, ANY): {},
            (20480, 2): {"SIZE": 2, "BLOCK": 1024, "STAGED": True, "num_warps": 4, "maxnreg": 48},
            (20480, 4): {"BLOCK": 4096, "num_warps": 16, "maxnreg": 64},
            (24576, 2): {"SIZE": 4, "BLOCK": 1024, "STAGED": True, "num_warps": 4, "maxnreg": 32},
            (32768, 2): {"SIZE": 4, "BLOCK": 1024, "STAGED": True, "num_warps": 4, "maxnreg": 40},
            (32768, 4): {"SIZE": 2, "BLOCK": 4096, "num_warps": 8},
            (45056, 2): {"SIZE": 4, "BLOCK": 1024, "STAGED": True, "num_warps": 4, "maxnreg": 48},
            (65536, 2): {"SIZE": 8, "BLOCK": 1024, "STAGED": True, "num_warps": 4, "maxnreg": 40},
            (65536, 4): {"SIZE": 4, "BLOCK": 4096, "num_warps": 8},
            (102400, 2): {"SIZE": 8, "BLOCK": 2048, "STAGED": True, "num_warps": 4, "maxnreg": 64},
            (131072, 2): {"SIZE": 8, "BLOCK": 2048, "STAGED": True, "num_warps": 4, "maxnreg": 80},
            (131072, 4): {"SIZE": 8, "BLOCK": 2048, "num_warps": 8},
            (ANY, ANY): {},
        },
    },
)


@tile.jit
def part_softmax_kernel(
    x_ptr,
    y_ptr,
    x_stride,
    y_stride,
    length,
    LOG: tl.constexpr,
    SIZE: tl.constexpr,
    PART: tl.constexpr,
    COUNT: tl.constexpr,
    BLOCK: tl.constexpr,
    STAGED: tl.constexpr = False,
    VECTOR: tl.constexpr = 1,
):
    """STAGED: powers are computed twice, so that registers need not hold them.

    VECTOR: elements of a vector, if not all rows begin with one; the first program has the others.
    """
    row, start, count = part_of(length, SIZE, PART)
    if VECTOR > 1:
        vectors = vectors_of_part(row, start, x_stride, length, PART, VECTOR)
        first, count, place, outside = vectors
        x_ptr += first
        y_ptr += first
        rest = widen(tl.load(x_ptr + place, mask=outside, other=-float("inf")))
        y_rest_ptr = y_ptr + place
    else:
        x_ptr += row * x_stride
        y_ptr += row * y_stride
    x_ptr += start
    y_ptr += start
    x = load_tiles(x_ptr, count, COUNT, BLOCK)
    most = maximum_of(x, count, COUNT, BLOCK)
    if VECTOR > 1:
        most = tl.maximum(most, tl.max(rest, axis=0))
    # A row of -inf alone has no softmax: -inf - -inf is NaN, as in NumPy and torch. But a part has.
    origin = tl.where(most == -float("inf"), 0.0, most) if SIZE > 1 else most
    distances = x[:0]
    powers = x[:0]
    for at in tl.static_range(COUNT):
        distances += (less(x[at], origin, float("inf"), at, count, COUNT, BLOCK),)
        powers += (tl.exp2(distances[at] * LOG2_E) if STAGED else tl.exp(distances[at]),)
    total = sum_of_tiles(powers)
    if VECTOR > 1:
        total += tl.sum(tl.exp(rest - origin), axis=0)
    if SIZE > 1:
        most, total = cluster_sum(most, total, SIZE)
    apart = most - origin
    share = tl.exp(-apart) / total
    log = apart * LOG2_E + tl.log2(total) if STAGED and not LOG else apart + tl.log(total)
    for at in tl.static_range(COUNT):
        column, inside = tile_of(at, count, COUNT, BLOCK)
        if LOG:
            y = distances[at] - log
        elif STAGED:
            y = tl.exp2(distances[at] * LOG2_E - log)
        else:
            y = powers[at] * share
        tl.store(y_ptr + column, y, mask=inside)
    if VECTOR > 1:
        y = rest - origin
        y = y - (apart + tl.log(total)) if LOG else tl.exp(y) * share
        tl.store(y_rest_ptr, y, mask=outside)


@tile.jit
def maximum_of(x, count, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    """Return the greatest element of a part, widened: 16-bit elements are compared in pairs."""
    _, inside = tile_of(COUNT - 1, count, COUNT, BLOCK)
    past = tl.where(inside, 0.0, -float("inf")).to(x[0].dtype)
    highest = x[0]
    for at in tl.static_range(1, COUNT - 1):
        highest = tl.maximum(highest, x[at])
    if COUNT > 1:
        highest = tl.maximum(highest, x[COUNT - 1] + past)
    else:
        highest += past
    return widen(tl.max(highest, axis=0))


@tile.jit
def cluster_sum(most, total, SIZE: tl.constexpr):
    """Return the maximum of all parts of a row, and the sum of total * exp(most - maximum)."""
    maxima, totals = tl.extra.cuda.cluster_gather((most, total), SIZE)
    highest = maxima[0]
    for part in tl.static_range(1, SIZE):
        highest = tl.maximum(highest, maxima[part])
    total = 0.0
    for part in tl.static_range(SIZE):
        total += totals[part] * tl.exp(maxima[part] - highest)
    return highest, total
