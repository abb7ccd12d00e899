"""Accesses of global memory by `ld` and `st` (PTX ISA 8.5, 9.7.9.8 and 9.7.9.11)."""

from __future__ import annotations

from tile.ir.core import Value
from tile.ir.ops import arith, memory
from tile.ir.types import I32, U8, U64, Pointer, Scalar
from tile.transforms.expand_inline_asm.expression import Expression
from tile.transforms.expand_inline_asm.operands import guard_of, operands_of, target_of
from tile.transforms.expand_inline_asm.registers import RegisterFile
from tile.transforms.expand_inline_asm.rules import Opcode, unsupported
from tile.transforms.expand_inline_asm.syntax import Address, Group, Instruction

# Modifiers without a meaning here: caches, and what the accesses are in any case.
_HINTS = frozenset(["global", "weak", "volatile", "ca", "cg", "cs", "lu", "cv", "wb", "wt"])


def load(registers: RegisterFile, opcode: Opcode, instruction: Instruction) -> None:
    """Load an element where the guard holds."""
    target, address = operands_of(instruction, 2)
    element = _element(opcode, instruction)
    guard = guard_of(registers, instruction)
    pointer = _pointer(registers, address, element, instruction)
    mask = None if guard is None else guard.value
    value = pointer.build(memory.load, pointer.value, mask, volatile=True)
    result = Expression(pointer.build, value)
    registers.write(target_of(target, instruction), result, instruction, guard, wider=True)


def store(registers: RegisterFile, opcode: Opcode, instruction: Instruction) -> None:
    """Store an element where the guard holds."""
    address, source = operands_of(instruction, 2)
    element = _element(opcode, instruction)
    guard = guard_of(registers, instruction)
    pointer = _pointer(registers, address, element, instruction)
    if isinstance(source, Group | Address):
        raise unsupported(instruction)
    value: Value = registers.read(source, element, instruction, wider=True).value
    mask = None if guard is None else guard.value
    pointer.build.op(memory.store, pointer.value, value, mask)


def _element(opcode: Opcode, instruction: Instruction) -> Scalar:
    """Return the type of an access of one element of global memory."""
    if len(opcode.names) != 1 or opcode.types[0].lanes != 1:
        raise unsupported(instruction)
    if not opcode.has("global") or not _HINTS.issuperset(opcode.modifiers):
        raise unsupported(instruction)
    return opcode.types[0].element


def _pointer(
    registers: RegisterFile, operand: object, element: Scalar, instruction: Instruction
) -> Expression:
    """Return the pointer that an address is."""
    if not isinstance(operand, Address):
        raise instruction.refusal("it takes an address, such as `[$1]`")
    base = _traced(registers.read(operand.base, U64, instruction))
    if operand.offset:
        offset = base.constant(operand.offset, I32)
        base = base.apply(memory.addptr, offset, stride=1)
    return base.view(Pointer(element))


def _traced(address: Expression) -> Expression:
    """Return an address as a pointer to bytes.

    An argument plus a number stays a pointer into the argument's array, by which analyses and
    checks find the array.
    """
    addition = address.value.op
    if addition is not None and addition.defn is arith.add:
        for x, y in (addition.inputs, addition.inputs[::-1]):
            cast = x.op
            if cast is not None and isinstance(cast.inputs[0].type.element, Pointer):
                pointer = Expression(address.build, x).view(Pointer(U8))
                return pointer.apply(memory.addptr, Expression(address.build, y), stride=1)
    return address.view(Pointer(U8))
