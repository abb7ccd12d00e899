"""Tensor descriptors: arrays with bounds, accessed in blocks.

In the reference semantics, the value of a descriptor is the sequence of its components as 64-bit
integers: the address of the array's first element, its extents, and all strides but the last, which
is 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tile.ir.core import Operation
from tile.ir.declare import op
from tile.ir.descriptor_type import Descriptor, Padding
from tile.ir.op_definition import TILE_ONLY, TILE_OR_LAID_OUT, Effect
from tile.ir.ops.memory import RMW_ELEMENTS, RMWKind
from tile.ir.types import I32, I64, Pointer, Scalar, Tile, Type, listed, require

# Atomic operations on blocks return nothing, so an exchange would be a store.
REDUCE_KINDS = tuple(kind for kind in RMWKind if not kind.exchanges)


def _descriptor(name: str, desc: Type) -> Descriptor:
    require(isinstance(desc, Descriptor), f"{name} takes a descriptor, not {desc}")
    assert isinstance(desc, Descriptor)
    return desc


def _offsets(name: str, desc: Descriptor, offsets: tuple[Type, ...]) -> None:
    rank = len(desc.dims)
    types = ", ".join(map(str, offsets)) or "none"
    require(
        offsets == (I32,) * rank,
        f"{name} through {desc} takes an offset of i32 for each of {rank} axes, not {types}",
    )


def _axis(name: str, desc: Descriptor, axis: int) -> None:
    rank = len(desc.dims)
    require(0 <= axis < rank, f"{name} of {desc} has axes 0 to {rank - 1}, and none is {axis}")


def _rows(name: str, desc: Descriptor, rows: Type, column: Type) -> Tile:
    """Return the type of a tile of rows with the given indices, from the given column on."""
    require(
        len(desc.dims) == 2 and desc.dims[0] == 1,
        f"{name} takes a descriptor of an array with two axes and blocks of one row, not {desc}",
    )
    require(
        isinstance(rows, Tile) and rows.rank == 1 and rows.of is I32 and column == I32,
        f"{name} takes a tile of one axis of i32 for the rows and an i32 for the column, not "
        f"{rows} and {column}",
    )
    return Tile((rows.shape[0], desc.dims[1]), desc.of)


def _value(name: str, desc: Descriptor, block: Tile, value: Type) -> None:
    require(value == block, f"{name} through {desc} takes a value of type {block}, not {value}")


def _make(base: Any, *sizes: Any, block: tuple[int, ...], padding: Padding) -> Any:
    components = np.broadcast_arrays(base, *sizes)
    return np.stack([component.astype(np.int64) for component in components], axis=-1)


@op(
    semantics=_make,
    levels=TILE_ONLY,
    examples=(
        "%p: ptr<f16>, %m: i32, %n: i32, %s: i64 | "
        "%d = make_tensor_descriptor %p, %m, %n, %s {block = (64, 32)} : desc<64x32xf16>",
        "%p: ptr<f32>, %n: i32 | "
        "%d = make_tensor_descriptor %p, %n {block = (16), padding = nan} : desc<16xf32, nan>",
    ),
)
def make_tensor_descriptor(
    base: Type, *sizes: Type, block: tuple[int, ...], padding: Padding = Padding.ZERO
) -> Type:
    """A descriptor of the array at `base`, accessed in blocks of shape `block`.

    `sizes` are its extents (i32), then its strides in elements (i64) except the last, which is 1.
    The address and the strides in bytes must be multiples of 16; lowering relies on it.
    """
    require(
        isinstance(base, Pointer) and isinstance(base.pointee, Scalar),
        f"make_tensor_descriptor takes a pointer to numbers, not {base}",
    )
    assert isinstance(base, Pointer) and isinstance(base.pointee, Scalar)
    desc = Descriptor(block, base.pointee, padding)
    expected = desc.component_types[1:]
    require(
        sizes == expected,
        f"a block of shape {list(block)} takes ({', '.join(map(str, expected))}) for extents "
        f"and strides, not ({', '.join(map(str, sizes))})",
    )
    return desc


def _extent(desc: Any, *, axis: int) -> Any:
    return desc[:, 1 + axis].astype(np.int32)


@op(
    semantics=_extent,
    unit_axes_broadcast=True,
    levels=TILE_ONLY,
    examples=("%d: desc<64x32xf16> | %n = descriptor_shape %d {axis = 1} : i32",),
)
def descriptor_shape(desc: Type, *, axis: int) -> Type:
    """The extent of a descriptor's array along an axis; axes count from the left."""
    _axis("descriptor_shape", _descriptor("descriptor_shape", desc), axis)
    return I32


