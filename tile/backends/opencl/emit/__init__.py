"""Emit OpenCL C from THREAD IR. `RULES` has the rule of every operation.

A short fragment becomes one scalar variable per register, a long one an array.

    module            a program: extensions, helper functions, assertions, identifiers
    function_builder  a function: statements with their Python locations
    types             C types and constants
    helper_functions  helper functions in OpenCL C and in inline PTX; `library` has their files
    arith, convert    arithmetic, real functions and conversions
    register_arrays   long fragments as register arrays, and loops over them
    registers         fragments, thread indices, and shuffles within a warp
    memory, shared    accesses to global and local memory; constant tables
    dot               `fma_dot`
    control           branches, loops, calls
    debug             prints and assertions

Integers are variables of the unsigned type of their width, whose arithmetic wraps. An operation
that depends on the sign casts its operands: `(int)x < (int)y`.
"""

from __future__ import annotations

import functools
from dataclasses import replace

from tile.backends.opencl.emit import (
    arith,
    control,
    convert,
    debug,
    dot,
    memory,
    registers,
    shared,
)
from tile.backends.opencl.emit.function_builder import Rule
from tile.backends.opencl.target import Capabilities
from tile.ir.op_definition import OpDef
from tile.ir.types import F16, F32, F64
from tile.simt.target import EmittedOps, SimtTarget, narrow_rules

RULES: dict[OpDef, Rule] = {
    **arith.RULES,
    **control.RULES,
    **convert.RULES,
    **debug.RULES,
    **memory.RULES,
    **dot.RULES,
    **registers.RULES,
    **shared.RULES,
}


@functools.cache
def lowering_target(device: Capabilities) -> SimtTarget:
    """Return the target description that the lowering uses: the device's, with `RULES`."""
    narrow = narrow_rules(arithmetic=(F16,) if device.fp16 else ())
    return replace(device.simt, ops=EmittedOps(frozenset(RULES), narrow, direct=(F32, F64)))
