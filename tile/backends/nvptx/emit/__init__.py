"""Emit THREAD IR as the text of an LLVM module. `RULES` has the rule of every operation.

Fragments are unrolled to scalar registers here and nowhere before: in the text, every register of a
fragment is an SSA value of its own.

The rules that hold for any target of LLVM are in `tile/codegen/llvm`. Here is what NVIDIA's GPUs
add, in files of the same names, and:

    trigonometry               sines and cosines of small and of large arguments
    inline_asm                 inline PTX, for what LLVM has no instruction for
    inline_ptx                 the inline PTX of kernels
    vectors                    narrow elements in 32-bit registers
    shared, tma                shared memory and stages of multi-buffers; mbarriers and TMA
    mma, wgmma                 dots
    warp_specialize            producer warps
    cluster                    what CTAs of a cluster share
    atomics                    atomic operations in PTX
    debug                      prints and assertions
"""

from __future__ import annotations

import functools
from dataclasses import replace

from tile.backends.nvptx.emit import (
    arith,
    atomics,
    cluster,
    control,
    convert,
    debug,
    inline_ptx,
    math,
    memory,
    mma,
    registers,
    shared,
    tma,
    trigonometry,
    warp_specialize,
    wgmma,
)
from tile.backends.nvptx.target import Architecture
from tile.codegen.llvm.function_builder import Rule
from tile.ir.op_definition import OpDef
from tile.simt.target import EmittedOps, SimtTarget

_FAMILIES = (
    arith,
    atomics,
    cluster,
    control,
    convert,
    debug,
    inline_ptx,
    math,
    memory,
    mma,
    registers,
    shared,
    tma,
    trigonometry,
    warp_specialize,
    wgmma,
)

RULES: dict[OpDef, Rule] = {
    defn: rule for family in _FAMILIES for defn, rule in family.RULES.items()
}


@functools.cache
def lowering_target(arch: Architecture) -> SimtTarget:
    """Return the target description that the lowering uses: the architecture's, with `RULES`."""
    return replace(arch.simt, ops=EmittedOps(frozenset(RULES), arith.narrow_floats(arch)))
