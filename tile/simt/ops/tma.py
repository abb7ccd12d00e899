"""TMA loads, stores and reductions of descriptor blocks, and the mbarriers of TMA loads.

A TMA load is issued by one thread of the program, the first, and executed asynchronously. It
completes on an *mbarrier*, a 64-bit object in shared memory, after the first thread has set the
number of bytes to expect there; all threads wait for that. Like the buffers that TMA loads fill,
mbarriers form multi-buffers:

    %b = local_alloc : shared<1xi64, #linear{offset = [] -> dim0 = 1}, stages = 3>
    mbarrier_init %b
    fence_proxy_async                               make the mbarriers visible to TMA
    barrier                                         and to the other threads
    mbarrier_arrive_expect_tx %b, %i, %yes {...}    iteration i uses mbarrier i mod 3
    tma_load %m, %b, %i, %yes, %base, ...
    mbarrier_wait %b, %i                            all threads may read %m from here on
    barrier
    mbarrier_inval %b                               the memory may be reused

An mbarrier is reused: it counts its *phases*, one for each time that all expected bytes have
arrived, and iteration i waits for phase i div stages to complete. An iteration is waited for before
the next one on the same mbarrier sets its expected bytes.

Before a buffer that threads have accessed is filled, they pass a barrier, or wait on an mbarrier on
which all warps have arrived since (`mbarrier_arrive`); their writes to it, or the initialization of
an mbarrier, are made visible to TMA by a `fence_proxy_async` (fence.proxy.async).
"""

from __future__ import annotations

from tile.ir.core import Operation, Value
from tile.ir.declare import lowered_op
from tile.ir.op_definition import Effect, Trait
from tile.ir.ops.descriptor import check_numbers, check_window
from tile.ir.ops.memory import RMWKind, pointee
from tile.ir.shared_type import Shared
from tile.ir.types import BF16, F16, F32, I1, I32, I64, U32, U64, Scalar, Type, require
from tile.simt.layouts.blocked import grid_of, row_major
from tile.simt.layouts.dims import REGISTER, WARP, axis_name
from tile.simt.layouts.linear_layout import LinearLayout, identity1d, zeros1d
from tile.simt.layouts.swizzle import byte_swizzled
from tile.simt.ops.shared import buffer
from tile.simt.ops.warp_specialize import WARPGROUP_WARPS

MAX_RANK = 5  # of the arrays that TMA copies
ROWS = 8  # after which TMA's swizzles repeat

MBARRIERS = "shared<1xi64, #linear{offset = [] -> dim0 = 1}, stages = 2>"
BLOCK = f"shared<16x16xf16, {byte_swizzled([16, 16], 16, 32, (1, 0))}>"
NUMBERS = "%n0: i32, %n1: i32, %s: i64, %i: i32, %j: i32"


def check_mbarriers(name: str, bars: Type, iteration: Type = I32, active: Type = I1) -> None:
    """Raise for mbarriers, an iteration or a predicate of another type."""
    require(
        isinstance(bars, Shared) and bars.dims == (1,) and bars.of == I64,
        f"{name} takes mbarriers, shared<1xi64, stages = n>, not {bars}",
    )
    require(iteration == I32, f"{name} takes an iteration of type i32, not {iteration}")
    require(active == I1, f"{name} takes a predicate of type i1, not {active}")


@lowered_op(
    examples=(
        f"%b: {MBARRIERS} | mbarrier_init %b",
        f"%b: {MBARRIERS} | mbarrier_init %b {{count = 8}}",
    ),
)
def mbarrier_init(bars: Type, *, count: int = 1) -> None:
    """Initialize the mbarriers of a multi-buffer, by the first thread.

    A phase completes after `count` threads have arrived, and all bytes expected by then.
    Other threads may wait for them after a `barrier`, and TMA loads arrive on them after a
    `fence_proxy_async`.
    """
    check_mbarriers("mbarrier_init", bars)
    require(count > 0, f"mbarrier_init takes a count of 1 thread or more, not {count}")


