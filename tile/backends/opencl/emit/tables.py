"""Emit constant tables, as arrays in the address space `__constant`."""

from __future__ import annotations

from tile.backends.opencl.emit.function_builder import FunctionBuilder, Rule, each
from tile.ir.core import OpDef, Operation
from tile.ir.ops import indexing


def table(builder: FunctionBuilder, op: Operation) -> None:
    """Read entries; the index wraps at the table's size."""
    entries = op["entries"]
    name = builder.source.table(op["of"], entries)
    each(builder, op, lambda index: f"{name}[({index}) & {len(entries) - 1}]")


RULES: dict[OpDef, Rule] = {indexing.table: table}
