"""Operations with data-dependent indices: gather, scatter, tables, histogram, rank and sort."""

from __future__ import annotations

from tile.ir import semantics
from tile.ir.declare import op
from tile.ir.extents import is_power_of_two
from tile.ir.op_definition import Trait
from tile.ir.ops.shape import along, without
from tile.ir.types import (
    ALL,
    FLOATS,
    I1,
    I32,
    I64,
    INTEGERS,
    Scalar,
    Tile,
    Type,
    require,
    with_element,
    with_shape,
)

SORTED = (I1, *INTEGERS, *FLOATS)


TABLE_ENTRIES = 1 << 16  # at most; the text of the IR has them all


@op(
    elementwise=True,
    accepts=(I32,),
    semantics=semantics.table,
    examples=("%i: tile<8xi32> | %r = table %i {of = u8, entries = (3, 1, 4, 1)} : tile<8xu8>",),
)
def table(index: Type, *, of: Type, entries: tuple[int, ...]) -> Type:
    """Look up entries of a constant table of unsigned integers, which is part of the kernel.

    The number of entries is a power of two, and higher bits of the index are ignored.
    """
    require(index.element == I32, f"table takes an index of i32, not {index}")
    require(
        isinstance(of, Scalar) and of.is_int_unsigned() and not of.is_bool(),
        f"a table has entries of an unsigned integer type, not {of}",
    )
    assert isinstance(of, Scalar)
    count = len(entries)
    require(
        is_power_of_two(count) and count <= TABLE_ENTRIES,
        f"a table has a power of two of entries, up to {TABLE_ENTRIES}, not {count}",
    )
    wrong = [entry for entry in entries if not 0 <= entry <= of.max_value]
    require(not wrong, f"the entries of a table of {of} are its numbers, not {wrong[:1]}")
    return with_element(index, of)


@op(
    any_extents=True,
    semantics=semantics.gather,
    accepts=ALL,
    examples=(
        "%x: tile<4x8xf32>, %i: tile<4x2xi32> | %r = gather %x, %i {axis = -1} : tile<4x2xf32>",
    ),
)
def gather(x: Type, index: Type, *, axis: int) -> Type:
    """Gather the elements of `x` at positions `index` along an axis; other axes correspond.

    The result for a position out of range is undefined; the interpreter clamps the position.
    """
    along("gather", x, axis)
    require(
        isinstance(index, Tile) and index.element in (I32, I64),
        f"gather takes a tile of i32 or i64 as index, not {index}",
    )
    require(
        x.rank == index.rank and without(x, axis) == without(index, axis),
        f"gather takes an index of another extent along axis {axis} at most; {list(x.shape)} and "
        f"{list(index.shape)} do not fit",
    )
    return with_shape(index.shape, x.element)


@op(
    any_extents=True,
    semantics=semantics.scatter,
    accepts=ALL,
    examples=(
        "%x: tile<4x8xf32>, %i: tile<4x8xi32> | %r = scatter %x, %i {axis = -1} : tile<4x8xf32>",
    ),
)
def scatter(x: Type, index: Type, *, axis: int) -> Type:
    """Move the elements of `x` to positions `index` along an axis; other axes correspond.

    The result is undefined unless these are all positions of the axis, in any order.
    """
    along("scatter", x, axis)
    require(
        isinstance(index, Tile) and index == with_element(x, I32),
        f"scatter of {x} takes an index of {with_element(x, I32)}, not {index}",
    )
    return x


@op(
    any_extents=True,
    semantics=lambda x, *, bins: semantics.rank(x),
    accepts=(I32,),
    examples=("%x: tile<64xi32> | %r = rank %x {bins = 16} : tile<64xi32>",),
)
def rank(x: Type, *, bins: int) -> Type:
    """Return the position that each element would have if the tile was sorted, stably.

    The result is undefined unless all elements are in 0 to `bins` - 1.
    """
    require(
        isinstance(x, Tile) and x.rank == 1 and x.element == I32,
        f"rank takes a tile of i32 of rank 1, not {x}",
    )
    require(bins > 0, f"rank takes one bin or more, not {bins}")
    return x


@op(
    any_extents=True,
    semantics=lambda x, mask=None, *, bins: semantics.histogram(x, mask, bins),
    accepts=INTEGERS,
    examples=(
        "%x: tile<64xi32> | %r = histogram %x {bins = 16} : tile<16xi32>",
        "%x: tile<64xu8>, %m: tile<64xi1> | %r = histogram %x, %m {bins = 256} : tile<256xi32>",
    ),
)
def histogram(x: Type, mask: Type | None = None, *, bins: int) -> Type:
    """Count the occurrences of each of 0 to `bins` - 1 where the mask is true.

    Other numbers are ignored.
    """
    require(
        isinstance(x, Tile) and x.rank == 1 and x.element in INTEGERS,
        f"histogram takes a tile of integers of rank 1, not {x}",
    )
    booleans = with_element(x, I1)
    require(
        mask in (None, booleans), f"histogram of {x} takes a mask of type {booleans}, not {mask}"
    )
    return Tile((bins,), I32)


@op(
    any_extents=True,
    traits={Trait.COMBINE},
    semantics=semantics.sort,
    accepts=SORTED,
    examples=(
        "%x: tile<4x8xf32> | %r = sort %x {axis = -1} : tile<4x8xf32>",
        "%x: tile<4x8xf32> | "
        "%r = sort %x {axis = -1, descending = true, count = 2} : tile<4x2xf32>",
    ),
)
def sort(x: Type, *, axis: int, descending: bool = False, count: int | None = None) -> Type:
    """Sort the elements along an axis in ascending or descending order; keep the first `count`.

    A NaN is greater than every number: it comes last, or first if `descending`. -0.0 is less than
    0.0.
    """
    along("sort", x, axis)
    require(x.element in SORTED, f"sort is not defined on {x.element}")
    shape = list(x.shape)
    if count is not None:
        extent = shape[axis]
        require(
            0 < count <= extent,
            f"sort keeps 1 to {extent} elements of an axis of extent {extent}, not {count}",
        )
        shape[axis] = count
    return with_shape(shape, x.element)
