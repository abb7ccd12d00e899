"""THREAD IR to the text of an LLVM module.

Fragments are unrolled to scalar registers here and nowhere before: in the text, every register of a
fragment is an SSA value of its own. Each family of operations has a file with its rules, and
`rules` joins their tables. `body` holds a function under construction, `module` what stands around
functions, `types` and `words` the spelling of types, constants and packed registers, `assembler`
inline PTX for what LLVM has no instruction for.

The module is written as strings. That is an order of magnitude faster than building it from
objects, and compile time is time that users wait for.

The rules of all families of operations in one table.
"""

from __future__ import annotations

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
from tile.ir.core import OpDef

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
