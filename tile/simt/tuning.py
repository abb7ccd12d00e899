"""Tuning constants of the SIMT lowering: numbers by which passes choose among correct programs.

They are data of a target (`SimtTarget.tuning`), apart from what the machine can do.
"""

from __future__ import annotations

from dataclasses import dataclass

from tile.ir.core import Operation
from tile.ir.op_definition import Trait
from tile.measured import constant


@dataclass(frozen=True)
class TuningConstants:
    """The constants of the SIMT lowering.

    Costs are in instructions of a thread, unless another unit is named.
    """

    # -- loops

    # Loops without dots of at most this many iterations are unrolled fully.
    unrolled_iterations: int = constant(4, "docs/notes/rows.md#loops-of-a-few-iterations")

    # -- layouts

    # Fixed cost of a layout conversion between threads, however small the tile: they synchronize.
    conversion_sync_cost: int = constant(32)
    # Cost of a sector of global memory, where the issue of an access costs 1: for each instruction
    # L1 delivers four sectors to a warp and requests one from L2.
    sector_cost: float = constant(0.5, "docs/results/traffic.md: vector_add 49.5 to 92.3 %")
    # Cost of a division, a remainder or a mathematical function on one element.
    long_op_cost: int = constant(8)
    # So many quotients by one divisor take twice as long as multiplications by its reciprocal: 35
    # instructions once, and 8 less for each quotient.
    divisions_by_reciprocal: int = constant(12)
    # The same for floats, where division multiplies by a reciprocal anyway: 10 instructions and up
    # to 7 registers once, and 1 instruction less for each quotient.
    quotients_by_reciprocal: int = constant(48)
    # A conversion outside a loop costs this many times less than one inside: its trip count.
    loop_weight: int = constant(4)
    # A tile with at most this many registers a thread is loaded in the layout of its users,
    # although several threads then load the same elements.
    replicated_registers: int = constant(8)
    # A value that takes up to this many operations, with those of its operands, is recomputed in
    # another layout rather than converted when layouts are assigned.
    recomputed_ops: int = constant(24)
    # Operations that `remove-conversions` considers to recompute for one conversion, operations
    # that it considers to move above one, and its sweeps over a function. They bound compile time.
    rematerialized_ops: int = constant(32)
    crossed_ops: int = constant(16)
    conversion_sweeps: int = constant(3)

    # -- shared memory

    # Cost of a barrier, in instructions that move 32 bits for every lane. A conversion through
    # shared memory takes two: one after the store, one before the memory is reused.
    barrier_cost: int = constant(16)
    # Register selections that take as long as one such instruction.
    selections_per_shuffle: int = constant(4)
    # A conversion takes at most 1 / `conversion_share` of shared memory, in slices if necessary.
    conversion_share: int = constant(2)
    # Buffers are placed side by side, which saves barriers, up to 1 / `resident_programs` of shared
    # memory: with so little, about so many programs are co-resident anyway.
    resident_programs: int = constant(16)
    # Trip count of a loop when barriers inside and outside of it are compared.
    barrier_trip_count: int = constant(8)

    # -- operands

    # Dots of 32-bit elements whose `b` is MN-major become transposes of dots that have it as `a`,
    # in registers.
    transposed_dots: bool = constant(
        True,
        "docs/notes/hopper.md#transposing-b-in-shared-memory: H200, 2026-11-26: .91 of cuBLAS, "
        "where .69 without",
    )

    # -- registers

    # A thread gathers partial results of a reduction in registers while loading and combining them
    # takes at most so many instructions; the rest go to lanes that hold copies, if there are any.
    gathered_instructions: int = constant(16, "docs/notes/rows.md#loops-of-a-few-iterations")
    # Warps exchange partial results, so that none repeats what others combine, where these are at
    # least so many instructions.
    repeated_instructions: int = constant(256, "docs/notes/rows.md#sums-by-columns")
    # Tiles that a program reads again behind a reduction are kept in shared memory, if a thread has
    # so many of their elements, or more than registers.
    staged_elements: int = constant(
        128, "docs/notes/ops.md#compared-with-a-copy: 4096 x 32000 129.5 us, in registers 215"
    )
    # A tile of more than this many times all registers of a thread is refused as a mistake. One
    # that is smaller spills.
    max_oversubscription: int = constant(8)
    # Registers of a thread besides those of tiles, for addresses, masks and counters: comfortably,
    # and at least.
    other_registers: int = constant(64, "docs/results/registers.md#spills")
    least_other_registers: int = constant(
        24,
        "docs/results/registers.md#spills: a 128 x 128 x 64 dot by 4 warps, with 224 registers of "
        "tiles, fits in 255 (ptxas 13.5)",
    )
    # Bytes along k of an operand loaded from shared memory that are live at a time: one k-step of
    # mma.
    live_k_bytes: int = constant(
        32, "docs/notes/register-pressure.md#the-emitter: 16 registers of an operand live, not 64"
    )
    # Bytes of registers per thread that the hoisted loads of a block may take.
    hoisted_load_bytes: int = constant(
        32, "docs/results/registers.md#layer-norm: H200, 2026-11-21, 32 against 64"
    )
    # In loops of one stage loads move above dots, too.
    loads_above_dots: bool = constant(True, "docs/notes/opencl.md#loads-above-dots")
    # Slices of dots that feed dots, where registers are short.
    dot_chain_slices: int = constant(
        2,
        "docs/notes/register-pressure.md#passes: ptxas 13.5, sm_75, 2026-11-22: 116 bytes of "
        "spills with 2 slices, 920 with 4",
    )
    # Iterations whose loads for dots keep their shared memory when `reload-operands` takes some.
    reserved_iterations: int = constant(1, "docs/notes/register-pressure.md#passes")
    # An FMA dot is sliced along k so that accumulators and operands take at most this share of the
    # registers of a thread, and each operand at most 1 / `slice_shared_share` of shared memory.
    slice_register_share: float = constant(
        0.75, "docs/results/registers.md#fma-dots: with and without slices, not the share"
    )
    slice_shared_share: int = constant(4)
    # A loop over k-slices is unrolled if a thread has at most this many FMAs in it.
    unrolled_fmas: int = constant(
        2048, "docs/notes/register-pressure.md#passes: ptxas 13.0, sm_75 to sm_90a, 2026-11-29"
    )
    # Tiles that are prefetched to registers take at most 1 / `prefetch_register_share` of them.
    prefetch_register_share: int = constant(3)

    # -- occupancy (`Resources`)

    # Registers of a thread besides accumulators and operands, and further ones for what it computes
    # while wgmmas are in flight.
    address_registers: int = constant(
        32, "tile/simt/schedule/resources.py: estimated and allocated by ptxas, 2026-11-21"
    )
    # Instead of `address_registers`, where a producer has the addresses of loads.
    consumer_address_registers: int = constant(
        24, "docs/notes/ops.md#attention: gradients, ptxas 13.0, 2026-11-30"
    )
    overlap_registers: int = constant(
        8, "tile/simt/schedule/resources.py: estimated and allocated by ptxas, 2026-11-21"
    )
    # With this many co-resident programs, one of them always has a wgmma in flight.
    enough_programs: int = constant(
        6, "docs/notes/attention.md: H200, 2026-11-21: of 3 programs each counts; 6 is not measured"
    )

    # Bytes that loads of a loop bring to a multiprocessor at a time, in all programs, where another
    # loop reads them again.
    enough_loaded_bytes: int = constant(
        72 << 10, "docs/notes/rows.md#programs-that-read-rows-again: H200, 2026-11-29"
    )

    # -- schedules

    # Bytes for each thread of what TMA loads of the operands of dots in an iteration, where threads
    # copy others.
    least_block_bytes: int = constant(
        64, "docs/notes/descriptor-loads.md#some-operands: H200, 2026-11-30"
    )
    # Warpgroups of a program with a producer issue their dots one after the other, where one is
    # deferred.
    ordered_warpgroups: bool = constant(
        False, "docs/notes/scheduling.md: H200, 2026-11-26: .99 to 1.01 of the time without"
    )

    def op_cost(self, op: Operation) -> int:
        """Return the cost of an operation on one element."""
        is_long = op.defn.family == "math" or op.has_trait(Trait.DIVISION)
        return self.long_op_cost if is_long else 1


TUNING = TuningConstants()