def _stride(desc: Any, *, axis: int) -> Any:
    rank = desc.shape[-1] // 2
    return np.ones(1, np.int64) if axis == rank - 1 else desc[:, 1 + rank + axis]


@op(
    semantics=_stride,
    unit_axes_broadcast=True,
    levels=TILE_ONLY,
    examples=("%d: desc<64x32xf16> | %s = descriptor_stride %d {axis = 0} : i64",),
)
def descriptor_stride(desc: Type, *, axis: int) -> Type:
    """The stride of a descriptor's array along an axis, in elements; axes count from the left."""
    _axis("descriptor_stride", _descriptor("descriptor_stride", desc), axis)
    return I64


@op(
    effect=Effect.READ,
    levels=TILE_ONLY,
    examples=(
        "%d: desc<64x32xf16>, %i: i32, %j: i32 | %r = descriptor_load %d, %i, %j : tile<64x32xf16>",
    ),
)
def descriptor_load(desc: Type, *offsets: Type) -> Type:
    """Load the block whose first element has the index `offsets`, which may be negative."""
    descriptor = _descriptor("descriptor_load", desc)
    _offsets("descriptor_load", descriptor, offsets)
    return descriptor.block_type


@op(
    effect=Effect.WRITE,
    levels=TILE_ONLY,
    examples=(
        "%d: desc<64x32xf16>, %v: tile<64x32xf16>, %i: i32, %j: i32 | "
        "descriptor_store %d, %v, %i, %j",
    ),
)
def descriptor_store(desc: Type, value: Type, *offsets: Type) -> None:
    """Store the block whose first element has the index `offsets`.

    Elements outside the array are not written.
    """
    descriptor = _descriptor("descriptor_store", desc)
    _value("descriptor_store", descriptor, descriptor.block_type, value)
    _offsets("descriptor_store", descriptor, offsets)


@op(
    effect=Effect.READ | Effect.WRITE,
    levels=TILE_ONLY,
    examples=(
        "%d: desc<64x32xf16>, %v: tile<64x32xf16>, %i: i32, %j: i32 | "
        "descriptor_reduce %d, %v, %i, %j {kind = add}",
    ),
)
def descriptor_reduce(desc: Type, value: Type, *offsets: Type, kind: RMWKind) -> None:
    """Combine each element of a block into the array atomically.

    Elements outside the array are not written. The memory order is relaxed, the scope the device.
    """
    descriptor = _descriptor("descriptor_reduce", desc)
    allowed = RMW_ELEMENTS[kind]
    require(kind in REDUCE_KINDS, f"descriptor_reduce has no {{kind = {kind}}}; store the block")
    require(
        descriptor.of in allowed,
        f"descriptor_reduce {{kind = {kind}}} is not defined on {descriptor.of}; it takes "
        f"{', '.join(ty.ir_name for ty in allowed)}",
    )
    _value("descriptor_reduce", descriptor, descriptor.block_type, value)
    _offsets("descriptor_reduce", descriptor, offsets)


@op(
    effect=Effect.READ,
    levels=TILE_ONLY,
    examples=(
        "%d: desc<1x32xf16>, %i: tile<8xi32>, %j: i32 | "
        "%r = descriptor_gather %d, %i, %j : tile<8x32xf16>",
    ),
)
def descriptor_gather(desc: Type, rows: Type, column: Type) -> Type:
    """Load from the rows with these indices, starting at a column: one row for each index."""
    return _rows("descriptor_gather", _descriptor("descriptor_gather", desc), rows, column)


@op(
    effect=Effect.WRITE,
    levels=TILE_ONLY,
    examples=(
        "%d: desc<1x32xf16>, %v: tile<8x32xf16>, %i: tile<8xi32>, %j: i32 | "
        "descriptor_scatter %d, %v, %i, %j",
    ),
)
def descriptor_scatter(desc: Type, value: Type, rows: Type, column: Type) -> None:
    """Store to the rows with these indices, starting at a column.

    Elements outside the array are not written.
    """
    descriptor = _descriptor("descriptor_scatter", desc)
    block = _rows("descriptor_scatter", descriptor, rows, column)
    _value("descriptor_scatter", descriptor, block, value)


