"""Im2col descriptors: the pixels of images under a filter, as rows of a matrix.

    x = tl.make_im2col_descriptor(
        x_ptr, [N, H, W, C], [H * W * C, W * C, C, 1], block_shape=[64, 32],
        pixel_box_lower_corner=[-1, -1], pixel_box_upper_corner=[-1, -1],
    )
    for r in range(3):
        for s in range(3):
            total = tl.dot(x.load([pixel, channel], [r, s]), ...)

With a padding of 1 and filters of 3 x 3, an image has as many pixels as the result. Row m of the
matrix is pixel m of all images, in row-major order; moved by (r, s) it is what element (r, s) of a
filter is multiplied with.

An access is one through a tile of pointers with a mask, and states its structure, so that it can
become a TMA load (PTX ISA, "im2col mode").
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from itertools import chain
from typing import Any

from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.ir.core import Value
from tile.ir.descriptor_type import Descriptor
from tile.ir.ops import arith, descriptor, memory, shape
from tile.ir.types import I32, I64, U32, Scalar, Tile, with_element
from tile.language.base.builtin import builtin
from tile.language.base.promotion import Operand, describe
from tile.language.base.static_args import compile_time_shape, constant_value
from tile.language.base.tensor import Im2colDescriptor, Im2colWindow, Tensor
from tile.language.descriptor import (
    integer,
    narrow,
    pointed_element,
    require_contiguous,
    require_each,
    stride_multiple,
)
from tile.language.operators import binary, compare

MAKE = "tl.make_im2col_descriptor"
LOAD = "tl.load_im2col"


@builtin
def make_im2col_descriptor(
    build: Builder,
    base: Tensor,
    shape: Sequence[Operand],
    strides: Sequence[Operand],
    block_shape: Sequence[int],
    pixel_box_lower_corner: Sequence[int],
    pixel_box_upper_corner: Sequence[int],
    element_strides: Sequence[int] | None = None,
) -> Im2colDescriptor:
    """Describe the pixels of the images at `base`, whose axes are images, 1 to 3 spatial, channels.

    `shape` and `strides` are the array's, in elements. The last stride is 1; the other strides and
    the address are multiples of 16 bytes. `block_shape` is (pixels, channels), two compile-time
    powers of two.

    The pixels of an image are those from index `pixel_box_lower_corner` to the last index plus
    `pixel_box_upper_corner`, along each spatial axis, in steps of `element_strides`, which has one
    number for each axis, 1 for the first and last (None: all 1). For a convolution with padding p,
    filters of extent R and dilation d these are -p, p - (R - 1) * d and its stride. All are
    compile-time integers.

    The result has the method `load(offsets, filter_offsets)` (`tl.load_im2col`) and the attributes
    `dtype` and `block_shape`. Raises `CompilationError` for arguments that violate these rules.
    """
    element = pointed_element(MAKE, base)
    lower = compile_time_shape(pixel_box_lower_corner, f"the pixel_box_lower_corner of {MAKE}")
    upper = compile_time_shape(pixel_box_upper_corner, f"the pixel_box_upper_corner of {MAKE}")
    spatial = len(lower)
    if not 1 <= spatial <= 3 or len(upper) != spatial:
        raise CompilationError(
            f"the corners of {MAKE} have {spatial} and {len(upper)} numbers; both have one for "
            "each of 1 to 3 spatial axes"
        )
    _require_each(f"the shape of {MAKE}", shape, spatial + 2)
    _require_each(f"the strides of {MAKE}", strides, spatial + 2)
    block = _block(block_shape, element)
    window = Im2colWindow(block, lower, upper, _steps(element_strides, spatial), element)
    *outer, last = strides
    require_contiguous(MAKE, last, "channels")
    most = I32.max_value
    return Im2colDescriptor(
        Tensor(_multiple(build, base.value, Descriptor.ALIGNMENT)),
        tuple(narrow(build, x, f"an extent in the shape of {MAKE}", most) for x in shape),
        tuple(_stride(build, x, element, axis) for axis, x in enumerate(outer)),
        window,
    )


@builtin
def load_im2col(
    build: Builder,
    desc: Im2colDescriptor,
    offsets: Sequence[Operand],
    filter_offsets: Sequence[Operand],
) -> Tensor:
    """Read a block of pixels and channels through an im2col descriptor.

    Also `desc.load(offsets, filter_offsets)`. `offsets` are the number of the first pixel, counted
    through all images, and its first channel; `filter_offsets` move each pixel along the spatial
    axes, by 0 to 65535 for one axis, 255 for two and 31 for three. Elements outside the array are
    zero.
    """
    if not isinstance(desc, Im2colDescriptor):
        raise CompilationError(f"{LOAD} takes an im2col descriptor, not {describe(desc)}")
    spatial = len(desc.window.lower)
    _require_each(f"the offsets of {LOAD}", offsets, 2)
    _require_each(f"the filter_offsets of {LOAD}", filter_offsets, spatial)
    low = I32.min_value
    row, channel = (narrow(build, x, f"an offset of {LOAD}", low) for x in offsets)
    moves = [_move(build, x, spatial) for x in filter_offsets]
    return _Load(build, desc).block(row, channel, moves)


class _Load:
    """A load through a descriptor."""

    def __init__(self, build: Builder, desc: Im2colDescriptor) -> None:
        self.build = build
        self.desc = desc
        self.window = desc.window
        self.counts = [
            self.count(extent, *bounds)
            for extent, *bounds in zip(
                desc.shape[1:-1],
                desc.window.lower,
                desc.window.upper,
                desc.window.steps,
                strict=True,
            )
        ]

    def count(self, extent: Tensor, lower: int, upper: int, step: int) -> Tensor:
        """Return the number of pixels along an axis."""
        span = binary(self.build, "+", extent, upper - lower - 1 + step)
        zero = self.build.constant(0, I32)
        most = Tensor(self.build(arith.max_, span.value, zero))
        return self.binary("//", most, step)

    def binary(self, op: str, a: Any, b: Any) -> Tensor:
        result: Tensor = binary(self.build, op, a, b)
        return result

    def block(self, row: Tensor, channel: Tensor, moves: Sequence[Tensor]) -> Tensor:
        """Return the block of pixels from number `row` on and channels from `channel` on."""
        build, dims = self.build, self.window.block
        pixels, channels = (Tensor(build(shape.arange, start=0, end=extent)) for extent in dims)
        start = self.index(row)
        rows = self.index(self.binary("+", row, pixels))
        columns = self.binary("+", channel, channels)
        image, *spatial = rows
        pairs = zip(spatial, moves, strict=True)
        moved = [image, *(self.binary("+", at, move) for at, move in pairs)]
        mask = self.inside(moved, columns)
        pointers = self.pointers(rows, channel, channels, moves)
        ptr = build(
            descriptor.im2col_pointers,
            pointers,
            self.desc.base.value,
            *[x.value for x in (*self.desc.shape, *self.desc.strides)],
            *[x.value for x in (*start, channel, *moves)],
            lower=self.window.lower,
            upper=self.window.upper,
            steps=self.window.steps,
        )
        zero = build.constant(0, Tile(dims, self.window.element))
        return Tensor(build(memory.load, ptr, mask, zero))

    def index(self, number: Tensor) -> list[Tensor]:
        """Return the image and the spatial indices of pixels by their number, which may be < 0."""
        total = self.total()
        below = self.binary("-", number, self.binary("-", total, 1))
        is_negative = compare(self.build, "<", number, 0)
        floored = self.build(arith.select, is_negative.value, below.value, number.value)
        image = self.binary("//", Tensor(floored), total)
        rest = self.binary("-", number, self.binary("*", image, total))
        indices: list[Tensor] = []
        outer, *inner = zip(self.counts, self.window.lower, self.window.steps, strict=True)
        for count, lower, step in reversed(inner):
            at_least_one = self.at_least_one(count)
            quotient = self.binary("//", rest, at_least_one)
            position = self.binary("-", rest, self.binary("*", quotient, at_least_one))
            indices.append(self.binary("+", self.binary("*", position, step), lower))
            rest = quotient
        # What is left is less than the number of pixels along the first axis.
        _, lower, step = outer
        indices.append(self.binary("+", self.binary("*", rest, step), lower))
        return [image, *indices[::-1]]

    def total(self) -> Tensor:
        """Return the number of pixels of an image, or 1 if there is none."""
        return reduce(partial(self.binary, "*"), map(self.at_least_one, self.counts))

    def at_least_one(self, count: Tensor) -> Tensor:
        return Tensor(self.build(arith.max_, count.value, self.build.constant(1, I32)))

    def inside(self, rows: Sequence[Tensor], columns: Tensor) -> Value:
        """Return the mask of the elements that are in bounds."""
        within = map(self.below, rows, self.desc.shape)
        # Without pixels, nothing is in bounds.
        some = (compare(self.build, ">", count, 0) for count in self.counts)
        pixels = reduce(partial(self.binary, "&"), chain(within, some))
        channels = self.below(columns, self.desc.shape[-1])
        both = self.binary("&", _column(self.build, pixels), _row(self.build, channels))
        return both.value

    def below(self, index: Tensor, extent: Tensor) -> Tensor:
        """Return a mask: 0 <= index < extent, by one comparison of unsigned integers."""
        build = self.build
        at, limit = (
            Tensor(build(arith.cast, x.value, to=with_element(x.type, U32).element))
            for x in (index, extent)
        )
        result: Tensor = compare(build, "<", at, limit)
        return result

    def pointers(
        self, rows: Sequence[Tensor], channel: Tensor, channels: Tensor, moves: Sequence[Tensor]
    ) -> Value:
        """Return the pointers of a block; what varies in a loop over filters is one scalar."""
        build, dims, size = self.build, self.window.block, self.window.element.itemsize
        plus, strides = partial(self.binary, "+"), self.desc.strides
        start = reduce(plus, map(self.steps, moves, strides[1:]), self.wide(channel))
        offsets = reduce(plus, map(self.steps, rows, strides))
        within = self.binary("+", _column(build, offsets), _row(build, self.wide(channels)))
        base = build(memory.addptr, self.desc.base.value, start.value, stride=size)
        whole = build(shape.splat, base, shape=dims)
        return build(memory.addptr, whole, within.value, stride=size)

    def steps(self, index: Tensor, stride: Tensor) -> Tensor:
        return self.binary("*", self.wide(index), stride)

    def wide(self, x: Tensor) -> Tensor:
        return Tensor(self.build(arith.cast, x.value, to=I64))


def _column(build: Builder, x: Tensor) -> Tensor:
    return Tensor(build(shape.expand_dims, x.value, axis=-1))


def _row(build: Builder, x: Tensor) -> Tensor:
    return Tensor(build(shape.expand_dims, x.value, axis=-2))


def _block(block_shape: Any, element: Scalar) -> tuple[int, ...]:
    """Return the block's shape; raise for one that no descriptor of two axes has."""
    block = compile_time_shape(block_shape, f"the block_shape of {MAKE}")
    if len(block) != 2:
        raise CompilationError(
            f"the block_shape of {MAKE} is (pixels, channels), not {list(block)}"
        )
    return Descriptor(block, element).dims


