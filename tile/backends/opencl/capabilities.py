"""What an OpenCL device can do, as the lowering and the emitter ask for it.

It is read from a device (`devices.py`), or given by name, so that text for a class of devices can
be produced where there is none:

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

from tile.errors import BackendError
from tile.ir.types import F16, I32, U32
from tile.simt.layouts.banks import BANKS, Banks
from tile.simt.target import REDUCTIONS, SimtTarget

WARP = 32
FEW = 4  # registers that are better variables on any device
REGISTERS = 255
# The compute capabilities from which PTX has rounding to nearest, shuffles, copies to shared
# memory, and reductions of a warp's lanes.
ROUNDING = 20
SHUFFLES = 70
COPIES = 80
LANE_REDUCTIONS = 80
_INTEGERS = tuple((element, REDUCTIONS) for element in (I32, U32))
_NO_BANKS = Banks(count=1, word_bits=64)  # one access at a time, of any element
# Of CPUs whose runtimes run work-items abreast by vector instructions, as Intel's does. They keep
# arrays where GPUs have registers; all unrolled, a large program takes minutes to build.
ABREAST: dict[str, Any] = {
    "unrolled": FEW,
    "loops": "unroll 1",
    "vector_bits": 8,
    "abreast": 16,
    "banked": False,
    "in_place": True,
    "half_bits": True,
}


@dataclass(frozen=True)
class Capabilities:
    """A device. Sizes are in bytes."""

    name: str
    local_bytes: int = 32 << 10
    max_threads: int = 256  # work-items of a work-group
    fp16: bool = False  # arithmetic on half (cl_khr_fp16)
    fp64: bool = True
    atomics64: bool = False  # cl_khr_int64_base_atomics and _extended_atomics
    fences: bool = False  # atomic_work_item_fence with order and scope
    exact_division: bool = False  # -cl-fp32-correctly-rounded-divide-sqrt
    warp: int = WARP  # the size of sub-groups where there are shuffles
    subgroups: bool = False  # cl_khr_subgroup_shuffle
    # The compute capability, 90 for 9.0, whose PTX `__asm__` statements take; 0 for none.
    assembly: int = 0
    fixed_subgroups: bool = False  # intel_reqd_sub_group_size
    c_version: tuple[int, int] = (1, 2)
    unrolled: int = 1 << 16  # registers of a fragment that are variables; of longer ones, an array
    variables: int = 1 << 20  # registers that are variables in a function; of more, more are arrays
    flags: tuple[str, ...] = ()  # that its programs are built with besides
    abreast: int = 1  # work-items that a vector instruction runs
    banked: bool = True  # whether local memory is in banks, of which each serves one at a time
    vector_bits: int = 128  # the widest access that pays
    in_place: bool = False  # whether factors are multiplied from local memory, not from registers
    # Whether halves that it has no arithmetic on are converted by their bits, not by `vload_half`.
    half_bits: bool = False
    loops: str = ""  # the pragma of loops over registers
    # Whether a kernel becomes part of each function that the runtime makes to call it, and is
    # compiled so often.
    copied: bool = False
    # Emit a loop or branch that contains a barrier as a loop with a barrier before its exit test.
    header_barriers: bool = False
    # Build a program that has a barrier in a branch without optimization.
    branch_barriers_unoptimized: bool = False

    @property
    def standard(self) -> str:
        """The `-cl-std` that programs are built for: the portable one, if it does."""
        if self.fences or self.subgroups:
            return f"CL{max(self.c_version[0], 2)}.0"
        return "CL1.2"

    @property
    def shuffles(self) -> bool:
        """Whether the lanes of a warp read each other's registers, in whichever words."""
        return self.subgroups or self.assembly >= SHUFFLES

    @property
    def copies(self) -> bool:
        """Whether work-items can copy to local memory asynchronously, each on its own."""
        return self.assembly >= COPIES

    @property
    def build_options(self) -> tuple[str, ...]:
        """What programs are built with."""
        # Where assembly rounds to nearest, `/` need not, and is one instruction.
        asked = self.exact_division and not self.assembly
        exact = ("-cl-fp32-correctly-rounded-divide-sqrt",) if asked else ()
        return (f"-cl-std={self.standard}", *exact, *self.flags)

    @property
    def simt(self) -> SimtTarget:
        """The machine as the lowering sees it."""
        return SimtTarget(
            name=self.name,
            warp_size=self.warp,
            shared_bytes=self.local_bytes,
            registers=REGISTERS,
            max_threads=self.max_threads,
            shuffles=self.shuffles,
            copy_bytes=(4, 8, 16) if self.copies else (),
            lane_reductions=_INTEGERS if self.assembly >= LANE_REDUCTIONS else (),
            narrow_arithmetic=(F16,) if self.fp16 else (),
            vector_bits=self.vector_bits,
            abreast=self.abreast,
            banks=self.banks,
        )

    @property
    def banks(self) -> Banks:
        """Those of local memory; where there are none, how lanes access it abreast."""
        if self.banked:
            return replace(BANKS, vector_bits=self.vector_bits)
        return replace(_NO_BANKS, vector_bits=self.vector_bits, abreast=self.abreast)


NAMED = {
    c.name: c
    for c in (
        Capabilities(
            "generic", local_bytes=32 << 10, max_threads=1024, atomics64=True, unrolled=FEW
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


def named(name: str) -> Capabilities:
    """The capabilities of a class of devices. Raises `BackendError` for one that is not known."""
    if name not in NAMED:
        raise BackendError(
            f"the opencl backend has no description {name!r}; there are {', '.join(NAMED)}, and "
            "without a name the device itself is asked"
        )
    return NAMED[name]
