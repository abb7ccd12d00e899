"""The inline PTX of kernels, `inline_asm`; `emit/inline_asm.py` is for the backend's own.

The registers of a fragment are the elements in the order of its layout. Each group of `pack` of
them becomes one call; a last group without enough elements repeats its last one.
"""

from __future__ import annotations

from collections.abc import Sequence

from tile.backends.nvptx.emit.function_builder import FunctionBuilder
from tile.backends.nvptx.emit.inline_asm import CONSTRAINTS, Operand, result_type
from tile.backends.nvptx.emit.vectors import elements, vector
from tile.codegen.llvm.function_builder import Registers, Rule
from tile.codegen.llvm.types import llvm_type
from tile.ir.core import Operation
from tile.ir.op_definition import OpDef
from tile.ir.ops.inline_asm import (
    WIDTHS,
    Constraints,
    elements_per_register,
    inline_asm,
    parse_constraints,
    registers_of,
)
from tile.ir.types import Pointer, Scalar, Type

# The LLVM type of a register by its constraint.
_TYPES = {constraint: ty for ty, constraint in CONSTRAINTS.items() if not ty.startswith("ptr")}


def user_asm(builder: FunctionBuilder, op: Operation) -> None:
    """Emit a call for each group of elements."""
    constraints, pack = parse_constraints(op["constraints"]), op["pack"]
    columns = [builder.of(value) for value in op.inputs]
    count = len(columns[0]) if columns else 1
    results: list[Registers] = [[] for _ in op.results]
    for first in range(0, count, pack):
        groups = [_padded(column[first : first + pack], pack) for column in columns]
        outputs = _group(builder, op, constraints, groups)
        for registers, value in zip(results, op.results, strict=True):
            used = registers_of(value.type, pack)
            registers += _unpacked(builder, value.type, pack, outputs[:used])
            del outputs[:used]
    for value, registers in zip(op.results, results, strict=True):
        builder.values[value] = registers[:count]


def _padded(registers: Registers, count: int) -> Registers:
    return registers + registers[-1:] * (count - len(registers))


def _group(
    builder: FunctionBuilder, op: Operation, constraints: Constraints, groups: Sequence[Registers]
) -> list[Operand]:
    """Emit the call for one group of elements, and return the registers of its results."""
    letters = iter(constraints.inputs)
    operands = [
        _packed(builder, value.type, group[first : first + per_register], next(letters))
        for value, group in zip(op.inputs, groups, strict=True)
        for per_register in (elements_per_register(value.type, op["pack"]),)
        for first in range(0, len(group), per_register)
    ]
    types = [_TYPES[item.removeprefix("&")] for item in constraints.outputs]
    ty, volatile = result_type(builder, types), op["volatile"]
    arguments = ", ".join([f"{kind} {value}" for kind, value in operands])
    call = f"call {ty} {_assembly(op, constraints)}({arguments}){' convergent' if volatile else ''}"
    result = builder.new_unique(call) if volatile else builder.new(call)
    if len(types) == 1:
        return [(types[0], result)]
    return [(t, builder.new(f"extractvalue {ty} {result}, {i}")) for i, t in enumerate(types)]


def _assembly(op: Operation, constraints: Constraints) -> str:
    """Return the `asm` of the call.

    Braces make names that the text declares its own; the text may end in a comment.
    """
    inputs = [
        item if matching is None else str(matching)
        for item, matching in zip(constraints.inputs, constraints.matching, strict=True)
    ]
    clobbers = dict.fromkeys((*constraints.clobbers, *(["~{memory}"] if op["volatile"] else [])))
    items = [*(f"={item}" for item in constraints.outputs), *inputs, *clobbers]
    text = "".join(c if c.isprintable() and c not in '"\\' else _escape(c) for c in op["asm"])
    effect = " sideeffect" if op["volatile"] else ""
    return f'asm{effect} "{{ {text}\\0A}}", "{",".join(items)}"'


def _escape(character: str) -> str:
    return "".join(f"\\{byte:02X}" for byte in character.encode())


def _packed(
    builder: FunctionBuilder, ty: Type, registers: Sequence[str], constraint: str
) -> Operand:
    """Return a register of a constraint that holds elements of a type."""
    element, to, width = ty.element, _TYPES[constraint], WIDTHS[constraint]
    kind, value = vector(builder, llvm_type(element), registers)
    if kind == to:
        return to, value
    bits = element.bits * len(registers)
    if not kind.startswith("i"):
        value = builder.new(f"bitcast {kind} {value} to i{bits}")
    if bits < width:
        extend = "sext" if len(registers) == 1 and element.is_int_signed() else "zext"
        value = builder.new(f"{extend} i{bits} {value} to i{width}")
    return to, value if to == f"i{width}" else builder.new(f"bitcast i{width} {value} to {to}")


def _unpacked(
    builder: FunctionBuilder, ty: Type, pack: int, outputs: Sequence[Operand]
) -> Registers:
    """Return the elements of a type in some registers."""
    count = elements_per_register(ty, pack)
    return [
        element
        for kind, value in outputs
        for element in _elements(builder, ty.element, count, kind, value)
    ]


def _elements(
    builder: FunctionBuilder, element: Scalar | Pointer, count: int, kind: str, value: str
) -> Registers:
    to = llvm_type(element)
    if kind == to:
        return [value]
    width, bits = _bits(kind), element.bits * count
    if not kind.startswith("i"):
        value = builder.new(f"bitcast {kind} {value} to i{width}")
    if bits < width:
        value = builder.new(f"trunc i{width} {value} to i{bits}")
    vector_type = to if count == 1 else f"<{count} x {to}>"
    if vector_type != f"i{bits}":
        value = builder.new(f"bitcast i{bits} {value} to {vector_type}")
    return elements(builder, to, value, count)


def _bits(kind: str) -> int:
    return {"float": 32, "double": 64}.get(kind) or int(kind.removeprefix("i"))


RULES: dict[OpDef, Rule] = {inline_asm: user_asm}
