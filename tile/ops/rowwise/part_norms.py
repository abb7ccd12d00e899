"""The kernel of layer and RMS normalization of long rows whose parts programs hold (row_parts.py).

Programs of a cluster exchange means and sums of squares of their parts (cluster_sums.py).
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.device_functions import widen
from tile.ops.core.tables import ANY, Table
from tile.ops.rowwise.cluster_sums import moments_of_parts, of_cluster
from tile.ops.rowwise.row_parts import (
    added,
    less,
    load_tiles,
    part_of,
    sum_of_tiles,
    tile_of,
    widened,
    widened_again,
)
from tile.ops.rowwise.row_sums import SAMPLE, add_2

# By CENTERED, the length and the bytes of an element; an empty entry is for other kernels. H200,
# 2026-11-30, us, by two tiles a part in registers, or read twice, and so: layer norm, float16, 8192
# x 14000 137 and 112, 4096 x 24000 110.2 and 96.3, x 32000 146.5 and 129.5, x 40000 184 and 167, x
# 50256 263 and 214, 2048 x 65536 157 and 137; float32, 8192 x 14000 249 and 222, 4096 x 32000 263.8
# and 258.3, 2560 x 50256 299 and 271, 2048 x 65536 285 and 277. RMS norm, float16, 8192 x 14000 120
# and 111, 4096 x 24000 100.9 and 96, x 32000 133.5 and 127.6, 2560 x 50256 137.7 and 129.6, 2048 x
# 65536 139 and 132.5; float32, 8192 x 14000 254 and 223, 2048 x 65536 264.3 and 261.5. Then, before
# and so: RMS norm, float16, 2560 x 45000 121.2 and 115.8, x 50256 130.2 and 128.8, 2048 x 53256
# 118 and 111; layer norm, float32, 2048 x 60000 262 and 254.
SAMPLED = {"BLOCK": 4096, "SAMPLE": SAMPLE}
PARTS = Table(
    {(ANY, ANY, ANY): {}},
    {
        "nvptx": {
            (ANY, 8192, ANY): {},
            (0, 12288, 2): {"BLOCK": 4096, "num_warps": 8},
            (ANY, 10240, 2): {**SAMPLED, "BLOCK": 2048, "num_warps": 8, "maxnreg": 80},
            (ANY, 12288, 2): {**SAMPLED, "num_warps": 8, "maxnreg": 80},
            (0, 12288, 4): {"BLOCK": 4096, "num_warps": 16},
            (0, 16383, 4): {"BLOCK": 4096, "num_warps": 16, "maxnreg": 64},
            (0, 16383, 2): {"BLOCK": 4096, "num_warps": 16, "maxnreg": 64},
            (0, 16384, ANY): {},
            (ANY, 14336, 2): {**SAMPLED, "BLOCK": 2048, "num_warps": 8, "maxnreg": 80},
            (ANY, 16383, 2): {
                **SAMPLED,
                "BLOCK": 2048,
                "PACKED": True,
                "num_warps": 8,
                "maxnreg": 64,
            },
            (ANY, 16384, 2): {},
            (0, 20480, 2): {"BLOCK": 4096, "num_warps": 16, "maxnreg": 64},
            (0, 20480, 4): {},
            (ANY, 20480, 2): {**SAMPLED, "num_warps": 16, "maxnreg": 64},
            (ANY, 20480, 4): {"BLOCK": 4096, "num_warps": 16, "maxnreg": 64},
            (0, 32767, 2): {"BLOCK": 4096, "PACKED": True, "num_warps": 16, "maxnreg": 64},
            (0, 32768, 2): {},
            (0, 24576, 4): {"SIZE": 2, "BLOCK": 4096, "num_warps": 8},
            (0, 32768, 4): {"SIZE": 2, "BLOCK": 8192, "num_warps": 8},
            (ANY, 32768, 2): {**SAMPLED, "PACKED": True, "num_warps": 16, "maxnreg": 64},
            (ANY, 32768, 4): {"SIZE": 4, "BLOCK": 2048, "num_warps": 4},
            (0, 57344, 2): {
                "SIZE": 4,
                "BLOCK": 2048,
                "PACKED": True,
                "num_warps": 8,
                "maxnreg": 64,
            },
            (0, 65536, 2): {"SIZE": 8, "BLOCK": 2048, "num_warps": 4, "maxnreg": 40},
            (ANY, 36864, 2): {**SAMPLED, "num_warps": 16, "maxnreg": 64},
            (ANY, 57344, 2): {**SAMPLED, "BLOCK": 8192, "num_warps": 16, "maxnreg": 64},
            (ANY, 65536, 2): {"SIZE": 4, "BLOCK": 4096, "num_warps": 8, "maxnreg": 40},
            (ANY, 57344, 4): {"SIZE": 8, "BLOCK": 1024, "num_warps": 4},
            (0, 65536, 4): {"SIZE": 8, "BLOCK": 4096, "num_warps": 8, "maxnreg": 64},
            (ANY, 65536, 4): {"SIZE": 8, "BLOCK": 2048, "num_warps": 8, "maxnreg": 64},
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
    COUNT: tl.constexpr,
    BLOCK: tl.constexpr,
    SAMPLE: tl.constexpr = 0,
    PACKED: tl.constexpr = False,
):
    """SAMPLE: of a part, for one exchange of sums (row_sums.py), or 0.

    PACKED: registers hold elements of 16 bits as these.
    """
    NARROW: tl.constexpr = x_ptr.dtype.element_ty.primitive_bitwidth < 32
    row, start, count = part_of(length, SIZE, PART)
    x_ptr += row * x_stride + start
    y_ptr += row * y_stride + start
    # Earlier, 98 registers instead of 110 for 49 elements of float32, and RMS norm of 4608 x 33000,
    # float16, takes 153 us instead of 157; but of 50256, float32, 88 registers instead of 80.
    if CENTERED or PACKED:
        weight_ptr += start
    if bias_ptr is not None:
        bias_ptr += start
    # Where the row takes registers, L1 is left to the weight and the bias.
    x = load_tiles(x_ptr, count, COUNT, BLOCK, CACHE=".cg" if PACKED and SIZE == 1 else "")
    mean = 0.0
    if CENTERED:
        if SAMPLE:
            first = tl.load(x_ptr + tl.arange(0, SAMPLE))
            mean = tl.sum(widen(first), axis=0) * (1.0 / SAMPLE)
        else:
            mean = sum_of_tiles(widened(x)) / count
    distances = x[:0]
    squares = x[:0]
    for at in tl.static_range(COUNT):
        distances += (less(x[at], mean, 0.0, at, count, COUNT, BLOCK),)
        squares += (distances[at] * distances[at],)
    apart = 0.0
    if CENTERED and SAMPLE:
        apart, square = tl.reduce((added(distances), added(squares)), 0, add_2)
        apart /= count
        square = tl.maximum(square - apart * apart * count, 0.0)
    else:
        square = sum_of_tiles(squares)
    if SIZE > 1:
        if CENTERED:
            further, square = moments_of_parts(mean + apart, square, length, SIZE, PART)
            apart += further
        else:
            (square,) = of_cluster((square,), SIZE)
    rstd = 1.0 / tl.sqrt(square / length + EPS)
    if PACKED:
        x = widened_again(x, rstd)
    if not (CENTERED or PACKED):
        weight_ptr += start
    for at in tl.static_range(COUNT):
        column, inside = tile_of(at, count, COUNT, BLOCK)
        if NARROW:  # one instruction less, with an error that is far below that of the elements
            y = widen(x[at]) * rstd - (mean + apart) * rstd if CENTERED else widen(x[at]) * rstd
        else:
            y = (distances[at] - apart) * rstd
        # All programs read the weight and the bias, and x once.
        y *= tl.load(weight_ptr + column, mask=inside, eviction_policy="evict_last")
        if bias_ptr is not None:
            y += tl.load(bias_ptr + column, mask=inside, eviction_policy="evict_last")
        tl.store(y_ptr + column, y, mask=inside)
    if start == 0:
        if mean_ptr is not None:
            tl.store(mean_ptr + row, mean + apart)
        if rstd_ptr is not None:
            tl.store(rstd_ptr + row, rstd)