@lowered_op(examples=(f"%b: {MBARRIERS} | mbarrier_inval %b",))
def mbarrier_inval(bars: Type) -> None:
    """Invalidate the mbarriers of a multi-buffer, by the first thread, after all have waited."""
    check_mbarriers("mbarrier_inval", bars)


@lowered_op(
    traits={Trait.ASYNC_PROXY},
    examples=(
        f"%b: {MBARRIERS}, %t: i32, %c: i1 | mbarrier_arrive_expect_tx %b, %t, %c "
        f"{{size = 512, stage_offset = 1}}",
    ),
)
def mbarrier_arrive_expect_tx(
    bars: Type, iteration: Type, active: Type, *, size: int, stage_offset: int = 0
) -> None:
    """Arrive on the mbarrier of `iteration + stage_offset` and expect `size` bytes of TMA loads.

    The first thread does so, if the iteration is `active`, which is the same for all threads.
    """
    check_mbarriers("mbarrier_arrive_expect_tx", bars, iteration, active)
    require(size > 0, f"mbarrier_arrive_expect_tx takes a size of 1 byte or more, not {size}")


@lowered_op(examples=(f"%b: {MBARRIERS}, %t: i32 | mbarrier_wait %b, %t",))
def mbarrier_wait(bars: Type, iteration: Type, *, stage_offset: int = 0) -> None:
    """Wait in every thread of the partition for the phase of `iteration + stage_offset`.

    It completes when all warps have arrived, and all bytes expected; a negative one is complete.
    What TMA has loaded may then be read by the thread, and by wgmmas that it issues later. Threads
    that have waited for all warps to arrive, or a partition that has for another one, may overwrite
    by TMA what these read before.
    """
    check_mbarriers("mbarrier_wait", bars, iteration)


@lowered_op(examples=(f"%b: {MBARRIERS}, %t: i32 | mbarrier_arrive %b, %t",))
def mbarrier_arrive(bars: Type, iteration: Type, *, stage_offset: int = 0) -> None:
    """Arrive on the mbarrier of `iteration + stage_offset`, once for each warp of the program."""
    check_mbarriers("mbarrier_arrive", bars, iteration)


@lowered_op(
    traits={Trait.ASYNC_PROXY},
    effect=Effect.SHARED | Effect.READ,
    examples=(
        f"%m: {BLOCK}, %b: {MBARRIERS}, %t: i32, %c: i1, %p: ptr<f16>, {NUMBERS} | "
        "tma_load %m, %b, %t, %c, %p, %n0, %n1, %s, %i, %j",
        f"%m: {BLOCK}, %b: {MBARRIERS}, %t: i32, %c: i1, %p: ptr<f16>, {NUMBERS} | "
        "tma_load %m, %b, %t, %c, %p, %n0, %n1, %s, %i, %j {extents = (8, 16)}",
    ),
)
def tma_load(
    mem: Type,
    bars: Type,
    iteration: Type,
    active: Type,
    ptr: Type,
    *numbers: Type,
    stage_offset: int = 0,
    extents: tuple[int, ...] = (),
) -> None:
    """Begin a TMA load of a descriptor block.

    It arrives on the mbarrier of `iteration + stage_offset`. The array is at `ptr`, of the rank of
    the buffer, 1 to 5: `numbers` are its extents (i32), its strides in elements (i64) except the
    last one, which is 1, and the index of the block's first element (i32), which may be negative.
    Elements outside of the array are filled with zeros, and count as arrived bytes. The address,
    the strides and the index along the last axis are multiples of 16 bytes, and the buffer has a
    layout of `tile/simt/hopper/tma_boxes.py`. The first thread issues it, if the iteration is
    `active`.

    `extents`, unless empty, are those of the part of a block that is used: fewer elements along the
    last axis, or along the one before if that is the first of more than one element. TMA copies
    that part, in whole strips. Other elements of the buffer keep their bytes.
    """
    check_mbarriers("tma_load", bars, iteration, active)
    check_block("tma_load", mem, ptr, numbers)
    check_extents("tma_load", mem, extents)


