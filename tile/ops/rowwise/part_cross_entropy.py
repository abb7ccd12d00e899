"""Cross entropy of rows that a program holds as several tiles (row_parts.py), and its gradient.

With m = max_j x[j] and s = loss + x[target]:

    loss = m + log sum_j exp(x[j] - m) - x[target]
    dx[j] = dloss * (exp(x[j] - s) - (j == target))
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.device_functions import widen
from tile.ops.core.row_vectors import vectors_of
from tile.ops.rowwise.labels import target_of
from tile.ops.rowwise.part_softmax import maximum_of
from tile.ops.rowwise.row_parts import less, load_tiles, part_of, sum_of_tiles, tile_of
from tile.ops.rowwise.running_sums import with_block


@tile.jit
def part_cross_entropy_kernel(
    x_ptr,
    target_ptr,
    loss_ptr,
    stride,
    classes,
    IGNORED: tl.constexpr,
    SIZE: tl.constexpr,
    PART: tl.constexpr,
    COUNT: tl.constexpr,
    BLOCK: tl.constexpr,
    VECTOR: tl.constexpr = 1,
):
    """VECTOR: elements of a vector, if not all rows begin with one."""
    row, _, count = part_of(classes, SIZE, PART)
    first = row * stride
    if VECTOR > 1:
        first, count, place, outside = vectors_of(row, stride, classes, VECTOR)
        rest = widen(tl.load(x_ptr + (first + place), mask=outside, other=-float("inf")))
    x = load_tiles(x_ptr + first, count, COUNT, BLOCK)
    target, used = target_of(target_ptr, row, True, classes, IGNORED)
    right = widen(tl.load(x_ptr + row * stride + target, mask=used, other=0.0))
    most = maximum_of(x, count, COUNT, BLOCK)
    origin = tl.where(most == -float("inf"), 0.0, most)  # -inf - -inf would be NaN
    powers = x[:0]
    for at in tl.static_range(COUNT):
        powers += (tl.exp(less(x[at], origin, float("inf"), at, count, COUNT, BLOCK)),)
    total = sum_of_tiles(powers)
    if VECTOR > 1:
        most, total = with_block(most, total, rest)
    tl.store(loss_ptr + row, tl.where(used, most + tl.log(total) - right, 0.0))


@tile.jit
def part_cross_entropy_backward_kernel(
    dloss_ptr,
    x_ptr,
    target_ptr,
    loss_ptr,
    dx_ptr,
    x_stride,
    dx_stride,
    classes,
    IGNORED: tl.constexpr,
    SIZE: tl.constexpr,
    PART: tl.constexpr,
    COUNT: tl.constexpr,
    BLOCK: tl.constexpr,
    VECTOR: tl.constexpr = 1,
):
    """VECTOR: elements of a vector, if not all rows begin with one; strides are equal then."""
    row, _, count = part_of(classes, SIZE, PART)
    first, dx_first = row * x_stride, row * dx_stride
    if VECTOR > 1:
        first, count, place, outside = vectors_of(row, x_stride, classes, VECTOR)
        dx_first = first
        rest = tl.load(x_ptr + (first + place), mask=outside, other=0.0)
    x = load_tiles(x_ptr + first, count, COUNT, BLOCK)
    target, used = target_of(target_ptr, row, True, classes, IGNORED)
    right = widen(tl.load(x_ptr + row * x_stride + target, mask=used, other=0.0))
    log_sum = tl.load(loss_ptr + row) + right
    dloss = tl.load(dloss_ptr + row)
    right_place = (target + (row * x_stride - first)).to(tl.int32)
    dx_ptr += dx_first
    for at in tl.static_range(COUNT):
        column, inside = tile_of(at, count, COUNT, BLOCK)
        dx = share_of(x[at], column, log_sum, right_place, dloss, used)
        tl.store(dx_ptr + column, dx, mask=inside)
    if VECTOR > 1:
        dx = share_of(rest, place, log_sum, right_place, dloss, used)
        tl.store(dx_ptr + place, dx, mask=outside)


@tile.jit
def share_of(x, column, log_sum, right_place, dloss, used):
    """Return the gradient of logits; `right_place` is the column of the right class."""
    share = tl.exp(widen(x) - log_sum) - tl.where(column == right_place, 1.0, 0.0)
    return tl.where(used, dloss * share, 0.0)
