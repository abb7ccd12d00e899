"""The rules of all families of operations in one table."""

from __future__ import annotations

from tile.backends.nvptx.emit import (
    arith,
    atomics,
    bulk,
    control,
    convert,
    debug,
    group,
    lanes,
    math,
    matrix,
    memory,
    registers,
    shared,
)
from tile.backends.nvptx.emit.body import Rule
from tile.ir.opdef import OpDef

_FAMILIES = (
    arith,
    atomics,
    bulk,
    control,
    convert,
    debug,
    group,
    lanes,
    math,
    matrix,
    memory,
    registers,
    shared,
)

RULES: dict[OpDef, Rule] = {
    defn: rule for family in _FAMILIES for defn, rule in family.RULES.items()
}
