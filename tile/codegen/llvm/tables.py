"""Emit constant tables and lookups of their entries, for any target of LLVM."""

from __future__ import annotations

from tile.codegen.llvm.arith import each
from tile.codegen.llvm.function_builder import FunctionBuilder, Rule
from tile.codegen.llvm.types import llvm_type
from tile.ir.core import OpDef, Operation
from tile.ir.ops import indexing


def table(builder: FunctionBuilder, op: Operation, space: int = 0) -> None:
    """Load entries of a constant in an address space; the index wraps at the table's size."""
    ty, entries = llvm_type(op["of"]), op["entries"]
    name = declared(builder, ty, entries, space)
    pointer = f"ptr addrspace({space})" if space else "ptr"
    align = op["of"].itemsize

    def load(index: str) -> str:
        inside = builder.new(f"and i32 {index}, {len(entries) - 1}")
        wide = builder.new(f"zext i32 {inside} to i64")
        address = builder.new(f"getelementptr inbounds {ty}, {pointer} {name}, i64 {wide}")
        return builder.new(f"load {ty}, {pointer} {address}, align {align}")

    each(builder, op, load)


def declared(builder: FunctionBuilder, ty: str, entries: tuple[int, ...], space: int) -> str:
    """Return the name of a constant array, which equal tables of the module share."""
    numbers = ", ".join([f"{ty} {entry}" for entry in entries])
    kind = f"addrspace({space}) " if space else ""
    text = f"private unnamed_addr {kind}constant [{len(entries)} x {ty}] [{numbers}]"
    return builder.module.constant(text)


RULES: dict[OpDef, Rule] = {indexing.table: table}
