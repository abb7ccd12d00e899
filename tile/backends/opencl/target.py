"""Capabilities of an OpenCL device, as the lowering and the emitter query them.

They are read from a device (`devices.py`), or looked up by the name of a class of devices, so that
text for that class can be produced on a machine that has no such device:

    generic   OpenCL C 1.2 and no extension but doubles and 64-bit integers
    amd       a GPU with wavefronts of 64
    intel     a GPU with sub-groups of 16 and their shuffles
    nvidia    a GPU without sub-groups, whose compiler takes PTX as inline assembly
    arm       a GPU with half precision and without doubles
    apple     a GPU with neither
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tile.backends.opencl import tuning
from tile.backends.opencl.tuning import OpenclTuning
from tile.ir.types import I32, U32
from tile.simt.layouts.shared_access import BANKS, Banks
from tile.simt.target import REDUCTIONS, SimtTarget
from tile.simt.tuning import TUNING

WARP = 32
REGISTERS = 255
# The compute capabilities (80 is 8.0) that introduced these PTX instructions: div.rn and sqrt.rn,
# shfl.sync, cp.async, redux.sync.
ROUNDING = 20
SHUFFLES = 70
COPIES = 80
LANE_REDUCTIONS = 80
_INTEGERS = tuple((element, REDUCTIONS) for element in (I32, U32))
CPU_TUNING = replace(TUNING, loads_above_dots=False)
_NO_BANKS = Banks(count=1, word_bits=64)  # one access at a time, of any element
# CPUs whose runtime vectorizes across work-items, as Intel's does.
SIMD_CPU: dict[str, Any] = {
    "tuning": tuning.SIMD_CPU,
    "loops": "unroll 1",
    "vector_bits": 8,
    "simd_width": 16,
    "banked": False,
    "dot_from_local": True,
    "f16_by_bits": True,
}


@dataclass(frozen=True)
class Capabilities:
    """Capabilities of one device or class of devices. Sizes are in bytes."""

    name: str
    local_bytes: int = 32 << 10
    max_threads: int = 256  # work-items per work-group
    fp16: bool = False  # arithmetic on half (cl_khr_fp16)
    fp64: bool = True
    atomics64: bool = False  # cl_khr_int64_base_atomics and _extended_atomics
    fences: bool = False  # atomic_work_item_fence with order and scope
    exact_division: bool = False  # -cl-fp32-correctly-rounded-divide-sqrt
    warp: int = WARP  # the sub-group size if there are shuffles
    subgroups: bool = False  # cl_khr_subgroup_shuffle
    # The compute capability (90 is 9.0) of the PTX that `__asm__` statements accept; 0 for none.
    assembly: int = 0
    fixed_subgroups: bool = False  # intel_reqd_sub_group_size
    c_version: tuple[int, int] = (1, 2)
    tuning: OpenclTuning = tuning.GPU
    flags: tuple[str, ...] = ()  # additional build options
    simd_width: int = 1  # work-items that run in one vector instruction
    banked: bool = True  # True if local memory has banks, each of which serves one access at a time
    vector_bits: int = 128  # the widest access that pays
    dot_from_local: bool = False  # read dot operands from local memory where they are multiplied
    # Convert f16 by its bits instead of by `vload_half` if the device has no f16 arithmetic.
    f16_by_bits: bool = False
    loops: str = ""  # the pragma of loops over registers
    # The runtime inlines a kernel into each wrapper function that it generates, and compiles each.
    inlines_kernels: bool = False
    # Emit a loop or branch that contains a barrier as a loop with a barrier before its exit test.
    header_barriers: bool = False
    # Build a program that has a barrier in a branch without optimization.
    branch_barriers_unoptimized: bool = False
    # Pointers of invariant loads are `const` and `restrict`.
    invariant_loads: bool = True
    # Emit text from which LLVM does not form the instruction `fneg`.
    without_fneg: bool = False
    # Emit indices of SIMD lanes from which LLVM does not form the intrinsic `bitreverse`.
    without_bit_reversal: bool = False
    # Inline every call of a function that contains a barrier.
    inlined_barriers: bool = False

    @property
    def standard(self) -> str:
        """Return the `-cl-std` of programs: the portable CL1.2 unless an extension needs more."""
        if self.fences or self.subgroups:
            return f"CL{max(self.c_version[0], 2)}.0"
        return "CL1.2"

    @property
    def shuffles(self) -> bool:
        """True if lanes of a warp can read each other's registers, by sub-groups or by PTX."""
        return self.subgroups or self.assembly >= SHUFFLES

    @property
    def copies(self) -> bool:
        """True if each work-item can copy to local memory asynchronously (PTX `cp.async`)."""
        return self.assembly >= COPIES

    @property
    def build_options(self) -> tuple[str, ...]:
        """Return the options that programs are built with."""
        # With PTX, correctly rounded division is inline assembly, and `/` stays one instruction.
        correctly_rounded = self.exact_division and not self.assembly
        exact = ("-cl-fp32-correctly-rounded-divide-sqrt",) if correctly_rounded else ()
        return (f"-cl-std={self.standard}", *exact, *self.flags)

    @property
    def simt(self) -> SimtTarget:
        """Return the target description that the lowering uses."""
        return SimtTarget(
            name=self.name,
            warp_size=self.warp,
            shared_bytes=self.local_bytes,
            registers=REGISTERS,
            max_threads=self.max_threads,
            shuffles=self.shuffles,
            cp_async_bytes=(4, 8, 16) if self.copies else (),
            warp_reductions=_INTEGERS if self.assembly >= LANE_REDUCTIONS else (),
            vector_bits=self.vector_bits,
            simd_width=self.simd_width,
            banks=self.banks,
            invariant_loads=self.invariant_loads,
            tuning=TUNING if self.banked else CPU_TUNING,
        )

    @property
    def banks(self) -> Banks:
        """Return the banks of local memory, or one wide bank for a CPU's vectorized lanes."""
        if self.banked:
            return replace(BANKS, vector_bits=self.vector_bits)
        return replace(_NO_BANKS, vector_bits=self.vector_bits, simd_width=self.simd_width)


NAMED = {
    c.name: c
    for c in (
        Capabilities(
            "generic",
            local_bytes=32 << 10,
            max_threads=1024,
            atomics64=True,
            tuning=tuning.SIMD_CPU,
        ),
        Capabilities(
            "amd",
            local_bytes=64 << 10,
            max_threads=1024,
            fp16=True,
            atomics64=True,
            fences=True,
            exact_division=True,
            warp=64,
            c_version=(2, 0),
        ),
        Capabilities(
            "intel",
            local_bytes=64 << 10,
            max_threads=512,
            fp16=True,
            atomics64=True,
            fences=True,
            exact_division=True,
            warp=16,
            subgroups=True,
            fixed_subgroups=True,
            c_version=(3, 0),
        ),
        Capabilities(
            "nvidia",
            local_bytes=48 << 10,
            max_threads=1024,
            atomics64=True,
            exact_division=True,
            assembly=80,
        ),
        Capabilities("arm", max_threads=512, fp16=True, fp64=False, atomics64=True),
        Capabilities("apple", max_threads=256, fp64=False),
    )
}
