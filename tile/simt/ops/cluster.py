"""Clusters of two programs, which load what both need once: multicast.

Programs `2 i` and `2 i + 1` along axis 0 of the grid form a cluster, if it is launched in clusters.
They run at the same time, and reach each other's shared memory. If both load a block in the same
iteration, each loads half of it, and TMA writes that to the shared memory of both. So a stage of a
multi-buffer is full when the bytes of both loads have arrived, and empty when the warps of both
programs have arrived:

    %size = cluster_size
    mbarrier_init %full; mbarrier_init %empty {count = 16}    8 warps of either program
    fence_proxy_async
    barrier
    cluster_arrive {relaxed = true}                 the other one's mbarriers are initialized
    cluster_wait
    warp_specialize {..} region producer() {
      mbarrier_wait %empty, %i {stage_offset = -3}
      mbarrier_arrive_expect_tx %full, %i, %yes {size = 4096}     of the whole block
      tma_load %m, %full, %i, %no, ..               if it is another block
      tma_load_multicast %m, %full, %i, %yes, ..    if it is the same
    }
    mbarrier_wait %full, %i
    ..
    mbarrier_arrive_pair %empty, %i, %paired
    ..
    cluster_arrive                                  the other one uses the mbarriers no more
    cluster_wait
    mbarrier_inval %full; mbarrier_inval %empty

A program that is alone, or whose peer has no such iteration, arrives twice on its own mbarriers.

Programs of any cluster may also exchange numbers (`cluster_gather`). Each writes them to a buffer
in all of them, which has stages as multi-buffers have, and waits for those of all programs:

    %m = local_alloc : shared<8xi64, #s>            two mbarriers, and two stages of two numbers
    cluster_exchange_init %m
    cluster_arrive {relaxed = true}
    ..
    cluster_wait                                    all mbarriers are initialized
    %a, %b = cluster_exchange %m, %x {size = 2}

A program writes to a stage again when it has received what the others sent one exchange ago. They
had read this stage by then, with all of their threads. So nobody waits for that. And since a
program waits for all that is sent to it, none ends too early.

(PTX ISA, "barrier.cluster", "mapa", "cp.async.bulk.tensor" with `.multicast::cluster`.)
"""

from __future__ import annotations

from collections.abc import Sequence

from tile.ir.declare import lowered_op, op
from tile.ir.op_definition import LOWERED, Effect, Trait
from tile.ir.types import I1, I32, I64, Type, number_of, require
from tile.simt.ops.shared import buffer
from tile.simt.ops.tma import (
    BLOCK,
    MBARRIERS,
    NUMBERS,
    check_block,
    check_extents,
    check_mbarriers,
)

PAIR = 2  # programs of a cluster whose loads are multicast
EXCHANGE_STAGES = 2  # of a buffer for exchanges
_EXCHANGED = "shared<8xi64, #linear{offset = [[1],[2],[4]] -> dim0 = 8}>"


@op(levels=LOWERED, examples=("%n = cluster_size : i32",))
def cluster_size() -> Type:
    """Return the number of programs in this program's cluster; 1 without clusters."""
    return I32


@lowered_op(
    effect=Effect.SYNC,
    examples=("cluster_arrive", "cluster_arrive {relaxed = true}"),
)
def cluster_arrive(*, relaxed: bool = False) -> None:
    """Arrive at the barrier of the cluster, with all threads of the program that have not ended.

    What they did before is visible to programs that wait for it. If it is `relaxed`, only that they
    initialized mbarriers is.
    """


@lowered_op(effect=Effect.SYNC, examples=("cluster_wait",))
def cluster_wait() -> None:
    """Wait until all programs of the cluster have arrived as often as this one."""


@lowered_op(examples=(f"%b: {MBARRIERS}, %t: i32, %p: i1 | mbarrier_arrive_pair %b, %t, %p",))
def mbarrier_arrive_pair(
    bars: Type, iteration: Type, paired: Type, *, stage_offset: int = 0
) -> None:
    """Arrive on the mbarrier of `iteration + stage_offset` of both programs of the cluster.

    Each warp of the program arrives once on either; twice on its own unless they are `paired`.
    """
    check_mbarriers("mbarrier_arrive_pair", bars, iteration)
    require(paired == I1, f"mbarrier_arrive_pair takes a predicate of type i1, not {paired}")


@lowered_op(
    traits={Trait.ASYNC_PROXY},
    effect=Effect.SHARED | Effect.READ,
    examples=(
        f"%m: {BLOCK}, %b: {MBARRIERS}, %t: i32, %c: i1, %p: ptr<f16>, {NUMBERS} | "
        "tma_load_multicast %m, %b, %t, %c, %p, %n0, %n1, %s, %i, %j",
    ),
)
def tma_load_multicast(
    mem: Type,
    bars: Type,
    iteration: Type,
    active: Type,
    ptr: Type,
    *numbers: Type,
    stage_offset: int = 0,
    extents: tuple[int, ...] = (),
) -> None:
    """Begin to load half of a descriptor block to the shared memory of both programs of a cluster.

    The program of even number loads the first half of the bytes, the other one the second.
    Each half arrives on the mbarrier of `iteration + stage_offset` of both. Both programs do so, at
    the same iteration and with the same block. All else is as for `tma_load`.
    """
    check_mbarriers("tma_load_multicast", bars, iteration, active)
    check_block("tma_load_multicast", mem, ptr, numbers)
    check_extents("tma_load_multicast", mem, extents)


@lowered_op(effect=Effect.SYNC, examples=(f"%m: {_EXCHANGED} | cluster_exchange_init %m",))
def cluster_exchange_init(mem: Type) -> None:
    """Initialize the mbarriers at the start of a buffer for exchanges."""
    buffer("cluster_exchange_init", mem)


@lowered_op(
    effect=Effect.SYNC,
    examples=(
        f"%m: {_EXCHANGED}, %x: f32, %y: f32 | "
        "%a, %b, %c, %d = cluster_exchange %m, %x, %y {size = 2} : f32, f32, f32, f32",
    ),
)
def cluster_exchange(mem: Type, *values: Type, size: int) -> tuple[Type, ...]:
    """Write numbers to a buffer of all programs of the cluster, and return theirs.

    Results are those of `cluster_gather`. It is a barrier of the threads of the program, too.
    """
    held = buffer("cluster_exchange", mem)
    needed = exchange_words(size, values)
    require(
        held.of == I64 and held.numel >= needed,
        f"cluster_exchange takes a buffer of {needed} i64 or more, not {mem}",
    )
    return tuple(ty for ty in values for _ in range(size))


def exchange_words(size: int, values: Sequence[Type]) -> int:
    """Return the numbers of 64 bits that an exchange takes: mbarriers, and stages of the values."""
    bits = EXCHANGE_STAGES * size * sum(number_of(ty).bits for ty in values)
    return EXCHANGE_STAGES + -(-bits // I64.bits)