@lowered_op(
    traits={Trait.ASYNC_PROXY},
    effect=Effect.SHARED | Effect.READ,
    examples=(
        f"%m: {BLOCK}, %b: {MBARRIERS}, %t: i32, %c: i1, %p: ptr<f16>, %n: i32, %w: i32, "
        "%d: i32, %s: i64, %u: i64, %i: i32, %x: i32, %k: i32, %r: i32 | "
        "tma_load_im2col %m, %b, %t, %c, %p, %n, %w, %d, %s, %u, %i, %x, %k, %r "
        "{lower = (-1), upper = (-1), steps = (1)}",
    ),
)
def tma_load_im2col(
    mem: Type,
    bars: Type,
    iteration: Type,
    active: Type,
    ptr: Type,
    *numbers: Type,
    stage_offset: int = 0,
    lower: tuple[int, ...],
    upper: tuple[int, ...],
    steps: tuple[int, ...],
) -> None:
    """Begin a TMA load in im2col mode: of a block of pixels and channels of images.

    `numbers`, `lower`, `upper` and `steps` are as for `im2col_pointers`; the buffer has an axis of
    pixels and one of channels. From the first pixel on, TMA walks along the last spatial axis in
    steps, until the last index plus `upper`; then from `lower` along the next one; then to the next
    image. It reads each pixel at its index plus the offsets. All else is as for `tma_load`.
    """
    name = "tma_load_im2col"
    check_mbarriers(name, bars, iteration, active)
    rank = _check_buffer(name, mem, ptr)
    require(rank == 2, f"{name} takes a buffer of rank 2, not {mem}")
    check_window(name, numbers, lower, upper, steps)


@lowered_op(
    traits={Trait.ASYNC_PROXY},
    effect=Effect.SHARED | Effect.WRITE,
    examples=(f"%m: {BLOCK}, %p: ptr<f16>, {NUMBERS} | tma_store %m, %p, %n0, %n1, %s, %i, %j",),
)
def tma_store(mem: Type, ptr: Type, *numbers: Type, warpgroups: int = 1, axis: int = -2) -> None:
    """Begin to store a buffer to a descriptor block; elements outside of the array are not written.

    The array and the buffer are as for `tma_load`. The first thread issues it. A `tma_store_wait`
    for the same buffer comes before the buffer is written again, and before the kernel ends. Writes
    of other threads to the buffer are made visible to it by a `fence_proxy_async`.

    With several `warpgroups`, the first thread of each stores its own part along `axis`, in order.
    """
    check_block("tma_store", mem, ptr, numbers)
    _check_warpgroups("tma_store", mem, warpgroups, axis)


def _check_warpgroups(name: str, mem: Type, warpgroups: int, axis: int) -> None:
    part = part_of_warpgroup(mem, warpgroups, axis) if warpgroups > 1 else warpgroups == 1
    require(
        bool(part),
        f"{name} divides a block among warpgroups, and {mem} has no part along axis {axis} for "
        f"each of {warpgroups}",
    )


def part_of_warpgroup(mem: Type, warpgroups: int, axis: int) -> LinearLayout | None:
    """Return the elements of a block that each warpgroup has if it has a part of its own, in order.

    None unless all have as many rows, in whole periods of a swizzle, or as many columns.
    """
    assert isinstance(mem, Shared)
    unit = {-2: ROWS, -1: 1}.get(axis)
    if unit is None or len(mem.dims) < 2 or set(mem.dims[:-2]) > {1}:
        return None
    if mem.dims[axis] % (unit * warpgroups):
        return None
    shape, name = list(mem.dims), axis_name(len(mem.dims) + axis)
    shape[axis] //= warpgroups
    own = grid_of(REGISTER, shape, row_major(len(shape)))
    each = zeros1d(WARPGROUP_WARPS, WARP, name) * identity1d(warpgroups, WARP, name)
    return own * each


# The elements that TMA combines in memory. (PTX ISA, "cp.reduce.async.bulk.tensor"; it has minima
# and maxima of f16 and bf16, too, and does not say what they are of a NaN.)
_INTEGERS = (I32, U32, I64, U64)
REDUCE_ELEMENTS: dict[RMWKind, tuple[Scalar, ...]] = {
    RMWKind.ADD: (*_INTEGERS, F16, BF16, F32),
    **dict.fromkeys((RMWKind.MIN, RMWKind.MAX, RMWKind.AND, RMWKind.OR, RMWKind.XOR), _INTEGERS),
}


