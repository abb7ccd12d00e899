"""Copies of images and filters whose channels are the last axis, as TMA loads them.

A copy reads and writes an operand once, where a window uses each element often. Where channels are
planes it transposes; zeros fill channels up to a multiple of an iteration's; and filters of several
groups become those of one, with zeros for the channels of the others, so that few channels a group
are enough for a dot.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import tile
import tile.language as tl
from tile.ops.core.call import Call
from tile.ops.core.call_plans import launch
from tile.ops.core.new_arrays import DType
from tile.ops.image.images import Four, Image

ELEMENTS, PIXELS, WARPS = 2048, 64, 4  # of a program's tile (docs/notes/ops.md)


@tile.jit
def copy_tile(image, program, LINEAR: tl.constexpr, PIXELS: tl.constexpr, BLOCK: tl.constexpr):
    """Copy pixels and channels of an image, and write zeros where it has none.

    LINEAR: the pixels of an image are one stride apart.
    """
    source, target, start, strides, target_strides, extents, target_extents, moves = image
    left, count, group_step, merged = moves
    height, width, channels = target_extents
    blocks, rows = tl.cdiv(channels, BLOCK), tl.cdiv(height * width, PIXELS)
    n, part = program // (blocks * rows), program % (blocks * rows)
    pixel = part // blocks * PIXELS + tl.arange(0, PIXELS)[:, None]
    column = part % blocks * BLOCK + tl.arange(0, BLOCK)[None, :]
    group = n // count
    source += start + group.to(tl.int64) * group_step + (n % count).to(tl.int64) * strides[0]
    target += n.to(tl.int64) * target_strides[0]
    channel = column - group % merged * extents[1]
    inside = (channel >= 0) & (channel < extents[1])
    if LINEAR:
        at, to = pixel.to(tl.int64) * strides[2], pixel.to(tl.int64) * target_strides[2]
        inside = inside & (pixel < height * width)
    else:
        h, w = pixel // width, pixel % width
        to = h.to(tl.int64) * target_strides[1] + w.to(tl.int64) * target_strides[2]
        w -= left
        at = h.to(tl.int64) * strides[1] + w.to(tl.int64) * strides[2]
        inside = inside & (w >= 0) & (w < extents[0]) & (h < height)
    x = tl.load(source + at + channel.to(tl.int64) * strides[3], mask=inside, other=0.0)
    written = (pixel < height * width) & (column < channels)
    tl.store(target + to + column.to(tl.int64) * target_strides[3], x, mask=written)


@tile.jit
def copy_images_kernel(one, other, one_programs, ONE: tl.constexpr, OTHER: tl.constexpr):
    """Copy a tile of one image, or of the other. ONE, OTHER: the constants of `copy_tile`."""
    program = tl.program_id(0)
    if other is None or program < one_programs:
        copy_tile(one, program, ONE[0], ONE[1], ONE[2])
    else:
        copy_tile(other, program - one_programs, OTHER[0], OTHER[1], OTHER[2])


@dataclass(frozen=True)
class Copy:
    """A copy of an image; its width may have zeros at the left and right, and its channels after.

    per_group, group_step: of filters, those of a group, and the distance of groups in elements.
    merged: groups that become one.
    """

    source: Image
    target: Image
    left: int = 0
    per_group: int = 0
    group_step: int = 0
    merged: int = 1

    @property
    def linear(self) -> bool:
        """True if the pixels of an image are one stride apart in both."""
        width = self.target.shape[2]
        return width == self.source.shape[2] and all(
            one.strides[1] == width * one.strides[2] for one in (self.source, self.target)
        )

    @property
    def tile(self) -> tuple[int, int]:
        """The pixels and the channels of a program's tile."""
        _, height, width, channels = self.target.shape
        pixels, channels = (tile.next_power_of_2(n) for n in (height * width, channels))
        block = min(channels, ELEMENTS // min(pixels, PIXELS))
        return min(pixels, ELEMENTS // block), block

    @property
    def programs(self) -> int:
        (batches, height, width, channels), (pixels, block) = self.target.shape, self.tile
        return batches * tile.cdiv(height * width, pixels) * tile.cdiv(channels, block)

    @property
    def arguments(self) -> tuple[object, ...]:
        """The first argument of `copy_tile`."""
        source, target = self.source, self.target
        (_, _, across, inputs), (batches, height, width, channels) = source.shape, target.shape
        if self.linear:  # as one row
            across = width = height * width
            height = 1
        moves = self.left, self.per_group or batches, self.group_step, self.merged
        return (
            *(source.value, target.value, source.start, source.strides, target.strides),
            *((across, inputs), (height, width, channels), moves),
        )


def copy_images(*copies: Copy) -> None:
    """Copy one or two images by one launch."""
    one, *others = copies
    other = others[0] if others else None
    launch(copy_images_kernel, (sum(copy.programs for copy in copies),), dependent=True)(
        *(one.arguments, other.arguments if other else None, one.programs),
        ONE=(one.linear, *one.tile),
        OTHER=(other.linear, *other.tile) if other else None,
        num_warps=WARPS,
    )


def viewed(image: Image, shape: Four, strides: Four) -> Image:
    """Return the memory of an image as one of another shape."""
    return Image(replace(image.operand, shape=shape, strides=strides), shape, strides)


def new_image(call: Call, shape: Four, dtype: DType) -> Image:
    """Return a new image whose channels are contiguous."""
    _, h, w, c = shape
    return Image(call.new(shape, dtype), shape, (h * w * c, w * c, c, 1))


def copied(call: Call, dtype: DType, *images: Image) -> list[Image]:
    """Return copies of one or two images whose channels are contiguous."""
    copies = [Copy(image, new_image(call, image.shape, dtype)) for image in images]
    copy_images(*copies)
    return [copy.target for copy in copies]
