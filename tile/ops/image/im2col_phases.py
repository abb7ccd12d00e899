"""The gradient of the image of a strided convolution in one launch, with pixels that TMA copies.

Phases (phases.py) differ in the elements of the filters that they have, and in where
their windows begin. All have the pixels of the same im2col descriptor: its windows begin where the
first of all do, and a phase moves the pixels by the distance to its own. So a phase is a program
axis. Programs of phases with the most elements come first, so that no long one is last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tile
import tile.language as tl
from tile.ops.core.call import Call
from tile.ops.core.call_plans import launch
from tile.ops.core.new_arrays import DType
from tile.ops.image.convolution_matmul import Convolution
from tile.ops.image.im2col_convolution import im2col_configuration
from tile.ops.image.im2col_windows import MOST_MOVE, upper_corner
from tile.ops.image.images import Image
from tile.ops.image.phases import Phase
from tile.ops.image.pixels import pixel_position
from tile.ops.image.windows import Pair, Windows
from tile.ops.linear.matmul_tiles import tile_position

# Loops over some elements of the filters are short, so that a second program on a multiprocessor
# hides more than stages do; not measured.
MOST_STAGES = {"nvptx": 3}


@tile.jit
def phase_at(number, PHASES: tl.constexpr):
    """Return the entry `number` of a table."""
    first, count, start, move = PHASES[0]
    for i in tl.static_range(1, len(PHASES)):
        first = tl.where(number == i, PHASES[i][0], first)
        count = tl.where(number == i, PHASES[i][1], count)
        start = tl.where(number == i, PHASES[i][2], start)
        move = tl.where(number == i, PHASES[i][3], move)
    return first, count, start, move


@tile.jit
def im2col_phases_kernel(
    dy_ptr,
    filters_ptr,
    bias_ptr,
    dx_ptr,
    batches,
    height,
    width,
    rows,
    columns,
    dx_height,
    dx_width,
    channels,
    dy_strides,
    filters_start,
    filters_strides,
    dx_start,
    dx_strides,
    LOWER: tl.constexpr,
    UPPER: tl.constexpr,
    STEP: tl.constexpr,
    APART: tl.constexpr,
    FILTER_STEP: tl.constexpr,
    DOWN: tl.constexpr,
    RIGHT: tl.constexpr,
    DENSE: tl.constexpr,
    INNER: tl.constexpr,
    PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    """Write the pixels of a phase, of which there are at most rows x columns in an image.

    INNER: the channels of dy. DOWN, RIGHT: of each phase of an axis its first pixel, the number of
    elements of the filters, the last of these, and the distance of its windows to `LOWER`.
    """
    pixels = batches * rows * columns
    tile_row, tile_column = tile_position(pixels, channels, BLOCK_M, BLOCK_N, GROUP)
    top, down_count, down_start, down_move = phase_at(tl.program_id(1) // len(RIGHT), DOWN)
    left, right_count, right_start, right_move = phase_at(tl.program_id(1) % len(RIGHT), RIGHT)
    dy = tl.make_im2col_descriptor(
        dy_ptr,
        [batches, height, width, INNER],
        [dy_strides[0], dy_strides[1], dy_strides[2], 1],
        [BLOCK_M, BLOCK_K],
        LOWER,
        UPPER,
    )
    row, r_stride, s_stride = filters_strides
    if DENSE:
        filters = tl.make_tensor_descriptor(
            filters_ptr, [channels, row], [row, 1], [BLOCK_N, BLOCK_K]
        )
    else:
        filters = tl.make_tensor_descriptor(filters_ptr, [INNER, row], [row, 1], [BLOCK_K, BLOCK_N])
    filters_start += down_start * r_stride + right_start * s_stride
    first_pixel, first_channel = tile_row * BLOCK_M, tile_column * BLOCK_N
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, down_count * right_count * INNER, BLOCK_K):
        position, inner = k // INNER, k % INNER
        r, s = position // right_count, position % right_count
        a = dy.load([first_pixel, inner], [down_move + r * APART[0], right_move + s * APART[1]])
        at = filters_start - r * FILTER_STEP[0] * r_stride - s * FILTER_STEP[1] * s_stride
        if DENSE:
            b = filters.load([first_channel, at + inner]).T
        else:
            b = filters.load([inner, at + first_channel])
        total = tl.dot(a, b, total, input_precision=PRECISION)
    pixel = first_pixel + tl.arange(0, BLOCK_M)[:, None]
    channel = first_channel + tl.arange(0, BLOCK_N)[None, :]
    if bias_ptr is not None:
        total += tl.load(bias_ptr + channel, mask=channel < channels, other=0.0)
    n, h, w = pixel_position(pixel, rows, columns)
    h, w = top + h * STEP[0], left + w * STEP[1]
    at = n * dx_strides[0] + h.to(tl.int64) * dx_strides[1] + w.to(tl.int64) * dx_strides[2]
    inside = (pixel < pixels) & (h < dx_height) & (w < dx_width) & (channel < channels)
    dx = dx_ptr + dx_start + at + channel * dx_strides[3]
    tl.store(dx, total.to(dx_ptr.dtype.element_ty), mask=inside)


def im2col_phases(
    call: Call,
    dy: Image,
    filters: Image,
    bias: Any,
    dx: Image,
    axes: Sequence[Sequence[Phase]],
    step: Pair,
    dtype: DType,
    precision: str,
) -> bool:
    """Write the gradient of an image if TMA copies the pixels of all its phases; return True then.

    axes: the phases of height and of width.
    """
    (k, r, s, c), (down, right) = filters.strides, map(_Axis, axes)
    weights = Image(
        filters.value,
        (filters.shape[3], down.count, right.count, filters.shape[0]),
        (c, r, s, k),
        filters.start,
    )
    windows = Windows(
        (down.count, right.count), (down.lower, right.lower), (1, 1), (down.apart, right.apart)
    )
    part = dx.phase((0, 0), step, (down.size, right.size))
    conv = Convolution(*(call, dy, weights, bias, part, windows, 1, 0, dtype), precision=precision)
    count = len(down.phases) * len(right.phases)
    config = im2col_configuration(conv, count)
    if config is None or max(down.reach, right.reach) > MOST_MOVE:
        return False
    most = MOST_STAGES.get(call.backend)
    if most:
        config = {**config, "num_stages": min(most, config["num_stages"])}
    pixels, channels, _ = conv.sizes
    tiles = tile.cdiv(pixels, config["BLOCK_M"]) * tile.cdiv(channels, config["BLOCK_N"])
    dense = k == 1
    launch(im2col_phases_kernel, (tiles, count))(
        *(*conv.arrays, *dy.shape[:3], *part.shape[1:3], *dx.shape[1:], dy.strides),
        *(filters.start, (c if dense else k, r, s), dx.start, dx.strides),
        LOWER=windows.first,
        UPPER=upper_corner(windows, dy, part),
        STEP=step,
        APART=windows.apart,
        FILTER_STEP=(down.filter_step, right.filter_step),
        DOWN=down.table,
        RIGHT=right.table,
        DENSE=dense,
        INNER=dy.shape[3],
        PRECISION=precision,
        **config,
    )
    return True


class _Axis:
    """The phases of an axis, by windows that go to the right and below, as `ahead` has them."""

    def __init__(self, phases: Sequence[Phase]) -> None:
        some = [phase for phase in phases if phase.count]
        self.phases = sorted(phases, key=lambda phase: -phase.count)
        self.count = self.phases[0].count
        self.size = max(phase.size for phase in phases)
        self.apart, self.filter_step = -phases[0].apart, phases[0].r_step
        self.lower = min((phase.last for phase in some), default=0)
        self.reach = max((phase.origin for phase in some), default=0) - self.lower

    @property
    def table(self) -> tuple[tuple[int, int, int, int], ...]:
        """The phases as `phase_at` takes them."""
        return tuple(
            (p.first, p.count, p.last_r, p.last - self.lower if p.count else 0) for p in self.phases
        )
