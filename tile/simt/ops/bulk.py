"""Copies of whole boxes of an array to shared memory and back, and barriers on which they arrive.

A bulk copy is begun by one thread of the program, the first, and done by the machine meanwhile. It
arrives on a *barrier*, a number in shared memory, which has been told how many bytes to expect; all
threads wait for that. Barriers come in rings, as the buffers do that are filled:

    %b = alloc : shared<1xi64, #linear{offset = [] -> dim0 = 1}, stages = 3>
    barrier_init %b
    group_fence                                        the machine sees the barriers
    barrier                                            and so do the other threads
    barrier_expect %b, %turn, %yes {size = 4096}      turn t has barrier t mod 3
    bulk_copy %m, %b, %turn, %yes, %base, ...
    barrier_wait %b, %turn                             all threads may read %m from here on
    barrier
    barrier_free %b                                    the memory may be used for something else

A barrier is used again and again: it counts its *phases*, one for each time that all it expects has
arrived, and turn t waits for phase t div stages to end. A turn is waited for before the next one on
the same barrier is told what to expect.

Before a buffer is filled that threads have touched, they pass a barrier; what they wrote there, or
where a barrier is made, they tell the machine by a `group_fence`.
"""

from __future__ import annotations

from tile.ir.levels import LOWERED
from tile.ir.opdef import Effect, op
from tile.ir.ops.memory import pointee
from tile.ir.types import I1, I32, I64, Shared, Type, require, with_shape
from tile.simt.layouts.swizzle import byte_swizzled
from tile.simt.ops.shared import buffer

_RING = "shared<1xi64, #linear{offset = [] -> dim0 = 1}, stages = 2>"
_BOX = f"shared<16x16xf16, {byte_swizzled([16, 16], 16, 32, (1, 0))}>"
_NUMBERS = "%n0: i32, %n1: i32, %s: i64, %i: i32, %j: i32"


def _ring(name: str, bars: Type) -> Shared:
    require(
        isinstance(bars, Shared) and bars.dims == (1,) and bars.of == I64,
        f"{name} takes a ring of barriers, shared<1xi64, stages = n>, not {bars}",
    )
    assert isinstance(bars, Shared)
    return bars


def _turn(name: str, turn: Type, active: Type, shift: int) -> None:
    require(turn == I32, f"{name} takes a turn of type i32, not {turn}")
    require(active == I1, f"{name} is done or not by a scalar i1, not {active}")
    require(shift >= 0, f"{name} takes a shift from 0 on, not {shift}")


@op(effect=Effect.SHARED, levels=LOWERED, examples=(f"%b: {_RING} | barrier_init %b",))
def barrier_init(bars: Type) -> None:
    """Make the barriers of a ring, by the first thread.

    Others may wait for them after a `barrier`, and copies arrive on them after a `group_fence`.
    """
    _ring("barrier_init", bars)


@op(effect=Effect.SHARED, levels=LOWERED, examples=(f"%b: {_RING} | barrier_free %b",))
def barrier_free(bars: Type) -> None:
    """End the barriers of a ring, by the first thread, after all threads have waited for them."""
    _ring("barrier_free", bars)


@op(
    effect=Effect.SHARED,
    levels=LOWERED,
    examples=(
        f"%b: {_RING}, %t: i32, %c: i1 | barrier_expect %b, %t, %c {{size = 512, shift = 1}}",
    ),
)
def barrier_expect(bars: Type, turn: Type, active: Type, *, size: int, shift: int = 0) -> None:
    """Tell the barrier of turn `turn + shift` the size, in bytes, of all that copies bring for it.

    The first thread does, if the turn is `active`, which is the same for all threads.
    """
    _ring("barrier_expect", bars)
    _turn("barrier_expect", turn, active, shift)
    require(size > 0, f"barrier_expect is for a size of bytes from 1 on, not {size}")


@op(
    effect=Effect.SHARED,
    levels=LOWERED,
    examples=(f"%b: {_RING}, %t: i32 | barrier_wait %b, %t",),
)
def barrier_wait(bars: Type, turn: Type, *, shift: int = 0) -> None:
    """Wait until all that turn `turn + shift` expects has arrived; every thread does.

    What came there it may then read, and products may that begin later.
    """
    _ring("barrier_wait", bars)
    _turn("barrier_wait", turn, I1, shift)


@op(
    effect=Effect.SHARED | Effect.READ,
    levels=LOWERED,
    examples=(
        f"%m: {_BOX}, %b: {_RING}, %t: i32, %c: i1, %p: ptr<f16>, {_NUMBERS} | "
        "bulk_copy %m, %b, %t, %c, %p, %n0, %n1, %s, %i, %j",
    ),
)
def bulk_copy(
    mem: Type, bars: Type, turn: Type, active: Type, ptr: Type, *numbers: Type, shift: int = 0
) -> None:
    """Begin to copy a box of an array to a buffer, to arrive on the barrier of `turn + shift`.

    The array is at `ptr`, of rank 2: `numbers` are its extents (i32), its first stride in elements
    (i64; the last one is 1), and the index of the box's first element (i32), which may be negative.
    What is outside of the array is filled up with zeros, and counts as brought. The address and the
    stride in bytes are multiples of 16, and the buffer is in the order of a `byte_swizzled` layout
    along the last axis. The first thread begins it, if the turn is `active`.
    """
    _ring("bulk_copy", bars)
    _turn("bulk_copy", turn, active, shift)
    _box("bulk_copy", mem, ptr, numbers)


@op(
    effect=Effect.SHARED | Effect.WRITE,
    levels=LOWERED,
    examples=(f"%m: {_BOX}, %p: ptr<f16>, {_NUMBERS} | bulk_store %m, %p, %n0, %n1, %s, %i, %j",),
)
def bulk_store(mem: Type, ptr: Type, *numbers: Type) -> None:
    """Copy a buffer to a box of an array, of which what is outside is not written.

    The array and the buffer are as for `bulk_copy`. The first thread does it, and waits until it is
    done. What others wrote to the buffer they told the machine by a `group_fence`.
    """
    _box("bulk_store", mem, ptr, numbers)


NUMBERS = (I32, I32, I64, I32, I32)  # two extents, a stride, two indices


def _box(name: str, mem: Type, ptr: Type, numbers: tuple[Type, ...]) -> None:
    """Refuse a buffer, an array and numbers that do not go together."""
    held = buffer(name, mem)
    require(len(held.dims) == 2, f"{name} takes a buffer of rank 2, not {mem}")
    found = with_shape(held.dims, pointee(name, ptr))
    require(found == with_shape(held.dims, held.of), f"{name} of {mem} takes no {ptr}")
    require(
        numbers == NUMBERS,
        f"{name} takes numbers of types ({_list(NUMBERS)}), not ({_list(numbers)})",
    )


def _list(types: tuple[Type, ...]) -> str:
    return ", ".join(map(str, types))
