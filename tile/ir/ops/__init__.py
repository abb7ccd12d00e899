"""Operations, one file per family. Importing this package declares all of them in `OPS`."""

from __future__ import annotations

from tile.ir.declare import OPS
from tile.ir.ops import (
    arith,
    control,
    debug,
    descriptor,
    dot,
    extern,
    indexing,
    inline_asm,
    math,
    memory,
    program,
    reduce,
    shape,
)

__all__ = [
    "OPS",
    "arith",
    "control",
    "debug",
    "descriptor",
    "dot",
    "extern",
    "indexing",
    "inline_asm",
    "math",
    "memory",
    "program",
    "reduce",
    "shape",
]
