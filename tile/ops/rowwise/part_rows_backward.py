"""Gradients of long rows that need one sum over the row, whose parts programs hold (row_parts.py).

    dx[i] = GRADIENT(dy[i], y[i], sum over j of TERM(dy[j], y[j]))

Programs of a cluster exchange the sums of their parts.
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.device_functions import widen
from tile.ops.core.tables import ANY, Table
from tile.ops.rowwise.cluster_sums import of_cluster
from tile.ops.rowwise.row_parts import (
    load_tiles,
    part_of,
    sum_of_tiles,
    tile_of,
    vectors_of_part,
    widened_again,
)

# By the length and the bytes of an element; an empty entry is for other kernels. H200, 2026-12-01,
# us, of rows read twice or held by one program, and so: bfloat16, 8192 x 10001 151 and 112, x 12288
# 151 and 139, 4096 x 20000 120 and 112, x 50257 337 and 283, 1024 x 128257 287 and 184; float32,
# 8192 x 10001 249 and 227, 4096 x 30522 370 and 345, x 50257 777 and 565, 2048 x 65536 565 and 371.
PARTS = Table(
    {(ANY, ANY): {}},
    {
        "nvptx": {
            (8192, ANY): {},
            (12288, 2): {"SIZE": 4, "BLOCK": 1024, "num_warps": 4},
            (30720, 2): {"SIZE": 4, "BLOCK": 2048, "num_warps": 8},
            (32768, 2): {"SIZE": 8, "BLOCK": 2048, "num_warps": 8},
            (65536, 2): {"SIZE": 8, "BLOCK": 4096, "num_warps": 8},
            (131072, 2): {"SIZE": 8, "BLOCK": 4096, "num_warps": 16, "maxnreg": 64},
            (10240, 4): {"SIZE": 4, "BLOCK": 1024, "num_warps": 4},
            (20480, 4): {"SIZE": 8, "BLOCK": 1024, "num_warps": 4},
            (32768, 4): {"SIZE": 4, "BLOCK": 2048, "num_warps": 16},
            (65536, 4): {"SIZE": 8, "BLOCK": 2048, "num_warps": 8, "maxnreg": 96},
            (131072, 4): {"SIZE": 8, "BLOCK": 4096, "num_warps": 16},
            (ANY, ANY): {},
        }
    },
)


@tile.jit
def part_rows_backward_kernel(
    dy_ptr,
    y_ptr,
    dx_ptr,
    dy_stride,
    y_stride,
    dx_stride,
    length,
    TERM: tl.constexpr,
    GRADIENT: tl.constexpr,
    SIZE: tl.constexpr,
    PART: tl.constexpr,
    COUNT: tl.constexpr,
    BLOCK: tl.constexpr,
    VECTOR: tl.constexpr = 1,
):
    """VECTOR: elements of a vector, if not all rows begin with one.

    The first program of a row has its other elements.
    """
    NARROW: tl.constexpr = dy_ptr.dtype.element_ty.primitive_bitwidth < 32
    row, start, count = part_of(length, SIZE, PART)
    if VECTOR > 1:
        vectors = vectors_of_part(row, start, dy_stride, length, PART, VECTOR)
        first, count, place, outside = vectors
        dy_ptr += first
        y_ptr += first
        dx_ptr += first
        dy_rest = widen(tl.load(dy_ptr + place, mask=outside, other=0.0))
        y_rest = widen(tl.load(y_ptr + place, mask=outside, other=0.0))
        rest_ptr = dx_ptr + place
    else:
        dy_ptr += row * dy_stride
        y_ptr += row * y_stride
        dx_ptr += row * dx_stride
    dx_ptr += start
    dy = load_tiles(dy_ptr + start, count, COUNT, BLOCK)
    y = load_tiles(y_ptr + start, count, COUNT, BLOCK)
    terms = dy[:0]
    for at in tl.static_range(COUNT):
        terms += (TERM(widen(dy[at]), widen(y[at])),)
    total = sum_of_tiles(terms)
    if VECTOR > 1:
        total += tl.sum(TERM(dy_rest, y_rest), axis=0)
    if SIZE > 1:
        (total,) = of_cluster((total,), SIZE)
    if NARROW:
        dy = widened_again(dy, total)
        y = widened_again(y, total)
    for at in tl.static_range(COUNT):
        column, inside = tile_of(at, count, COUNT, BLOCK)
        tl.store(dx_ptr + column, GRADIENT(widen(dy[at]), widen(y[at]), total), mask=inside)
    if VECTOR > 1:
        tl.store(rest_ptr, GRADIENT(dy_rest, y_rest, total), mask=outside)
