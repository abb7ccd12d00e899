"""The operands of an instruction, checked."""

from __future__ import annotations

from collections.abc import Sequence

from tile.ir.types import I1
from tile.transforms.expand_inline_asm.expression import Expression
from tile.transforms.expand_inline_asm.registers import RegisterFile
from tile.transforms.expand_inline_asm.syntax import Instruction, Name, Operand


def operands_of(instruction: Instruction, count: int) -> Sequence[Operand]:
    """Return the operands. Raises `CompilationError` if their number is another."""
    if len(instruction.operands) != count:
        raise instruction.refusal(
            f"it takes {count} operands, the result included, not {len(instruction.operands)}"
        )
    return instruction.operands


def guard_of(registers: RegisterFile, instruction: Instruction) -> Expression | None:
    """Return the predicate of the elements that execute an instruction; None for all."""
    if instruction.guard is None:
        return registers.active
    guard = registers.read(instruction.guard, I1, instruction)
    return guard if registers.active is None else registers.active & guard


def target_of(operand: Operand, instruction: Instruction) -> Name:
    """Return the register that an operand names. Raises `CompilationError` for others."""
    if not isinstance(operand, Name) or operand.negated:
        raise instruction.refusal("its first operand is no register")
    return operand
