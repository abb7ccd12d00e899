"""Descriptors: arrays with bounds, read and written in boxes.

A descriptor's value is what it is made of, one number after the other as 64-bit integers: the
address of the array's first element, its extents, and its strides but for the last, which is 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tile.ir.levels import TILES_ALONE, WITH_TILES
from tile.ir.opdef import Effect, op
from tile.ir.ops.memory import RMW_ELEMENTS, RMWKind
from tile.ir.types import I32, I64, Descriptor, Padding, Pointer, Scalar, Tile, Type, require

# Atomic operations of boxes give nothing, so an exchange is a store.
BOX_KINDS = tuple(kind for kind in RMWKind if kind is not RMWKind.XCHG)


def _descriptor(name: str, desc: Type) -> Descriptor:
    require(isinstance(desc, Descriptor), f"{name} takes a descriptor, not {desc}")
    assert isinstance(desc, Descriptor)
    return desc


def _offsets(name: str, desc: Descriptor, offsets: tuple[Type, ...]) -> None:
    rank = len(desc.dims)
    given = ", ".join(map(str, offsets)) or "none"
    require(
        offsets == (I32,) * rank,
        f"{name} through {desc} takes an offset of i32 for each of {rank} axes, not {given}",
    )


def _axis(name: str, desc: Descriptor, axis: int) -> None:
    rank = len(desc.dims)
    require(0 <= axis < rank, f"{name} of {desc} has axes 0 to {rank - 1}, and none is {axis}")


def _rows(name: str, desc: Descriptor, rows: Type, column: Type) -> Tile:
    """The tile that rows of an array make, given their indices and where in them it begins."""
    require(
        len(desc.dims) == 2 and desc.dims[0] == 1,
        f"{name} takes a descriptor of an array with two axes and boxes of one row, not {desc}",
    )
    require(
        isinstance(rows, Tile) and rows.rank == 1 and rows.of is I32 and column == I32,
        f"{name} takes a tile of one axis of i32 for the rows and an i32 for the column, not "
        f"{rows} and {column}",
    )
    return Tile((rows.shape[0], desc.dims[1]), desc.of)


def _value(name: str, desc: Descriptor, wanted: Tile, value: Type) -> None:
    require(value == wanted, f"{name} through {desc} takes a value of type {wanted}, not {value}")


def _made(base: Any, *sizes: Any, block: tuple[int, ...], padding: Padding) -> Any:
    parts = np.broadcast_arrays(base, *sizes)
    return np.stack([part.astype(np.int64) for part in parts], axis=-1)


@op(
    meaning=_made,
    levels=TILES_ALONE,
    examples=(
        "%p: ptr<f16>, %m: i32, %n: i32, %s: i64 | "
        "%d = make_descriptor %p, %m, %n, %s {block = (64, 32)} : desc<64x32xf16>",
        "%p: ptr<f32>, %n: i32 | "
        "%d = make_descriptor %p, %n {block = (16), padding = nan} : desc<16xf32, nan>",
    ),
)
def make_descriptor(
    base: Type, *sizes: Type, block: tuple[int, ...], padding: Padding = Padding.ZERO
) -> Type:
    """A descriptor of the array at `base`, accessed in boxes of shape `block`.

    `sizes` are its extents (i32), then its strides in elements (i64) but for the last, which is 1.
    The address and the strides in bytes are multiples of 16, which lowering relies on.
    """
    require(
        isinstance(base, Pointer) and isinstance(base.pointee, Scalar),
        f"make_descriptor takes a pointer to numbers, not {base}",
    )
    assert isinstance(base, Pointer) and isinstance(base.pointee, Scalar)
    desc = Descriptor(block, base.pointee, padding)
    wanted = desc.parts[1:]
    require(
        sizes == wanted,
        f"a block of shape {list(block)} takes ({', '.join(map(str, wanted))}) for extents "
        f"and strides, not ({', '.join(map(str, sizes))})",
    )
    return desc


def _extent(desc: Any, *, axis: int) -> Any:
    return desc[:, 1 + axis].astype(np.int32)


@op(
    meaning=_extent,
    keeps_units=True,
    levels=TILES_ALONE,
    examples=("%d: desc<64x32xf16> | %n = descriptor_extent %d {axis = 1} : i32",),
)
def descriptor_extent(desc: Type, *, axis: int) -> Type:
    """The extent of a descriptor's array along an axis, which counts from the left."""
    _axis("descriptor_extent", _descriptor("descriptor_extent", desc), axis)
    return I32


def _stride(desc: Any, *, axis: int) -> Any:
    rank = desc.shape[-1] // 2
    return np.ones(1, np.int64) if axis == rank - 1 else desc[:, 1 + rank + axis]


@op(
    meaning=_stride,
    keeps_units=True,
    levels=TILES_ALONE,
    examples=("%d: desc<64x32xf16> | %s = descriptor_stride %d {axis = 0} : i64",),
)
def descriptor_stride(desc: Type, *, axis: int) -> Type:
    """The stride of a descriptor's array along an axis, in elements; axes count from the left."""
    _axis("descriptor_stride", _descriptor("descriptor_stride", desc), axis)
    return I64


