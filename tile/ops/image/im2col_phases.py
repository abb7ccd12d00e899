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
from tile.ops.core.call import Call
from tile.ops.core.call_plans import launch
from tile.ops.core.new_arrays import DType
from tile.ops.image.convolution_matmul import Convolution
from tile.ops.image.im2col_configuration import im2col_configuration
from tile.ops.image.im2col_phases_kernel import im2col_phases_kernel
from tile.ops.image.im2col_windows import MOST_MOVE, upper_corner
from tile.ops.image.images import Image
from tile.ops.image.phases import Phase
from tile.ops.image.windows import Pair, Windows

# Loops over some elements of the filters are short, so that a second program on a multiprocessor
# hides more than stages do; not measured.
MOST_STAGES = {"nvptx": 3}


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
        filters.operand,
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
