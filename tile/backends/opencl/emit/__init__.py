"""Emit OpenCL C from THREAD IR.

A short fragment becomes one scalar variable per register, a long one an array.

    types       C types and constants
    names       identifiers, from the names of Python variables
    library     helper functions in OpenCL C
    narrowing   helper functions that round to narrow floats by their bits
    assembly    helper functions in inline PTX
    source      a program: extensions, helper functions, assertions
    body        a function: statements with their Python locations
    rules       the table from operations to emission rules
    arith, floats, convert, real         arithmetic
    rows, rolling                        long fragments as register arrays, and loops over them
    registers, lanes                     fragments, and shuffles within a warp
    reach                                known bits of integers, which turn XORs into sums
    memory, atomics, shared, copies      memory accesses
    products                             `fma_dot`
    control                              branches, loops, calls
    debug                                prints and assertions
    functions                            whole functions and programs

Integers are variables of the unsigned type of their width, whose arithmetic wraps. An operation
that depends on the sign casts its operands: `(int)x < (int)y`.

The table of emission rules, one for each operation of the THREAD level.
"""

from __future__ import annotations

from tile.backends.opencl.emit import (
    arith,
    control,
    convert,
    debug,
    dot,
    memory,
    registers,
    shared,
    shuffle,
)
from tile.backends.opencl.emit.function_builder import Rule
from tile.ir.core import OpDef

RULES: dict[OpDef, Rule] = {
    **arith.RULES,
    **control.RULES,
    **convert.RULES,
    **debug.RULES,
    **shuffle.RULES,
    **memory.RULES,
    **dot.RULES,
    **registers.RULES,
    **shared.RULES,
}
