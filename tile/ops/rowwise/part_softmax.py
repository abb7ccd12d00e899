"""Softmax of long rows whose parts programs hold (row_parts.py), in registers or shared memory.

    m = max_r m_r        s = sum_r s_r exp(m_r - m)        of the maxima m_r and sums s_r of parts r

Parts of 16-bit elements that registers would not hold as float32 are kept in shared memory by the
compiler, and read three times. exp2(d * log2(e)) has an error of about |d| * 2^-24, far below that
of the results.
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.device_functions import widen
from tile.ops.core.tables import ANY, Table
from tile.ops.rowwise.row_parts import part_of
from tile.ops.rowwise.staged_softmax import LOG2_E

# By the length and the bytes of an element; an empty entry is for other kernels. H200, 2026-11-30,
# us, by those and so: float32, 4096 x 32000 343 and 254, 4096 x 20000 188 and 160, 2048 x 65536 272
# and 260, 512 x 131072 180 and 133; float16, 8192 x 12288 113.5 and 97.8, 4096
# x 20000 86.1 and 81.7, 2048 x 65536 159 and 133, 512 x 131072 86 and 75; bfloat16, 4096 x 50256
# 268 and 229; but 4096 x 24000 in two tiles 104, in one (staged_softmax.py) 98. By 16 warps 8192 x
# 11000 92.0, by 8 88.5.
PARTS = Table(
    {(ANY, ANY): {}},
    {
        "nvptx": {
            (8192, ANY): {},
            (11264, 2): {"num_warps": 8},
            (12288, 2): {"num_warps": 16},
            (16384, ANY): {},
            (20480, 2): {"STAGED": True, "num_warps": 4, "maxnreg": 96},
            (20480, 4): {"num_warps": 16, "maxnreg": 64},
            (32768, 2): {},
            (32768, 4): {"SIZE": 2, "num_warps": 8},
            (65536, 2): {"SIZE": 8, "num_warps": 4},
            (65536, 4): {"SIZE": 4, "num_warps": 16},
            (131072, 2): {"SIZE": 4, "STAGED": True, "num_warps": 4, "maxnreg": 96},
            (131072, 4): {"SIZE": 8, "num_warps": 8},
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
    HEAD: tl.constexpr,
    TAIL: tl.constexpr,
    STAGED: tl.constexpr = False,
):
    row, start, _, first, second, inside = part_of(length, SIZE, PART, HEAD, TAIL)
    x_ptr += row * x_stride + start
    y_ptr += row * y_stride + start
    # A row of -inf alone has no softmax: -inf - -inf is NaN, as in NumPy and torch.
    if STAGED:
        x = tl.load(x_ptr + first)
        z = tl.load(x_ptr + second, mask=inside, other=0.0)
        # Masks are alike for the elements of a vector: one selection for each of these.
        past = tl.where(inside, 0.0, -float("inf")).to(z.dtype)
        most = tl.maximum(tl.max(x, axis=0), tl.max(z + past, axis=0)).to(tl.float32)
        origin = origin_of(most, SIZE)
        x = x.to(tl.float32) - origin
        z = z.to(tl.float32) - tl.where(inside, origin, float("inf"))
        total = tl.sum(tl.exp2(x * LOG2_E), axis=0) + tl.sum(tl.exp2(z * LOG2_E), axis=0)
    else:
        x = widen(tl.load(x_ptr + first))
        z = widen(tl.load(x_ptr + second, mask=inside, other=-float("inf")))
        most = tl.maximum(tl.max(x, axis=0), tl.max(z, axis=0))
        origin = origin_of(most, SIZE)
        x -= origin
        z -= origin
        x_powers, z_powers = tl.exp(x), tl.exp(z)
        total = tl.sum(x_powers, axis=0) + tl.sum(z_powers, axis=0)
    if SIZE > 1:
        most, total = cluster_sum(most, total, SIZE)
    apart = most - origin
    if LOG:
        log = apart + tl.log(total)
        x -= log
        z -= log
    elif STAGED:
        log = apart * LOG2_E + tl.log2(total)
        x = tl.exp2(x * LOG2_E - log)
        z = tl.exp2(z * LOG2_E - log)
    else:
        share = tl.exp(-apart) / total
        x = x_powers * share
        z = z_powers * share
    tl.store(y_ptr + first, x)
    tl.store(y_ptr + second, z, mask=inside)


@tile.jit
def origin_of(most, SIZE: tl.constexpr):
    """Return the maximum of a part, or 0 if that is -inf, which the whole row may exceed."""
    return tl.where(most == -float("inf"), 0.0, most) if SIZE > 1 else most


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
