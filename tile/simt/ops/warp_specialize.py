"""Warp specialization: warps besides those of the program, with code of their own.

The program's warps hold its tiles. A *producer* partition has warps of its own, which only issue
TMA loads. The two synchronize by mbarriers alone: a stage of a multi-buffer is full when its TMA
loads have arrived, and empty when all warps of the program have arrived.

    mbarrier_init %full; mbarrier_init %empty {count = 8}
    fence_proxy_async
    barrier                                             all warps, of either partition
    warp_specialize {num_warps = 4, registers = (40, 232)} region producer() {
      for .. iter(%i = %0) {                            the producer
        mbarrier_wait %empty, %i {stage_offset = -3}
        mbarrier_arrive_expect_tx %full, %i, %yes {size = 4096}
        tma_load %m, %full, %i, %yes, ..
        ..
      }
      yield
    }
    for .. iter(%i = %0) {                              the program
      mbarrier_wait %full, %i
      .. = wgmma ..
      mbarrier_arrive %empty, %i
    }
"""

from __future__ import annotations

from tile.ir.core import Block
from tile.ir.declare import lowered_op
from tile.ir.op_definition import Effect
from tile.ir.ops.control import takes, yields
from tile.ir.types import require

WARPGROUP_WARPS = 4
# Registers of a thread are allocated in steps of 8, from 24 to 256 (PTX ISA, "setmaxnreg").
REGISTER_STEP, LEAST_REGISTERS, MOST_REGISTERS = 8, 24, 256


@lowered_op(
    effect=Effect.NESTED | Effect.SHARED,
    examples=(
        "warp_specialize {num_warps = 4, registers = (40, 232)} region producer() {\n  yield\n}",
    ),
)
def warp_specialize(*, producer: Block, num_warps: int, registers: tuple[int, ...]) -> None:
    """Run `producer` on `num_warps` further warps, concurrently with the rest of the kernel.

    Kernels have at most one of it, in their outermost block. The warps of both partitions execute
    what precedes it, the program's alone what follows. `registers` of a thread are those that
    producer and program have from here on (PTX ISA, "setmaxnreg"). A `barrier` after this operation
    is one of the program's warps.
    """
    takes("the region of warp_specialize", producer, ())
    yields("the region of warp_specialize", producer, ())
    require(
        num_warps > 0 and num_warps % WARPGROUP_WARPS == 0,
        f"warp_specialize takes warpgroups of {WARPGROUP_WARPS} warps, not {num_warps} warps",
    )
    legal = range(LEAST_REGISTERS, MOST_REGISTERS + 1, REGISTER_STEP)
    require(
        len(registers) == 2 and all(count in legal for count in registers),
        "warp_specialize takes registers of producer and program, multiples of "
        f"{REGISTER_STEP} from {LEAST_REGISTERS} to {MOST_REGISTERS}, not {registers}",
    )
