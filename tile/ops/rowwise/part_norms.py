"""The kernel of layer and RMS normalization of long rows whose parts programs hold (row_parts.py).

Programs of a cluster exchange means and sums of squares of their parts (cluster_sums.py).
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.device_functions import widen
from tile.ops.core.tables import ANY, Table
from tile.ops.rowwise.cluster_sums import moments_of_parts, of_cluster
from tile.ops.rowwise.row_parts import part_of

# By CENTERED, the length and the bytes of an element; an empty entry is for other kernels. H200,
# 2026-11-30, us, by those and so: layer norm, float32, 4096 x 16384 144 and 132, x 20000 191 and
# 166, x 32000 346 and 263, 2048 x 65536 407 and 288; float16, 8192 x 12288 109.4 and 98.7, 4096 x
# 20000 95.0 and 82.1, x 32768 161 and 150, x 40000 216 and 182, 2048 x 65536 198 and 157. RMS
# norm, float32, 8192 x 12288 211 and 194, 4096 x 32000 290 and 253, 2048 x 65536 367 and 263;
# float16, 4096 x 20000 83.4 and 80.5, 2048 x 65536 155 and 139; bfloat16, 4096 x 24000 111 and 100.
PARTS = Table(
    {(ANY, ANY, ANY): {}},
    {
        "nvptx": {
            (ANY, 8192, ANY): {},
            (0, 12288, 2): {"num_warps": 8},
            (ANY, 12288, 2): {"num_warps": 8, "maxnreg": 80},
            (ANY, 12288, 4): {"num_warps": 16},
            (ANY, 16383, ANY): {},
            (0, 16384, ANY): {},
            (ANY, 16384, 2): {},
            (ANY, 16384, 4): {"num_warps": 16, "maxnreg": 64},
            (0, 20480, 2): {"num_warps": 16, "maxnreg": 64},
            (0, 20480, 4): {},
            (ANY, 20480, 2): {"num_warps": 8, "maxnreg": 128},
            (ANY, 20480, 4): {"SIZE": 2, "num_warps": 8, "maxnreg": 80},
            (0, 24576, 2): {"SIZE": 2, "num_warps": 8, "maxnreg": 96},
            (ANY, 24576, 2): {"SIZE": 2, "num_warps": 8, "maxnreg": 80},
            (0, 32767, 2): {"SIZE": 4, "num_warps": 4, "maxnreg": 96},
            (0, 32768, 2): {},
            (0, 32768, 4): {"SIZE": 2, "num_warps": 8},
            (ANY, 32768, 2): {"SIZE": 4, "num_warps": 4, "maxnreg": 96},
            (ANY, 32768, 4): {"SIZE": 4, "num_warps": 8, "maxnreg": 64},
            (0, 57344, 2): {},
            (ANY, 40960, 2): {"SIZE": 2, "num_warps": 8, "maxnreg": 128},
            (ANY, 65536, 2): {"SIZE": 8, "num_warps": 4, "maxnreg": 96},
            (0, 65536, 4): {"SIZE": 4, "num_warps": 8},
            (ANY, 65536, 4): {"SIZE": 4, "num_warps": 16, "maxnreg": 64},
            (ANY, ANY, ANY): {},
        },
    },
)


@tile.jit
def part_norm_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
    y_ptr,
    mean_ptr,
    rstd_ptr,
    x_stride,
    y_stride,
    length,
    CENTERED: tl.constexpr,
    EPS: tl.constexpr,
    SIZE: tl.constexpr,
    PART: tl.constexpr,
    HEAD: tl.constexpr,
    TAIL: tl.constexpr,
):
    row, start, count, first, second, inside = part_of(length, SIZE, PART, HEAD, TAIL)
    x_ptr += row * x_stride + start
    y_ptr += row * y_stride + start
    x = widen(tl.load(x_ptr + first))
    z = widen(tl.load(x_ptr + second, mask=inside, other=0.0))
    mean = 0.0
    if CENTERED:
        mean = (tl.sum(x, axis=0) + tl.sum(z, axis=0)) / count
        x -= mean
        z = tl.where(inside, z - mean, 0.0)
    square = tl.sum(x * x, axis=0) + tl.sum(z * z, axis=0)
    if SIZE > 1:
        if CENTERED:
            apart, square = moments_of_parts(mean, square, length, SIZE, PART)
            mean += apart
            x -= apart
            z -= apart
        else:
            (square,) = of_cluster((square,), SIZE)
    rstd = 1.0 / tl.sqrt(square / length + EPS)
    weight_ptr += start
    if bias_ptr is not None:
        bias_ptr += start
    # One tile after the other, so that registers hold the weight and the bias of one.
    store_scaled(y_ptr, x * rstd, weight_ptr, bias_ptr, first, None)
    store_scaled(y_ptr, z * rstd, weight_ptr, bias_ptr, second, inside)
    if start == 0:
        if mean_ptr is not None:
            tl.store(mean_ptr + row, mean)
        if rstd_ptr is not None:
            tl.store(rstd_ptr + row, rstd)


@tile.jit
def store_scaled(y_ptr, normal, weight_ptr, bias_ptr, column, inside):
    """Store y = normal * weight + bias. All programs read these two, and x once."""
    y = normal * tl.load(weight_ptr + column, mask=inside, eviction_policy="evict_last")
    if bias_ptr is not None:
        y += tl.load(bias_ptr + column, mask=inside, eviction_policy="evict_last")
    tl.store(y_ptr + column, y, mask=inside)
