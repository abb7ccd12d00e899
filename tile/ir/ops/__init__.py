"""Operations, one file per family. Importing this package declares all of them in `OPS`."""

from __future__ import annotations

from tile.ir.opdef import OPS
from tile.ir.ops import (
    arith,
    combine,
    control,
    debug,
    descriptor,
    index,
    linalg,
    math,
    memory,
    program,
    reduce,
    shape,
)

__all__ = [
    "OPS",
    "arith",
    "combine",
    "control",
    "debug",
    "descriptor",
    "index",
    "linalg",
    "math",
    "memory",
    "program",
    "reduce",
    "shape",
]
