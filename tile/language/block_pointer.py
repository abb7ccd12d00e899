"""Block pointers: blocks of an array, which a kernel moves through it.

    p = tl.make_block_ptr(x_ptr, (M, N), (N, 1), (row, 0), (64, 32), (1, 0))
    x = tl.load(p, boundary_check=(0, 1))       # a tile of shape (64, 32)
    p = tl.advance(p, (0, 32))

A block pointer is a tuple of runtime values. An access through it is one through a tile of
pointers, with a mask for the axes that are checked, so it needs no operation of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tile.errors import CompilationError
from tile.ir.block_address import axis_indices, block_address
from tile.ir.builder import Builder
from tile.ir.ops import arith
from tile.ir.types import I32, I64, Tile
from tile.language.base.builtin import builtin, member
from tile.language.base.promotion import Operand, convert, describe
from tile.language.base.static_args import (
    choice,
    compile_time_shape,
    constant_value,
)
from tile.language.base.tensor import BlockPointer, BlockPointerType, Tensor
from tile.language.descriptor import index_i32, integer, narrow, pointed_element, require_each
from tile.language.operators import binary

MAKE = "tl.make_block_ptr"


@builtin
def make_block_ptr(
    build: Builder,
    base: Tensor,
    shape: Sequence[Operand],
    strides: Sequence[Operand],
    offsets: Sequence[Operand],
    block_shape: Sequence[int],
    order: Sequence[int],
) -> BlockPointer:
    """Return a pointer to the block of shape `block_shape` at `offsets` in the array at `base`.

    `shape` and `strides` are the array's, in elements; they and `offsets` are integers, one for
    each axis. The extents of `block_shape` are compile-time integers. `order` is the order of
    axes in memory, the fastest first, a permutation of 0 to rank - 1; it has no effect, as the
    strides tell. `tl.load` and `tl.store` take the result with `boundary_check`, `tl.advance` moves
    it; `p.dtype.element_ty` is the type of an element. Raises `CompilationError` for other
    arguments. New code uses `tl.make_tensor_descriptor`.
    """
    element = pointed_element(MAKE, base)
    block = compile_time_shape(block_shape, f"the block_shape of {MAKE}")
    rank = len(block)
    _order(order, rank)
    axes = [
        _each(f"the {name} of {MAKE}", numbers, rank)
        for name, numbers in (("shape", shape), ("strides", strides), ("offsets", offsets))
    ]
    return BlockPointer(
        base,
        tuple(_extent(build, x) for x in axes[0]),
        tuple(_wide(build, x, f"a stride of {MAKE}") for x in axes[1]),
        tuple(index_i32(build, x, f"an offset of {MAKE}") for x in axes[2]),
        BlockPointerType(Tile(block, element)),
    )


@member
def advance(
    build: Builder, base: Tensor | BlockPointer, offsets: Sequence[Operand]
) -> BlockPointer:
    """Return the block pointer `base` moved by `offsets`, one integer for each axis.

    `base` is not changed. Raises `CompilationError` for anything else.
    """
    if not isinstance(base, BlockPointer):
        raise CompilationError(
            f"tl.advance takes a block pointer, made by {MAKE}, not {describe(base)}"
        )
    deltas = _each("the offsets of tl.advance", offsets, len(base.offsets))
    moved = (
        binary(build, "+", start, index_i32(build, delta, "an offset of tl.advance"))
        for start, delta in zip(base.offsets, deltas, strict=True)
    )
    return base._replace(offsets=tuple(moved))


PADDINGS = {"": 0.0, "zero": 0.0, "nan": math.nan}


def padding(name: str, pointer: BlockPointer, padding_option: Any) -> float:
    """Return the number that a load through a block pointer gives outside the array."""
    number = choice(padding_option, f"the padding_option of {name}", PADDINGS, "")
    element = pointer.type.element_ty.of
    if math.isnan(number) and not element.is_floating():
        raise CompilationError(
            f'the padding_option of {name} is "nan", which elements of {element} cannot be'
        )
    return number


def block_operands(
    build: Builder, name: str, pointer: BlockPointer, boundary_check: Any
) -> tuple[Tensor, Tensor | None]:
    """Return the tile of pointers of an access through a block pointer, and its mask.

    Raises `CompilationError` for an axis to check that the block does not have, or a repeated one.
    """
    dims = pointer.type.element_ty.dims
    rank = len(dims)
    subject = f"the boundary_check of {name}"
    checked = [axis + rank if axis < 0 else axis for axis in _axes(boundary_check, subject)]
    if len(set(checked)) != len(checked) or not {*checked} <= {*range(rank)}:
        raise CompilationError(
            f"{subject} is {tuple(checked)}; it lists axes of a {pointer.type}, 0 to {rank - 1}"
        )
    pointers, mask = block_address(
        build,
        pointer.base.value,
        [None if constant_value(stride) == 1 else stride.value for stride in pointer.strides],
        [x.value if axis in checked else None for axis, x in enumerate(pointer.shape)],
        [
            axis_indices(build, start.value, extent)
            for start, extent in zip(pointer.offsets, dims, strict=True)
        ],
        dims,
    )
    return Tensor(pointers), None if mask is None else Tensor(mask)


def _axes(axes: Any, subject: str) -> tuple[int, ...]:
    return () if axes is None else compile_time_shape(axes, subject)


def _each(subject: str, numbers: Any, rank: int) -> Sequence[Any]:
    """Return a sequence of one number for each axis; raise `CompilationError` for another one."""
    expected = f"; the block has {rank} axes, and there is one for each"
    require_each(subject, numbers, rank, expected)
    sequence: Sequence[Any] = numbers
    return sequence


def _order(order: Any, rank: int) -> None:
    axes = compile_time_shape(order, f"the order of {MAKE}")
    if sorted(axes) != list(range(rank)):
        raise CompilationError(
            f"the order of {MAKE} is {axes}; it is a permutation of 0 to {rank - 1}, the axes of "
            "the block"
        )


def _extent(build: Builder, x: Any) -> Tensor:
    """Return an extent as i32; a negative one, which excludes all elements, is 0."""
    extent = narrow(build, x, f"an extent in the shape of {MAKE}", I32.max_value)
    number = constant_value(x)
    if isinstance(number, int):
        return extent if number >= 0 else Tensor(build.constant(0, I32))
    return Tensor(build(arith.max_, extent.value, build.constant(0, I32)))


def _wide(build: Builder, x: Any, subject: str) -> Tensor:
    number = constant_value(x)
    if isinstance(number, int) and not isinstance(number, bool):
        return Tensor(build.constant(number, I64))
    return convert(build, integer(build, x, subject), I64)
