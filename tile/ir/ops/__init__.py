"""The table of operations, one file a family. Importing this package declares them all in `OPS`."""

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
