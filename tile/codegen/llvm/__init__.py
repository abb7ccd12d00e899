"""Emit THREAD IR as the text of an LLVM module, for any target of LLVM.

    function_builder           modules and functions under construction: lines, and values of the IR
    types                      LLVM types and constants
    arith, convert             arithmetic, real functions and conversions
    dot                        dots of one thread
    registers                  fragments and thread indices
    memory                     addresses, loads and stores; constant tables
    control                    functions, branches, loops, calls

`RULES` has the rules of the operations for which LLVM has instructions or intrinsics. A target adds
those of its own, and overrides what its instructions do better.

    text = ModuleText("host", triple, data_layout, threads=1)
    text.name_function(kernel)
    builder = FunctionBuilder(text, kernel, {**RULES, program.program_id: program_id})
    text.functions.append(function_text(builder, "", prologue=["%thread = add i32 0, 0"]))

The module is written as strings. That is an order of magnitude faster than building it from
objects, and compile time is time that users wait for. For the same reason a builder writes an
instruction once where an equal one dominates it: LLVM would remove the second, but parsing it takes
time.
"""

from __future__ import annotations

from tile.codegen.llvm import arith, control, convert, dot, memory, registers
from tile.codegen.llvm.function_builder import Rule
from tile.ir.op_definition import OpDef

_FAMILIES = (arith, control, convert, dot, memory, registers)

RULES: dict[OpDef, Rule] = {
    defn: rule for family in _FAMILIES for defn, rule in family.RULES.items()
}
