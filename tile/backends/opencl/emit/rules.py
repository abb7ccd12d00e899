"""The table of emission rules, one for each operation of the THREAD level."""

from __future__ import annotations

from tile.backends.opencl.emit import (
    arith,
    atomics,
    control,
    convert,
    copies,
    debug,
    lanes,
    memory,
    products,
    real,
    registers,
    shared,
)
from tile.backends.opencl.emit.body import Rule
from tile.ir.opdef import OpDef

RULES: dict[OpDef, Rule] = {
    **arith.RULES,
    **atomics.RULES,
    **control.RULES,
    **convert.RULES,
    **copies.RULES,
    **debug.RULES,
    **lanes.RULES,
    **memory.RULES,
    **products.RULES,
    **real.RULES,
    **registers.RULES,
    **shared.RULES,
}