@op(
    effect=Effect.READ,
    levels=TILES_ALONE,
    examples=(
        "%d: desc<64x32xf16>, %i: i32, %j: i32 | %r = descriptor_load %d, %i, %j : tile<64x32xf16>",
    ),
)
def descriptor_load(desc: Type, *offsets: Type) -> Type:
    """Read the box whose first element has the index `offsets`, which may be negative."""
    found = _descriptor("descriptor_load", desc)
    _offsets("descriptor_load", found, offsets)
    return found.box


@op(
    effect=Effect.WRITE,
    levels=TILES_ALONE,
    examples=(
        "%d: desc<64x32xf16>, %v: tile<64x32xf16>, %i: i32, %j: i32 | "
        "descriptor_store %d, %v, %i, %j",
    ),
)
def descriptor_store(desc: Type, value: Type, *offsets: Type) -> None:
    """Write the box whose first element has the index `offsets`; nothing outside the array."""
    found = _descriptor("descriptor_store", desc)
    _value("descriptor_store", found, found.box, value)
    _offsets("descriptor_store", found, offsets)


@op(
    effect=Effect.READ | Effect.WRITE,
    levels=TILES_ALONE,
    examples=(
        "%d: desc<64x32xf16>, %v: tile<64x32xf16>, %i: i32, %j: i32 | "
        "descriptor_atomic %d, %v, %i, %j {kind = add}",
    ),
)
def descriptor_atomic(desc: Type, value: Type, *offsets: Type, kind: RMWKind) -> None:
    """Combine each element of a box into the array in one step; nothing outside the array.

    Relaxed, and atomic on the device.
    """
    found = _descriptor("descriptor_atomic", desc)
    allowed = RMW_ELEMENTS[kind]
    require(kind in BOX_KINDS, f"descriptor_atomic knows no {{kind = {kind}}}; store the box")
    require(
        found.of in allowed,
        f"descriptor_atomic {{kind = {kind}}} is not defined on {found.of}; it takes "
        f"{', '.join(ty.name for ty in allowed)}",
    )
    _value("descriptor_atomic", found, found.box, value)
    _offsets("descriptor_atomic", found, offsets)


@op(
    effect=Effect.READ,
    levels=TILES_ALONE,
    examples=(
        "%d: desc<1x32xf16>, %i: tile<8xi32>, %j: i32 | "
        "%r = descriptor_gather %d, %i, %j : tile<8x32xf16>",
    ),
)
def descriptor_gather(desc: Type, rows: Type, column: Type) -> Type:
    """Read parts of the rows with these indices, from a column on, one below the other."""
    return _rows("descriptor_gather", _descriptor("descriptor_gather", desc), rows, column)


@op(
    effect=Effect.WRITE,
    levels=TILES_ALONE,
    examples=(
        "%d: desc<1x32xf16>, %v: tile<8x32xf16>, %i: tile<8xi32>, %j: i32 | "
        "descriptor_scatter %d, %v, %i, %j",
    ),
)
def descriptor_scatter(desc: Type, value: Type, rows: Type, column: Type) -> None:
    """Write parts of the rows with these indices, from a column on; nothing outside the array."""
    found = _descriptor("descriptor_scatter", desc)
    wanted = _rows("descriptor_scatter", found, rows, column)
    _value("descriptor_scatter", found, wanted, value)


@op(
    meaning=lambda pointers, base, *numbers: pointers,
    levels=WITH_TILES,
    examples=(
        "%p: tile<64x32xptr<f16>>, %b: ptr<f16>, %m: i32, %n: i32, %s: i64, %i: i32, %j: i32 | "
        "%q = box_pointers %p, %b, %m, %n, %s, %i, %j : tile<64x32xptr<f16>>",
    ),
)
def box_pointers(pointers: Type, base: Type, *numbers: Type) -> Type:
    """The pointers, with the word that they point to a box of an array, in row-major order.

    The array is at `base`; `numbers` are its extents and strides, as for `make_descriptor`, and the
    index of the box's first element. A load through them reads all that is inside of the array, and
    so may be done by a machine that copies boxes.
    """
    require(
        isinstance(base, Pointer)
        and isinstance(pointers, Tile)
        and isinstance(base.pointee, Scalar)
        and pointers.of == base,
        f"box_pointers takes a tile of pointers and one of them, not {pointers} and {base}",
    )
    assert isinstance(pointers, Tile) and isinstance(base, Pointer)
    assert isinstance(base.pointee, Scalar)
    rank = pointers.rank
    wanted = (*(I32,) * rank, *(I64,) * (rank - 1), *(I32,) * rank)
    require(
        numbers == wanted,
        f"box_pointers of rank {rank} takes ({', '.join(map(str, wanted))}) for extents, strides "
        f"and an index, not ({', '.join(map(str, numbers))})",
    )
    return pointers