@op(
    semantics=lambda pointers, base, *numbers: pointers,
    levels=TILE_OR_LAID_OUT,
    examples=(
        "%p: tile<64x32xptr<f16>>, %b: ptr<f16>, %m: i32, %n: i32, %s: i64, %i: i32, %j: i32 | "
        "%q = descriptor_pointers %p, %b, %m, %n, %s, %i, %j : tile<64x32xptr<f16>>",
    ),
)
def descriptor_pointers(pointers: Type, base: Type, *numbers: Type) -> Type:
    """Return the pointers unchanged, and state that they address a descriptor block, row-major.

    The array is at `base`; `numbers` are its extents and strides, as for `make_tensor_descriptor`,
    and the index of the block's first element. An index is in bounds if it is less than the extent
    as an unsigned integer. A load through the pointers reads all elements of the block that are in
    bounds, so it may lower to a TMA load.
    """
    _block("descriptor_pointers", pointers, base)
    check_numbers("descriptor_pointers", numbers, pointers.rank)
    return pointers


def _block(name: str, pointers: Type, base: Type) -> None:
    """Raise unless `pointers` is a tile of pointers to numbers, of which `base` is one."""
    require(
        isinstance(base, Pointer)
        and isinstance(pointers, Tile)
        and isinstance(base.pointee, Scalar)
        and pointers.of == base,
        f"{name} takes a tile of pointers and one of them, not {pointers} and {base}",
    )


def check_numbers(name: str, numbers: tuple[Type, ...], rank: int, offsets: int = 0) -> None:
    """Raise for other numbers than the extents, strides and index of an array, and some offsets."""
    expected = (*(I32,) * rank, *(I64,) * (rank - 1), *(I32,) * (rank + offsets))
    require(
        numbers == expected,
        f"{name} of rank {rank} takes numbers of types ({listed(expected)}), not "
        f"({listed(numbers)})",
    )


def check_window(
    name: str,
    numbers: tuple[Type, ...],
    lower: tuple[int, ...],
    upper: tuple[int, ...],
    steps: tuple[int, ...],
) -> None:
    """Raise for a window, or numbers with its offsets, that `im2col_pointers` does not take."""
    spatial = len(lower)
    require(
        spatial in OFFSET_BITS
        and len(upper) == len(steps) == spatial
        and all(n > 0 for n in steps),
        f"{name} takes lower, upper and positive steps for 1 to {max(OFFSET_BITS)} spatial axes, "
        f"not {lower}, {upper} and {steps}",
    )
    check_numbers(name, numbers, spatial + 2, spatial)


# The bits of an offset of `im2col_pointers`, by the number of spatial axes.
OFFSET_BITS = {1: 16, 2: 8, 3: 5}


@op(
    semantics=lambda pointers, base, *numbers, lower, upper, steps: pointers,
    levels=TILE_OR_LAID_OUT,
    examples=(
        "%p: tile<64x32xptr<f16>>, %b: ptr<f16>, %n: i32, %w: i32, %c: i32, %s: i64, %t: i64, "
        "%i: i32, %x: i32, %k: i32, %r: i32 | "
        "%q = im2col_pointers %p, %b, %n, %w, %c, %s, %t, %i, %x, %k, %r "
        "{lower = (-1), upper = (-1), steps = (1)} : tile<64x32xptr<f16>>",
    ),
)
def im2col_pointers(
    pointers: Type,
    base: Type,
    *numbers: Type,
    lower: tuple[int, ...],
    upper: tuple[int, ...],
    steps: tuple[int, ...],
) -> Type:
    """Return the pointers unchanged, and state that they address a block of pixels and channels.

    The array at `base` has an axis of images, one to three spatial axes, and one of channels.
    `numbers` are its extents and strides, as for `make_tensor_descriptor`; the index of the block's
    first pixel and channel; and an offset for each spatial axis. The pixels of an image are those
    from `lower` to the last index plus `upper`, in `steps`, along each spatial axis, in row-major
    order. The block has consecutive pixels of consecutive images, each moved by the offsets. A load
    through the pointers reads all of its elements that are in bounds. Offsets are unsigned integers
    of `OFFSET_BITS`; lowering relies on it.
    """
    _block("im2col_pointers", pointers, base)
    require(pointers.rank == 2, f"im2col_pointers takes a tile of two axes, not {pointers}")
    check_window("im2col_pointers", numbers, lower, upper, steps)
    return pointers


# Operations that state which block of an array pointers address.
BLOCK_POINTERS = frozenset({descriptor_pointers, im2col_pointers})


def block_pointers_of(access: Operation) -> Operation | None:
    """Return the operation that states which block of an array is accessed, or None."""
    pointers: Operation | None = access["ptr"].op
    return pointers if pointers is not None and pointers.defn in BLOCK_POINTERS else None
