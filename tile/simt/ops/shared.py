"""Shared memory of a program: buffers, and tiles moved to and from them.

The buffer's type has its layout. At the THREAD level the `shared_*` operations of
`tile/simt/ops/thread.py` replace those that move tiles here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from tile.analysis.dataflow import SOURCES
from tile.ir.core import Operation, Value
from tile.ir.declare import laid_out_op, lowered_op, op
from tile.ir.op_definition import LOWERED, Effect, Trait
from tile.ir.ops.memory import CacheModifier, Eviction, pointee
from tile.ir.shared_type import Shared
from tile.ir.types import I1, I32, I64, Tile, Type, require, with_element, with_shape
from tile.simt.layouts.axes import permute_axes, reshape_axes
from tile.simt.layouts.dims import OFFSET
from tile.simt.layouts.linear_layout import LinearLayout

_ROW = "#linear{offset = [[1],[2]] -> dim0 = 4}"
_LANES = "#linear{register = [], lane = [[1],[2]], warp = [] -> dim0 = 4}"
_PAIR = "#linear{register = [], lane = [[1],[0]], warp = [] -> dim0 = 2}"


def buffer(name: str, mem: Type) -> Shared:
    """Return the type of a buffer; raise unless it has one stage."""
    require(
        isinstance(mem, Shared) and mem.stages == 1,
        f"{name} takes a buffer of one stage, not {mem}; `local_subview` chooses one of several",
    )
    assert isinstance(mem, Shared)
    return mem


@lowered_op(examples=(f"%m = local_alloc : shared<4xf32, {_ROW}>",))
def local_alloc(*, offset: int = -1, result: Type) -> Type:
    """Allocate a buffer in shared memory, at `offset` in bytes; -1 before it is assigned.

    Its initial contents are undefined.
    """
    require(isinstance(result, Shared), f"local_alloc gives a buffer, not {result}")
    require(offset >= -1, f"a buffer has an offset of 0 bytes or more, not {offset}")
    return result


@op(
    levels=LOWERED,
    examples=(
        f"%m: shared<4xf32, {_ROW}, stages = 3>, %i: i32 | "
        f"%s = local_subview %m, %i {{stage_offset = 1}} : shared<4xf32, {_ROW}>",
    ),
)
def local_subview(mem: Type, iteration: Type, *, stage_offset: int = 0) -> Type:
    """Return the subview of stage `(iteration + stage_offset) mod stages`; iterations count from 0.

    Two subviews of one iteration are thus different stages if their shifts are.
    """
    require(isinstance(mem, Shared), f"local_subview takes a buffer, not {mem}")
    assert isinstance(mem, Shared)
    require(iteration == I32, f"local_subview takes an iteration of type i32, not {iteration}")
    return replace(mem, stages=1)


@op(
    levels=LOWERED,
    examples=(
        "%m: shared<4x2xf32, #linear{offset = [[0,1],[1,0],[2,0]] -> dim0 = 4, dim1 = 2}> | "
        "%t = local_trans %m {order = (1, 0)} : "
        "shared<2x4xf32, #linear{offset = [[1,0],[0,1],[0,2]] -> dim0 = 2, dim1 = 4}>",
    ),
)
def local_trans(mem: Type, *, order: tuple[int, ...]) -> Type:
    """View the same buffer with its axes permuted: axis i is axis `order[i]` of `mem`."""
    held = buffer("local_trans", mem)
    require(
        sorted(order) == list(range(len(held.dims))),
        f"local_trans of {mem} takes an order of its axes, not {order}",
    )
    assert isinstance(held.layout, LinearLayout)
    dims = tuple(held.dims[axis] for axis in order)
    return replace(held, dims=dims, layout=permute_axes(held.layout, order))


@op(
    levels=LOWERED,
    examples=(
        f"%m: shared<4xf32, {_ROW}> | %t = local_reshape %m {{shape = (2, 2)}} : "
        "shared<2x2xf32, #linear{offset = [[0,1],[1,0]] -> dim0 = 2, dim1 = 2}>",
    ),
)
def local_reshape(mem: Type, *, shape: tuple[int, ...]) -> Type:
    """View the same buffer with its elements, in row-major order, in another shape."""
    held = buffer("local_reshape", mem)
    require(
        math.prod(shape) == held.numel and all(n > 0 for n in shape),
        f"local_reshape of {mem} takes a shape of {held.numel} elements, not {list(shape)}",
    )
    assert isinstance(held.layout, LinearLayout)
    return replace(held, dims=tuple(shape), layout=reshape_axes(held.layout, shape))


@op(
    levels=LOWERED,
    examples=(
        f"%m: shared<4xf32, {_ROW}> | %t = local_part %m {{axis = 0, number = 1, count = 2}} : "
        "shared<2xf32, #linear{offset = [[1]] -> dim0 = 2}>",
    ),
)
def local_part(mem: Type, *, axis: int, number: int, count: int) -> Type:
    """View the part `number` of `count` equal parts along an axis, if each is contiguous."""
    held = buffer("local_part", mem)
    require(0 <= axis < len(held.dims), f"local_part of {mem} takes one of its axes, not {axis}")
    layout = part_layout(held, axis, count)
    require(
        layout is not None and 0 <= number < count,
        f"local_part of {mem} takes a contiguous part, not part {number} of {count}",
    )
    assert layout is not None
    return Shared(layout.shape, held.of, layout)


def part_layout(held: Shared, axis: int, count: int) -> LinearLayout | None:
    """Return the layout of `count` equal contiguous parts of a buffer; None if they are not."""
    assert isinstance(held.layout, LinearLayout)
    bits = count.bit_length() - 1
    if count < 1 or count != 1 << bits or held.dims[axis] % count:
        return None
    shape = [extent // count if at == axis else extent for at, extent in enumerate(held.dims)]
    bases = held.layout.bases(OFFSET)
    inner, outer = bases[: len(bases) - bits], bases[len(bases) - bits :]
    steps = [
        [shape[axis] << bit if at == axis else 0 for at in range(len(shape))] for bit in range(bits)
    ]
    if [list(basis) for basis in outer] != steps or any(
        basis[axis] >= shape[axis] for basis in inner
    ):
        return None
    return LinearLayout.of({OFFSET: inner}, shape)


# The operations whose results are views of a buffer.
VIEWS = frozenset({local_subview, local_trans, local_reshape, local_part})


def allocation(mem: Value) -> Operation | None:
    """Return the `local_alloc` of a buffer, if it is visible."""
    while mem.op is not None and mem.op.defn in VIEWS:
        mem = mem.op.inputs[0]
    return mem.op if mem.op is not None and mem.op.defn is local_alloc else None


@laid_out_op(
    examples=(f"%m: shared<4xf32, {_ROW}>, %x: tile<4xf32, {_LANES}> | local_store %m, %x",),
)
def local_store(mem: Type, x: Type) -> None:
    """Write a tile to a buffer."""
    held = buffer("local_store", mem)
    require(
        x == with_shape(held.dims, held.of), f"{mem} takes a tile of its shape and type, not {x}"
    )


@laid_out_op(
    traits={Trait.READS_SHARED},
    examples=(
        f"%m: shared<4xf32, {_ROW}> | %x = local_load %m : tile<4xf32, {_LANES}>",
        f"%m: shared<4xf32, {_ROW}> | %x = local_load %m {{mask = (3)}} : tile<4xf32, {_LANES}>",
    ),
)
def local_load(mem: Type, *, mask: tuple[int, ...] = (), result: Type) -> Type:
    """Read a buffer as a tile of any layout.

    With a `mask`, one number for each axis, element i is that at i XOR mask.
    """
    held = buffer("local_load", mem)
    shape = tuple(result.shape)
    require(
        isinstance(result, Tile) and with_shape(shape, result.of) == with_shape(held.dims, held.of),
        f"{mem} is read as a tile of its shape and type, not {result}",
    )
    require(
        len(mask) in (0, len(shape)) and all(0 <= m < n for m, n in zip(mask, shape, strict=False)),
        f"local_load of {list(shape)} takes a mask within that, not {mask}",
    )
    return result


def _stored(load: Operation) -> Value | None:
    """Return the tile that a load reads, if its buffer is written once, in the same block."""
    alloc = load["mem"].op
    if load["mask"] or alloc is None or alloc.defn is not local_alloc:
        return None
    stores = [user for user in alloc.result.users if user.defn is not local_load]
    if len(stores) != 1 or stores[0].defn is not local_store:
        return None
    # The buffer of each iteration of a loop is undefined before its store.
    return stores[0]["x"] if alloc.block is load.block is stores[0].block else None


SOURCES[local_load] = _stored


def _parts(name: str, mem: Shared, shape: Sequence[int], axis: int, *, of_buffer: bool) -> None:
    """Check that a buffer and a tile are a slice and the whole of one shape, along one axis."""
    whole, part = (mem.dims, shape) if of_buffer else (shape, mem.dims)
    require(
        -len(whole) <= axis < 0
        and len(part) == len(whole)
        and all(
            n == m or (a == axis % len(whole) and n % m == 0)
            for a, (n, m) in enumerate(zip(whole, part, strict=True))
        ),
        f"{name} has parts of {list(whole)} along axis {axis}, and {list(part)} is none",
    )


@laid_out_op(
    traits={Trait.READS_SHARED},
    examples=(
        f"%m: shared<4xf32, {_ROW}>, %i: i32 | "
        f"%x = local_load_slice %m, %i {{axis = -1}} : tile<2xf32, {_PAIR}>",
    ),
)
def local_load_slice(mem: Type, number: Type, *, axis: int, result: Type) -> Type:
    """Read a slice of a buffer along an axis as a tile of any layout.

    Slices have the result's extent along it; `number` counts them from 0, and is less than their
    number.
    """
    held = buffer("local_load_slice", mem)
    require(number == I32, f"local_load_slice takes a number of type i32, not {number}")
    require(
        isinstance(result, Tile) and result.of == held.of,
        f"local_load_slice of {mem} gives a tile of its type, not {result}",
    )
    _parts("local_load_slice", held, result.shape, axis, of_buffer=True)
    return result


@laid_out_op(
    examples=(
        f"%m: shared<2xf32, #linear{{offset = [[1]] -> dim0 = 2}}>, %x: tile<4xf32, {_LANES}>, "
        "%i: i32 | local_store_slice %m, %x, %i {axis = -1}",
    ),
)
def local_store_slice(mem: Type, x: Type, number: Type, *, axis: int) -> None:
    """Write a slice of a tile along an axis to a buffer.

    Slices have the buffer's extent along it; `number` counts them from 0.
    """
    held = buffer("local_store_slice", mem)
    require(number == I32, f"local_store_slice takes a number of type i32, not {number}")
    require(
        isinstance(x, Tile) and x.of == held.of,
        f"local_store_slice takes a tile of the type of {mem}, not {x}",
    )
    _parts("local_store_slice", held, x.shape, axis, of_buffer=False)


@laid_out_op(
    traits={Trait.READS_SHARED},
    examples=(
        f"%m: shared<4xf32, {_ROW}>, %i: tile<4xi32, {_LANES}> | "
        f"%x = local_gather %m, %i {{axis = -1}} : tile<4xf32, {_LANES}>",
    ),
)
def local_gather(mem: Type, index: Type, *, axis: int) -> Type:
    """Gather the elements of a buffer at positions `index` along an axis, in the index's layout.

    A position outside gives an undefined element, and reads within the buffer.
    """
    held = buffer("local_gather", mem)
    require(
        isinstance(index, Tile) and index.element in (I32, I64) and index.rank == len(held.dims),
        f"local_gather of {mem} takes an index of i32 or i64 of the same rank, not {index}",
    )
    return with_element(index, held.of)


@laid_out_op(
    examples=(
        "%m: shared<4xi32, #linear{offset = [[1],[2]] -> dim0 = 4}>, "
        f"%i: tile<4xi32, {_LANES}>, %c: tile<4xi1, {_LANES}> | local_atomic_inc %m, %i, %c",
    ),
)
def local_atomic_inc(mem: Type, index: Type, mask: Type) -> None:
    """Atomically add 1 to a buffer of rank 1 at each position where the mask is true.

    Each element of the index counts once, however many threads hold it.
    """
    held = buffer("local_atomic_inc", mem)
    require(len(held.dims) == 1 and held.of == I32, f"local_atomic_inc counts in i32, not in {mem}")
    require(index.element == I32, f"local_atomic_inc takes an index of i32, not {index}")
    require(
        mask == with_element(index, I1),
        f"local_atomic_inc takes a mask of the shape of {index}, not {mask}",
    )


@laid_out_op(
    examples=(
        f"%m: shared<4xf32, {_ROW}>, %x: tile<4xf32, {_LANES}>, %i: tile<4xi32, {_LANES}> | "
        "local_scatter %m, %x, %i {axis = -1}",
    ),
)
def local_scatter(mem: Type, x: Type, index: Type, *, axis: int) -> None:
    """Write the elements of a tile to positions `index` of a buffer along an axis.

    A position outside is another one inside.
    """
    held = buffer("local_scatter", mem)
    require(
        x == with_shape(held.dims, held.of), f"{mem} takes a tile of its shape and type, not {x}"
    )
    require(
        index == with_element(x, I32), f"local_scatter of {x} takes an index of i32, not {index}"
    )


@laid_out_op(
    examples=(
        "%m: shared<4xi32, #linear{offset = [[1],[2]] -> dim0 = 4}>, "
        f"%i: tile<4xi32, {_LANES}> | %r = local_ordered_inc %m, %i {{bits = 2}} : "
        f"tile<4xi32, {_LANES}>",
    ),
)
def local_ordered_inc(mem: Type, index: Type, *, bits: int) -> Type:
    """Add 1 to a buffer of rank 1 at each position, and return the numbers before.

    Elements of a warp come in the order of their registers, then of their lanes. The positions of
    a warp differ in their lowest `bits` bits alone, and no two warps have one position.
    """
    held = buffer("local_ordered_inc", mem)
    require(
        len(held.dims) == 1 and held.of == I32, f"local_ordered_inc counts in i32, not in {mem}"
    )
    require(index.element == I32, f"local_ordered_inc takes an index of i32, not {index}")
    require(bits >= 0, f"local_ordered_inc compares 0 bits or more, not {bits}")
    return index


@laid_out_op(
    effect=Effect.SHARED | Effect.READ,
    examples=(
        f"%m: shared<4xf32, {_ROW}>, %p: tile<4xptr<f32>, {_LANES}>, %c: tile<4xi1, {_LANES}> | "
        "local_cp_async %m, %p, %c {cache = cg, eviction = evict_first}",
    ),
)
def local_cp_async(
    mem: Type,
    ptr: Type,
    mask: Type | None = None,
    *,
    cache: CacheModifier = CacheModifier.NONE,
    eviction: Eviction = Eviction.NONE,
) -> None:
    """Begin an async copy of a tile from global memory to a buffer; zeros where the mask is false.

    Of several threads that hold an element the first copies it. The copy belongs to the group that
    the next `cp_async_commit_group` commits, and is complete, for the waiting thread, after a
    `cp_async_wait_group` for that group. `cache` and `eviction` are hints, as those of a `load`.
    """
    held = buffer("local_cp_async", mem)
    source = with_element(ptr, pointee("local_cp_async", ptr))
    require(source == with_shape(held.dims, held.of), f"{mem} takes no copy of {source}")
    require(
        mask in (None, with_element(ptr, I1)),
        f"local_cp_async through {ptr} takes a mask of that shape, not {mask}",
    )


@lowered_op(examples=("cp_async_commit_group",))
def cp_async_commit_group() -> None:
    """Commit a group of async copies: those begun since the last commit."""


@lowered_op(examples=("cp_async_wait_group {pending = 1}",))
def cp_async_wait_group(*, pending: int) -> None:
    """Wait until at most `pending` groups of this thread are in flight."""
    require(pending >= 0, f"cp_async_wait_group leaves 0 or more groups pending, not {pending}")
