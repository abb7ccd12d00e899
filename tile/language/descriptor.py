"""Tensor descriptors: arrays with bounds, which a kernel reads and writes in blocks of one shape.

    desc = tl.make_tensor_descriptor(x_ptr, shape=[M, N], strides=[N, 1], block_shape=[64, 32])
    x = desc.load([row, column])            # a tile of shape (64, 32)
    desc.store([row, column], x + 1)

Elements outside the array are read as zero (or NaN) and not written, so no masks are needed. A
descriptor may also be made on the host, by `tile.TensorDescriptor`, and passed to the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.ir.descriptor_type import Descriptor, Padding
from tile.ir.ops import arith
from tile.ir.ops import descriptor as ops
from tile.ir.ops.arith import Predicate
from tile.ir.ops.memory import RMWKind
from tile.ir.types import I1, I32, I64, Element, Pointer, Scalar, Tile
from tile.language.base.builtin import Builtin, builtin, descriptor_member
from tile.language.base.promotion import (
    Operand,
    as_number,
    cast_to,
    check_constant,
    convert,
    describe,
    keep_value,
    to_tensor,
)
from tile.language.base.static_args import compile_time, compile_time_shape, constant_value
from tile.language.base.tensor import DescriptorParts, Tensor, tensor_descriptor
from tile.short_repr import short_repr

MAKE = "tl.make_tensor_descriptor"


@builtin
def make_tensor_descriptor(
    build: Builder,
    base: Tensor,
    shape: Sequence[Operand],
    strides: Sequence[Operand],
    block_shape: Sequence[int],
    padding_option: str = "zero",
) -> tensor_descriptor:
    """Make a descriptor of the array at `base`, of 1 to 5 axes, accessed in blocks.

    `shape` and `strides` are the array's, in elements. The last stride is 1; the other strides and
    the address are multiples of 16 bytes. The extents of `block_shape` are compile-time powers of
    two, and the last axis of a block has at least 16 bytes. `padding_option` is the value that
    loads return outside the array: "zero", or for floats "nan".

    The result has the methods `load(offsets)`, `store(offsets, value)`,
    `gather(x_offsets, y_offset)`, `scatter(value, x_offsets, y_offset)` and
    `atomic_add(offsets, value)`, also for `min`, `max`, `and`, `or`, `xor`; and the attributes
    `shape`, `strides`, `block_shape`, `dtype`. Raises `CompilationError` for arguments that violate
    these rules.
    """
    return build_descriptor(
        build, DescriptorParts(base, shape, strides, block_shape, padding_option)
    )


def build_descriptor(build: Builder, parts: DescriptorParts) -> Tensor:
    """Return the descriptor with these parts; see `make_tensor_descriptor`."""
    base = parts.base
    if not isinstance(base, Tensor) or not isinstance(base.type, Pointer):
        raise CompilationError(f"the base of {MAKE} is one pointer, not {describe(base)}")
    block = compile_time_shape(parts.block_shape, f"the block_shape of {MAKE}")
    rank = len(block)
    expected = (
        f", and the block_shape {list(block)} has {rank}; "
        "all have one for each of the 1 to 5 axes of the array"
    )
    require_each(f"the shape of {MAKE}", parts.shape, rank, expected)
    require_each(f"the strides of {MAKE}", parts.strides, rank, expected)
    extents = [_extent(build, extent) for extent in parts.shape]
    *outer, last = parts.strides
    strides = [_stride(build, stride, base.type, axis) for axis, stride in enumerate(outer)]
    require_contiguous(MAKE, last, "elements along the last axis")
    sizes = [tensor.value for tensor in (*extents, *strides)]
    padding = _padding(parts.padding)
    return Tensor(
        build(ops.make_tensor_descriptor, base.value, *sizes, block=block, padding=padding)
    )


def _padding(padding: Any) -> Padding:
    text = compile_time(padding, f"the padding_option of {MAKE}") or "zero"
    if text not in list(Padding):
        raise CompilationError(
            f'the padding_option of {MAKE} is "zero" or "nan", not {short_repr(text)}'
        )
    return Padding(text)


def integer(build: Builder, x: Any, subject: str) -> Tensor:
    """Return `x` as a scalar integer of any width."""
    tensor = to_tensor(build, x, subject)
    if tensor.shape or not tensor.dtype.is_int() or tensor.dtype.is_bool():
        raise CompilationError(f"{subject} is an integer, not {describe(x)}")
    return tensor


def _extent(build: Builder, x: Any) -> Tensor:
    """Return an extent as i32; larger ones saturate, since indices are i32 too."""
    subject = f"an extent in the shape of {MAKE}"
    number = constant_value(x)
    if isinstance(number, int) and number < 0:
        raise CompilationError(f"{subject} is {number}; it is at least 0")
    return narrow(build, x, subject, I32.max_value)


def index_i32(build: Builder, x: Any, subject: str) -> Tensor:
    """Return an index as i32; one that does not fit becomes an index outside every array."""
    return narrow(build, x, subject, I32.min_value)


def narrow(build: Builder, x: Any, subject: str, otherwise: int) -> Tensor:
    """Return an integer as i32 if it fits, else the number `otherwise`."""
    number = constant_value(x)
    if isinstance(number, int) and not isinstance(number, bool):
        fits = I32.min_value <= number <= I32.max_value
        return Tensor(build.constant(number if fits else otherwise, I32))
    wide = integer(build, x, subject)
    dtype = wide.dtype
    assert isinstance(dtype, Scalar)
    narrow = convert(build, wide, I32)
    if dtype.bits < 32 or dtype is I32:
        return narrow
    if dtype.is_int_signed():
        back = convert(build, narrow, dtype)
        in_range = build(arith.cmp, back.value, wide.value, predicate=Predicate.EQ)
    else:
        most = build.constant(I32.max_value, dtype)
        in_range = build(arith.cmp, wide.value, most, predicate=Predicate.LE)
    return Tensor(build(arith.select, in_range, narrow.value, build.constant(otherwise, I32)))


def _stride(build: Builder, x: Any, base: Pointer, axis: int) -> Tensor:
    stride_multiple(MAKE, x, base.pointee, axis)
    return convert(build, integer(build, x, f"a stride of {MAKE}"), I64)


# -- checks that functions which describe arrays share; `make` is the function's name


def pointed_element(make: str, base: Any) -> Scalar:
    """Return the type to which the base of an array points."""
    ty = base.type if isinstance(base, Tensor) else None
    if not isinstance(ty, Pointer) or not isinstance(ty.pointee, Scalar):
        raise CompilationError(f"the base of {make} is a pointer to numbers, not {describe(base)}")
    return ty.pointee


def require_each(subject: str, numbers: Any, count: int, expected: str) -> None:
    """Raise `CompilationError` unless there are `count` numbers, of which one is the least."""
    is_list = isinstance(numbers, tuple | list)
    if not is_list or len(numbers) != count or count == 0:
        count_text = f"{len(numbers)} numbers" if is_list else "no list"
        raise CompilationError(f"{subject} has {count_text}{expected}")


def stride_multiple(make: str, x: Any, element: Element, axis: int) -> int:
    """Return the number that a stride is a multiple of; raise for a constant that is none."""
    multiple = max(1, Descriptor.ALIGNMENT // element.itemsize)
    number = constant_value(x)
    if isinstance(number, int) and number % multiple:
        raise CompilationError(
            f"the stride of {make} along axis {axis} is {number} elements of {element}, "
            f"{number * element.itemsize} bytes; it is a multiple of {multiple} elements, "
            f"{Descriptor.ALIGNMENT} bytes"
        )
    return multiple


def require_contiguous(make: str, x: Any, elements: str) -> None:
    """Raise `CompilationError` for a last stride that is not 1."""
    if constant_value(x) != 1:
        raise CompilationError(
            f"the last stride of {make} is 1, known when the kernel is compiled, and this is "
            f"{describe(x)}; {elements} are contiguous in memory"
        )


def _descriptor(name: str, desc: Any) -> Descriptor:
    ty = desc.type if isinstance(desc, Tensor) else None
    if not isinstance(ty, Descriptor):
        raise CompilationError(f"{name} takes a tensor descriptor, not {describe(desc)}")
    return ty


def _offsets(build: Builder, name: str, ty: Descriptor, offsets: Any) -> list[Any]:
    rank = len(ty.dims)
    items = offsets if isinstance(offsets, tuple | list) else (offsets,)
    if len(items) != rank:
        raise CompilationError(
            f"{name} takes {rank} offsets, one for each axis of {ty}, not {len(items)}"
        )
    return [index_i32(build, x, f"an offset of {name}").value for x in items]


@descriptor_member("load")
def load_tensor_descriptor(
    build: Builder, desc: tensor_descriptor, offsets: Sequence[Operand]
) -> Tensor:
    """Read the block of a descriptor whose first element has the index `offsets`.

    Also `desc.load(offsets)`. Offsets are integers, one for each axis; they may be negative.
    Elements outside the array are zero, or NaN if the descriptor has `padding_option="nan"`.
    """
    name = "tl.load_tensor_descriptor"
    ty = _descriptor(name, desc)
    return Tensor(build(ops.descriptor_load, desc.value, *_offsets(build, name, ty, offsets)))


@descriptor_member("store")
def store_tensor_descriptor(
    build: Builder, desc: tensor_descriptor, offsets: Sequence[Operand], value: Operand
) -> None:
    """Write the block of a descriptor whose first element has the index `offsets`.

    Also `desc.store(offsets, value)`. `value` is cast to the element type and broadcast to the
    block's shape; elements outside the array are not written. Raises `CompilationError` for a
    number that the element type cannot have.
    """
    name = "tl.store_tensor_descriptor"
    ty = _descriptor(name, desc)
    number = as_number(value)
    if number is not None:
        check_constant(number, ty.of, f"the value of {name}")
    block = cast_to(build, value, ty.block_type, f"the value of {name}")
    starts = _offsets(build, name, ty, offsets)
    build.op(ops.descriptor_store, desc.value, block.value, *starts)


def _atomic(kind: RMWKind) -> Builtin[..., None]:
    name = f"descriptor_atomic_{kind}"

    def apply(build: Builder, desc: Tensor, offsets: Sequence[Operand], value: Operand) -> None:
        ty = _descriptor(name, desc)
        block = keep_value(build, value, ty.block_type, f"the value of {name}")
        starts = _offsets(build, name, ty, offsets)
        build.op(ops.descriptor_reduce, desc.value, block.value, *starts, kind=kind)

    apply.__name__ = name
    apply.__doc__ = f"""Combine `value` with a block of the array by `tl.atomic_{kind}`, relaxed.

    Each element is updated atomically. There is no result, and elements outside the array are not
    changed. `value` is broadcast to the block's shape; for its type see `tl.atomic_cas`.
    """
    return descriptor_member(f"atomic_{kind}")(apply)


for _kind in ops.REDUCE_KINDS:
    _atomic(_kind)


@descriptor_member("gather")
def descriptor_gather_(
    build: Builder, desc: Tensor, x_offsets: Tensor, y_offset: Operand
) -> Tensor:
    """Read N columns of M arbitrary rows of an array.

    The descriptor has two axes and a block of shape (1, N). `x_offsets` is a tile of M integers,
    the rows, and `y_offset` the first of N columns; the result has shape (M, N). Elements outside
    the array are as in `load`.
    """
    name = "descriptor_gather"
    _descriptor(name, desc)
    rows, column = _rows(build, name, x_offsets, y_offset)
    return Tensor(build(ops.descriptor_gather, desc.value, rows.value, column.value))


@descriptor_member("scatter")
def descriptor_scatter_(
    build: Builder, desc: Tensor, value: Tensor, x_offsets: Tensor, y_offset: Operand
) -> None:
    """Write N columns of M arbitrary rows of an array; see `desc.gather`.

    `value` has shape (M, N). If several rows have the same index, it is not defined which one is
    written last.
    """
    name = "descriptor_scatter"
    ty = _descriptor(name, desc)
    rows, column = _rows(build, name, x_offsets, y_offset)
    block_type = Tile((rows.shape[0], ty.dims[-1]), ty.of)
    block = cast_to(build, value, block_type, f"the value of {name}")
    build.op(ops.descriptor_scatter, desc.value, block.value, rows.value, column.value)


def _rows(build: Builder, name: str, rows: Any, column: Operand) -> tuple[Tensor, Tensor]:
    integers = isinstance(rows, Tensor) and len(rows.shape) == 1 and rows.dtype.is_int()
    if not integers or rows.dtype is I1:
        raise CompilationError(
            f"the x_offsets of {name} are a tile of integers with one axis, not {describe(rows)}"
        )
    if rows.dtype.bits > 32:
        raise CompilationError(f"the x_offsets of {name} have up to 32 bits; cast them to tl.int32")
    return convert(build, rows, I32), index_i32(build, column, f"the y_offset of {name}")
