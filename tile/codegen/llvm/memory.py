"""Emit addresses, loads and stores of single elements under masks, and constant tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tile.codegen.llvm.arith import as_sum, each, instruction
from tile.codegen.llvm.function_builder import FunctionBuilder, Registers, Rule
from tile.codegen.llvm.types import is_literal, literal, llvm_type, memory_type
from tile.ir.core import Operation
from tile.ir.op_definition import OpDef
from tile.ir.ops import indexing, memory
from tile.ir.types import I1, Pointer, Scalar
from tile.simt import ops

Element = Scalar | Pointer


def to_memory(builder: FunctionBuilder, element: Element, registers: Sequence[str]) -> Registers:
    """Convert registers to the form that memory holds: an i1 is a byte of 0 or 1."""
    if element is not I1:
        return list(registers)
    return [builder.new(f"zext i1 {register} to i8") for register in registers]


def from_memory(builder: FunctionBuilder, element: Element, registers: Sequence[str]) -> Registers:
    """Convert from the form that memory holds: an i1 is true unless its byte is 0."""
    if element is not I1:
        return list(registers)
    return [builder.new(f"icmp ne i8 {register}, 0") for register in registers]


def addptr(builder: FunctionBuilder, op: Operation) -> None:
    """Extend the offset by the signedness of its type, scale it, and add it in 64 bits.

    Constant terms are added last: addresses that differ by constants have one base then, and their
    accesses take the constants as offsets.
    """
    offset, stride = op.inputs[1].type.element, op["stride"]
    ty, shift = llvm_type(offset), stride.bit_length() - 1
    extend = "sext" if offset.is_int_signed() else "zext"

    def add(pointer: str, index: str) -> str:
        base, start = builder.sums.get(pointer, (pointer, 0))
        number = 0
        if is_literal(index):
            index, number = "0", int(index)
        elif offset.is_int_signed():
            index, number = as_sum(builder, index)
        if index != "0":
            wide = index if ty == "i64" else builder.new(f"{extend} {ty} {index} to i64")
            scaled = builder.new(f"shl i64 {wide}, {shift}") if shift else wide
            base = builder.new(f"add i64 {base}, {scaled}")
        constant = start + number * stride
        if not constant:
            return base
        total = builder.new(f"add i64 {base}, {constant}")
        builder.sums[total] = base, constant
        return total

    each(builder, op, add)


def ptradd(builder: FunctionBuilder, op: Operation) -> None:
    """Add bytes to an address."""
    instruction(builder, op, "add i64")


def load(builder: FunctionBuilder, op: Operation) -> None:
    """Load element by element; where the mask is false it is `other` or zero."""
    pointers, element = builder.of(op.inputs[0]), op.result.type.element
    ty, count = llvm_type(element), len(pointers)
    masks = builder.masks(op, count)
    others = [_zero(element)] * count if op["other"] is None else builder.of(op["other"])
    results = []
    for pointer, mask, other in zip(pointers, masks, others, strict=True):
        if mask == "true":
            results.append(_load(builder, op, pointer))
            continue
        before, loaded = builder.block, ""

        def read(pointer: str = pointer) -> None:
            nonlocal loaded
            loaded = _load(builder, op, pointer)

        then = when(builder, mask, read)
        results.append(builder.phi(ty, [(loaded, then), (other, before)]))
    builder.set(op, results)


def _load(builder: FunctionBuilder, op: Operation, pointer: str) -> str:
    element = op.result.type.element
    address = builder.new(f"inttoptr i64 {pointer} to ptr")
    kind = "load volatile" if op["volatile"] else "load"
    text = f"{kind} {memory_type(element)}, ptr {address}, align {element.itemsize}"
    if op["invariant"]:
        text += f", !invariant.load !{builder.module.empty_node()}"
    return from_memory(builder, element, [builder.new_unique(text)])[0]


def _zero(element: Element) -> str:
    return "0" if isinstance(element, Pointer) else literal(0, element)


def store(builder: FunctionBuilder, op: Operation) -> None:
    """Store element by element where the mask is true."""
    pointers, values = builder.of(op.inputs[0]), builder.of(op.inputs[1])
    masks = builder.masks(op, len(pointers))
    element = op.inputs[1].type.element
    for pointer, value, mask in zip(pointers, values, masks, strict=True):

        def write(pointer: str = pointer, value: str = value) -> None:
            address = builder.new(f"inttoptr i64 {pointer} to ptr")
            (stored,) = to_memory(builder, element, [value])
            builder.do(
                f"store {memory_type(element)} {stored}, ptr {address}, align {element.itemsize}"
            )

        if mask == "true":
            write()
        else:
            when(builder, mask, write)


def when(builder: FunctionBuilder, condition: str, write: Callable[[], None]) -> str:
    """Emit what `write` emits under a condition; return the label of the block that it ends in."""
    then, done = builder.label("then"), builder.label("done")
    builder.branch(condition, then, done)
    builder.start_block(then)
    with builder.dominance_scope():
        write()
    end = builder.block
    builder.jump(done)
    builder.start_block(done)
    return end


# -- constant tables


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


RULES: dict[OpDef, Rule] = {
    indexing.table: table,
    memory.addptr: addptr,
    ops.thread.ptradd: ptradd,
    memory.load: load,
    memory.store: store,
}
