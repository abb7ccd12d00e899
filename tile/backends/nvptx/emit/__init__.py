"""Emit THREAD IR as the text of an LLVM module. `RULES` has the rule of every operation.

Fragments are unrolled to scalar registers here and nowhere before: in the text, every register of a
fragment is an SSA value of its own.

    functions, module          whole functions, and the parts of a module around them
    function_builder           a function under construction: its lines, and values of the IR
    vectors                    narrow elements in 32-bit registers
    inline_asm                 inline PTX, for what LLVM has no instruction for
    arith, math, convert, narrow_floats
                               arithmetic, real functions and conversions
    registers, shuffle         fragments and thread indices; shuffles within a warp
    memory, shared, tma        accesses to memory; mbarriers
    mma, wgmma                 dots
    control                    branches, loops, calls
    stage_counters             stages of multi-buffers
    debug                      prints and assertions

The module is written as strings. That is an order of magnitude faster than building it from
objects, and compile time is time that users wait for.
"""

from __future__ import annotations

import functools
from dataclasses import replace

from tile.backends.nvptx.emit import (
    arith,
    control,
    convert,
    debug,
    math,
    memory,
    mma,
    registers,
    shared,
    shuffle,
    tma,
    wgmma,
)
from tile.backends.nvptx.emit.function_builder import Rule
from tile.backends.nvptx.target import Architecture
from tile.ir.core import OpDef
from tile.simt.target import EmittedOps, SimtTarget

_FAMILIES = (
    arith,
    control,
    convert,
    debug,
    math,
    memory,
    mma,
    registers,
    shared,
    shuffle,
    tma,
    wgmma,
)

RULES: dict[OpDef, Rule] = {
    defn: rule for family in _FAMILIES for defn, rule in family.RULES.items()
}


@functools.cache
def lowering_target(arch: Architecture) -> SimtTarget:
    """Return the target description that the lowering uses: the architecture's, with `RULES`."""
    return replace(arch.simt, ops=EmittedOps(frozenset(RULES), arith.narrow_floats(arch)))