@lowered_op(
    traits={Trait.ASYNC_PROXY},
    effect=Effect.SHARED | Effect.READ | Effect.WRITE,
    examples=(
        f"%m: {BLOCK}, %p: ptr<f16>, {NUMBERS} | "
        "tma_reduce %m, %p, %n0, %n1, %s, %i, %j {kind = add}",
    ),
)
def tma_reduce(
    mem: Type, ptr: Type, *numbers: Type, kind: RMWKind, warpgroups: int = 1, axis: int = -2
) -> None:
    """Begin to combine a buffer into a descriptor block: into each element that is in bounds.

    Each element is combined by a relaxed atomic operation of device scope. All else is as for
    `tma_store`, and a `tma_store_wait` waits for it as for a store.
    """
    check_block("tma_reduce", mem, ptr, numbers)
    _check_warpgroups("tma_reduce", mem, warpgroups, axis)
    assert isinstance(mem, Shared)
    allowed = REDUCE_ELEMENTS.get(kind, ())
    require(
        mem.of in allowed,
        f"tma_reduce {{kind = {kind}}} is not defined on {mem.of}; it takes "
        f"{', '.join(map(str, allowed)) or 'nothing'}",
    )


@lowered_op(examples=(f"%m: {BLOCK} | tma_store_wait %m {{pending = 1, read = true}}",))
def tma_store_wait(
    mem: Type, *, pending: int = 0, read: bool = False, warpgroups: int = 1, axis: int = -2
) -> None:
    """Wait, in the first thread, until its TMA stores and reductions are complete.

    With `read`, until they have read their buffers, of which `mem` is one: it is free then. The
    last `pending` stores may still be in flight. Other threads may write to the buffer, and see
    what has been stored, after a `barrier`.

    With several `warpgroups`, the first thread of each waits, as for `tma_store`.
    """
    buffer("tma_store_wait", mem)
    require(pending >= 0, f"tma_store_wait leaves 0 or more stores pending, not {pending}")
    _check_warpgroups("tma_store_wait", mem, warpgroups, axis)


def array_operands(op: Operation) -> tuple[list[Value], list[Value], list[Value], list[Value]]:
    """Return the extents, the strides, the index and the offsets of a TMA operation.

    There is one stride less than extents, as the last one is 1. Only im2col mode has offsets.
    """
    offsets = len(op["lower"]) if op.defn is tma_load_im2col else 0
    rank = offsets + 2 if offsets else len(op["mem"].type.dims)
    numbers = op.inputs[1 - 3 * rank - offsets :]
    ends = (rank, 2 * rank - 1, 3 * rank - 1)
    starts = (0, *ends[:-1])
    extents, strides, index = (numbers[a:b] for a, b in zip(starts, ends, strict=True))
    return extents, strides, index, numbers[ends[-1] :]


def check_block(name: str, mem: Type, ptr: Type, numbers: tuple[Type, ...]) -> None:
    """Raise for a buffer, an array and numbers that do not fit together."""
    rank = _check_buffer(name, mem, ptr)
    require(1 <= rank <= MAX_RANK, f"{name} takes a buffer of rank 1 to {MAX_RANK}, not {mem}")
    check_numbers(name, numbers, rank)


def check_extents(name: str, mem: Type, extents: tuple[int, ...]) -> None:
    """Raise for extents of a part that TMA does not copy."""
    dims = buffer(name, mem).dims
    if not extents:
        return
    require(
        len(extents) == len(dims)
        and extents[:-2] == dims[:-2]
        and all(0 < n <= most for n, most in zip(extents, dims, strict=True))
        and (extents[-2:-1] == dims[-2:-1] or set(dims[:-2]) <= {1}),
        f"{name} of {mem} copies no part of extents {extents}",
    )


def _check_buffer(name: str, mem: Type, ptr: Type) -> int:
    """Return the rank of a buffer; raise unless `ptr` points to its elements."""
    held = buffer(name, mem)
    require(pointee(name, ptr) == held.of, f"{name} of {mem} takes no {ptr}")
    return len(held.dims)
