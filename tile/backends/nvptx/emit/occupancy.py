"""Decide whether ptxas may assume that a multiprocessor runs one program (CTA) at a time.

ptxas chooses the number of registers by a guess of the occupancy. It knows neither the dynamic
shared memory nor that a kernel spills anyway: a kernel whose tiles exceed the registers of a thread
got 32 registers and 4264 bytes of spill stores, and with `.minnctapersm 1` 255 registers and 1012
bytes (ptxas 13.0, sm_90a: 32768 f32 elements added by 128 threads).

For other kernels the directive costs occupancy, since ptxas then stops saving registers: an
addition of 4096 elements by 128 threads has 96 registers instead of 64.
"""

from __future__ import annotations

from tile.analysis.liveness import liveness
from tile.backends.nvptx.target import REGISTERS, WARP
from tile.ir.core import Function, Module
from tile.simt.memory.allocate_shared import shared_bytes
from tile.simt.ops.warp_specialize import warp_specialize
from tile.simt.schedule.register_pressure import tile_registers
from tile.simt.target import SimtTarget

RESERVED_SHARED_BYTES = 1024  # of each program, from sm_80 on; CUDA programming guide


def resident_programs(module: Module, threads: int, target: SimtTarget) -> int | None:
    """Return the number of programs that a multiprocessor runs at least; None to let ptxas guess.

    With a producer partition it follows from the registers that the partitions are given: ptxas
    ignores setmaxnreg unless it knows the registers at entry.
    """
    for op in module.walk():
        if op.defn is warp_specialize:
            producer, program = op["registers"]
            used: int = op["num_warps"] * WARP * producer + threads * program
            return target.register_file // used
    return 1 if runs_alone(module, threads, target) else None


def runs_alone(module: Module, threads: int, target: SimtTarget) -> bool:
    """Return True if two programs of a THREAD module cannot be co-resident, or its tiles spill.

    threads: those of a program.
    """
    program = shared_bytes(module) + RESERVED_SHARED_BYTES
    if 2 * program > target.shared_bytes + RESERVED_SHARED_BYTES:
        return True
    available = min(REGISTERS, target.register_file // threads)
    return _peak(module.kernel) > available


def _peak(function: Function) -> int:
    """Return the most 32-bit registers that a thread needs for tiles at one time."""
    live = liveness(function).sweep()
    return max((sum(map(tile_registers, values)) for _, values in live), default=0)
