"""Group normalization where a program holds a group of channels in registers, and reads it once.

Other groups are read twice: for the moments (moments.py), and to normalize (normalization.py).
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.channels.views import Channels
from tile.ops.core.call import Call, Operand, accumulator
from tile.ops.core.call_plans import launch
from tile.ops.core.device_functions import widen
from tile.ops.core.new_arrays import DType

MOST = 32768  # elements of a tile: 32 for each of 32 warps' 1024 threads
THREAD = 32  # elements
LEAST_ADJACENT = 20  # bytes of a group's adjacent channels; H200, 2026-11-30 (docs/notes/ops.md)


@tile.jit
def group_norm_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
    y_ptr,
    mean_ptr,
    variance_ptr,
    x_strides,
    y_strides,
    groups,
    per_group,
    length,
    EPS: tl.constexpr,
    CHANNELS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    n = (tl.program_id(0) // groups).to(tl.int64)
    first = tl.program_id(0) % groups * per_group
    lane, item = tl.arange(0, CHANNELS)[:, None], tl.arange(0, BLOCK)[None, :]
    exists = lane < per_group
    inside = exists & (item < length)
    channel, i = (first + lane).to(tl.int64), item.to(tl.int64)
    at = n * x_strides[0] + channel * x_strides[1] + i * x_strides[2]
    x = widen(tl.load(x_ptr + at, mask=inside, other=0.0))
    mean = tl.sum(x) / (per_group * length)
    x = tl.where(inside, x - mean, 0.0)
    variance = tl.sum(x * x) / (per_group * length)
    tl.store(mean_ptr + tl.program_id(0), mean)
    tl.store(variance_ptr + tl.program_id(0), variance)
    scale = widen(tl.load(weight_ptr + channel, mask=exists, other=0.0)) / tl.sqrt(variance + EPS)
    bias = widen(tl.load(bias_ptr + channel, mask=exists, other=0.0))
    at = n * y_strides[0] + channel * y_strides[1] + i * y_strides[2]
    tl.store(y_ptr + at, x * scale + bias, mask=inside)


def group_tile(x: Channels, groups: int, dtype: DType) -> tuple[int, int] | None:
    """Return the channels and the elements of a group's tile, or None if it is too large.

    Also None if a group's channels are adjacent in memory, and so few that programs read parts of
    sectors.
    """
    per_group = x.shape[1] // groups
    tiles = tile.next_power_of_2(per_group), tile.next_power_of_2(x.shape[2])
    if dtype.itemsize > 4 or tiles[0] * tiles[1] > MOST:
        return None
    scattered = x.channels_last and x.shape[2] > 1
    return None if scattered and per_group * dtype.itemsize < LEAST_ADJACENT else tiles


def launch_group_norm(
    call: Call,
    x: Channels,
    y: Channels,
    vectors: tuple[Any, Any],
    groups: int,
    eps: float,
    shape: tuple[int, int],
    dtype: DType,
) -> tuple[Operand, Operand]:
    """Write the normalization of x to y by tiles of a shape; return means and variances of groups.

    vectors: weight and bias.
    """
    batches, channels, length = x.shape
    mean, variance = (call.new((batches, groups), accumulator(dtype)) for _ in range(2))
    warps = min(32, max(1, shape[0] * shape[1] // (32 * THREAD)))
    launch(group_norm_kernel, (batches * groups,))(
        *(x.value, *vectors, y.value, mean.value, variance.value),
        *(x.strides, y.strides, groups, channels // groups, length),
        EPS=eps,
        CHANNELS=shape[0],
        BLOCK=shape[1],
        num_warps=warps,
    )
    return mean, variance
