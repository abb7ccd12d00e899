"""Tuning constants of the OpenCL emitter, for each kind of device."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tile.measured import constant

_ARRAYS = "docs/notes/opencl.md#fragments-as-arrays"


@dataclass(frozen=True)
class OpenclTuning:
    """Limits of registers and of unrolling. The defaults are those of GPUs."""

    # A fragment of more registers than this is an array, and operations on it are loops.
    unrolled: int = constant(1 << 16, _ARRAYS)
    # Above this many register variables in a function, `unrolled` is halved until they fit.
    variables: int = constant(1 << 20, _ARRAYS)
    # But fragments of up to this many registers are variables in any case.
    least_unrolled: int = constant(4, _ARRAYS)
    # Loops of up to this many iterations may be unrolled: short arrays become registers.
    short_loop: int = constant(
        16, "docs/notes/opencl.md#intels-runtime: 32 iterations break Intel's runtime 2026.2"
    )
    # Accumulators of a block that `dot_in_loops` keeps in registers.
    block_sums: int = constant(8)
    # An expression of up to this many cheap operations is recomputed instead of stored.
    recomputed_ops: int = constant(8)


GPU = OpenclTuning()
# CPUs whose runtime vectorizes across work-items, as Intel's does. Fragments are arrays there where
# GPUs have registers: a large program that is fully unrolled takes minutes to build.
SIMD_CPU = replace(GPU, unrolled=GPU.least_unrolled)
# PoCL does not vectorize a loop that contains another, so more fragments are variables. With more
# than 3,500 of them it takes minutes to build; a matmul of 128 x 64 with arrays builds in a seventh
# of the time, and is two to four times as fast.
POCL = replace(GPU, unrolled=64, variables=3500)
