"""Expand inline PTX to other operations, for backends that have no PTX.

syntax         the statements of the text
registers      the registers of the text and their values
groups         elements of tiles as registers, and back
rules          tables of instructions: opcodes, types, signatures
integers, lookup, floats, comparisons, video, conversions, memory
               the rules, by family
branches       labels and the elements that branch to them
execution      the execution of statements by these rules
"""

from __future__ import annotations

from itertools import islice

from tile.errors import CompilationError, stamp
from tile.ir.builder import Builder
from tile.ir.core import Operation, Value
from tile.ir.expressions import Expression, unsigned
from tile.ir.module import Module
from tile.ir.ops.inline_asm import (
    WIDTHS,
    elements_per_register,
    inline_asm,
    parse_constraints,
    registers_of,
)
from tile.ir.passes import module_pass
from tile.ir.types import I1, I32, Type
from tile.transforms.expand_inline_asm.execution import execute
from tile.transforms.expand_inline_asm.groups import from_register, merge, split, to_register
from tile.transforms.expand_inline_asm.registers import Register, RegisterFile
from tile.transforms.expand_inline_asm.syntax import parse


@module_pass("expand-inline-asm")
def expand_inline_asm(module: Module, *, ptx: bool = False) -> None:
    """Replace `inline_asm` by its references, or by operations that compute the same.

    Raises `CompilationError` for an instruction without such operations. A group is of adjacent
    elements in row-major order. With `ptx`, the backend executes the text: only references go.

        %r = inline_asm %x {asm =                 %c = const {value = 3} : tile<8xu32>
          "shl.b32 $0, $1, 3;",                   %r = shl %x, %c : tile<8xu32>
          constraints = "=r,r", to = (u32)}
    """
    for op in [op for op in module.walk() if op.defn is inline_asm]:
        build = Builder.before(op)
        with stamp(op.loc):
            if ptx:
                _drop_references(build, op)
            else:
                op.replace_by(_references(op) or _expanded(build, op))


def _references(op: Operation) -> list[Value]:
    """Return the operands that are the results; none without references."""
    return op.inputs[len(op.inputs) - len(op.results) :] if op["reference"] else []


def _drop_references(build: Builder, op: Operation) -> None:
    if op["reference"]:
        operands = op.inputs[: len(op.inputs) - len(op.results)]
        new = build.op(op.defn, *operands, **{**op.attributes, "reference": False})
        op.replace_by(new.results)


def _expanded(build: Builder, op: Operation) -> list[Value]:
    """Return the results of the text, built in front of the operation."""
    pack, constraints = op["pack"], parse_constraints(op["constraints"])
    inputs = _input_registers(build, op)
    width = [WIDTHS[item.removeprefix("&")] for item in constraints.outputs]
    registers = [Register(bits) for bits in width]
    for matching, value in zip(constraints.matching, inputs, strict=True):
        register = Register(value.bits, value)
        registers.append(register)
        if matching is not None:
            registers[matching].value = value
    names = {f"${number}": register for number, register in enumerate(registers)}
    like = inputs[0] if inputs else Expression(build, build.constant(0, I32))
    execute(RegisterFile(like, names), parse(op["asm"]))
    is_used = any(value.uses for value in op.results)
    written = iter([_written(names, number, like, used=is_used) for number in range(len(width))])
    results = []
    for result in op.results:
        ty = result.type
        per_register = elements_per_register(ty, pack)
        parts = [
            part.value
            for register in islice(written, registers_of(ty, pack))
            for part in from_register(register, ty.element, per_register)
        ]
        results.append(merge(build, parts, ty))
    return results


def _input_registers(build: Builder, op: Operation) -> list[Expression]:
    pack, constraints = op["pack"], iter(parse_constraints(op["constraints"]).inputs)
    registers = []
    for operand in op.inputs:
        ty: Type = operand.type
        parts = [Expression(build, part) for part in split(build, operand, pack)]
        per_register = elements_per_register(ty, pack)
        for first in range(0, pack, per_register):
            group = parts[first : first + per_register]
            registers.append(to_register(group, next(constraints)))
    return registers


def _written(
    names: dict[str, Register], number: int, like: Expression, *, used: bool
) -> Expression:
    """Return the value of an output; any value, if the results of text with effects have no use."""
    register = names[f"${number}"]
    if register.value is not None:
        return register.value
    if used:
        raise CompilationError(f"the asm does not write its output ${number}")
    return like.constant(0, I1 if register.width == 1 else unsigned(register.width))