def _steps(element_strides: Any, spatial: int) -> tuple[int, ...]:
    """Return the steps between pixels along the spatial axes."""
    if constant_value(element_strides) is None:
        return (1,) * spatial
    steps = compile_time_shape(element_strides, f"the element_strides of {MAKE}")
    if len(steps) != spatial + 2 or steps[0] != 1 or steps[-1] != 1 or min(steps) < 1:
        raise CompilationError(
            f"the element_strides of {MAKE} are {list(steps)}; they are 1, a positive number for "
            f"each of {spatial} spatial axes, and 1"
        )
    return steps[1:-1]


def _stride(build: Builder, x: Any, element: Scalar, axis: int) -> Tensor:
    """Return a stride as i64 with a hint of its alignment."""
    multiple, number = stride_multiple(MAKE, x, element, axis), constant_value(x)
    if isinstance(number, int):
        return Tensor(build.constant(number, I64))
    wide = build(arith.cast, integer(build, x, f"a stride of {MAKE}").value, to=I64)
    return Tensor(_multiple(build, wide, multiple))


def _move(build: Builder, x: Any, spatial: int) -> Tensor:
    """Return a filter offset as i32."""
    number, most = constant_value(x), (1 << descriptor.OFFSET_BITS[spatial]) - 1
    if isinstance(number, int) and not 0 <= number <= most:
        raise CompilationError(
            f"a filter offset of {LOAD} is {number}; it is 0 to {most} for {spatial} spatial axes"
        )
    return narrow(build, x, f"a filter offset of {LOAD}", I32.min_value)


def _multiple(build: Builder, value: Value, number: int) -> Value:
    return build(arith.hint, value, divisible=(number,))


def _require_each(subject: str, numbers: Any, count: int) -> None:
    require_each(subject, numbers, count, f"; there are {count}")
