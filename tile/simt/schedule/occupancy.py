"""Estimate occupancy: how many programs are co-resident on one multiprocessor.

Only registers and shared memory count. Keeping wgmmas in flight across an iteration takes
registers for every accumulator that is live, and for the operand that is being computed. If that
lowers occupancy, it does not pay: another resident program would have hidden the same latency. If
a thread has fewer registers than that, it would spill. If shared memory already limits occupancy,
the registers are free to use.

Estimates are rough. Registers per thread of three variants of attention's backward pass, with
overlap and without: 199 and 162 allocated (184 and 160 estimated here), 140 and 128 (152 and 128),
252 and 242 (248 and 224).
"""

from __future__ import annotations

from collections.abc import Sequence

from tile.ir.core import Operation
from tile.simt.hopper.wgmma_layouts import stays_in_registers
from tile.simt.layouts.dims import WARP
from tile.simt.ops.layout_inference import layout_of, register_count
from tile.simt.target import SimtTarget


def overlap_keeps_occupancy(
    dots: Sequence[Operation], shared_bytes: int, target: SimtTarget
) -> bool:
    """Return True if keeping a loop's `dots` in flight across iterations keeps occupancy.

    shared_bytes: shared memory of one program, in bytes.
    """
    accumulators = sum(register_count(dot.result) for dot in dots)
    in_registers = [dot.inputs[0] for dot in dots if stays_in_registers(dot)]
    computed = [register_count(value) for value in in_registers if value.block is dots[0].block]
    tuning = target.tuning
    waiting = accumulators + tuning.address_registers
    overlapped = waiting + max(computed, default=0) + tuning.overlap_registers
    if overlapped > target.registers:
        return False
    threads = target.warp_size * layout_of(dots[0].result).in_size(WARP)
    limit = min(tuning.enough_programs, target.shared_bytes // max(1, shared_bytes))
    occupancy_waiting, occupancy_overlapped = (
        min(limit, target.register_file // (threads * count)) for count in (waiting, overlapped)
    )
    return occupancy_overlapped == occupancy_waiting
