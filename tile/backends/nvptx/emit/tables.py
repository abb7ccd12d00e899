"""Emit constant tables for NVIDIA's GPUs.

Constant memory serves one address of a warp at a time, so it has the tables that scalars index, up
to the size of its cache; the lanes of a tile index tables in global memory, through L1.
"""

from __future__ import annotations

from tile.backends.nvptx.emit.function_builder import FunctionBuilder
from tile.codegen.llvm import tables as llvm
from tile.codegen.llvm.function_builder import Rule
from tile.ir.core import OpDef, Operation
from tile.ir.ops import indexing
from tile.ir.types import Scalar

GLOBAL, CONSTANT = 1, 4  # address spaces
# Larger tables would evict a kernel's parameters from the first level of the constant cache, 2 KiB.
CONSTANT_BYTES = 1024


def table(builder: FunctionBuilder, op: Operation) -> None:
    """Load entries from constant memory for a scalar, and from global memory for a fragment."""
    size = op["of"].itemsize * len(op["entries"])
    is_scalar = isinstance(op.result.type, Scalar) and size <= CONSTANT_BYTES
    llvm.table(builder, op, CONSTANT if is_scalar else GLOBAL)


RULES: dict[OpDef, Rule] = {indexing.table: table}
