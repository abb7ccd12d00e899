"""Functions of real numbers, as accurate as `ulp` of their declarations asks for.

Where the chip has an instruction that is close enough, it is used; a test compares its bound with
what is owed. `exp2` takes the form that gives zero for results that are not normal, as the language
allows: the other one takes three more instructions, which scale what goes in and what comes out.
Everything else is done by libdevice, within 2 units in the last place. The chip's
other approximations are not close enough for the language: lg2.approx, sin.approx and cos.approx
have a bound on their absolute error alone, which is any number of units near a zero, and
tanh.approx is right to 11 bits.
"""

from __future__ import annotations

from dataclasses import dataclass

from tile.backends.nvptx.emit.arith import element_of, magnitude
from tile.backends.nvptx.emit.assembler import assemble
from tile.backends.nvptx.emit.body import Body, Rule
from tile.backends.nvptx.emit.elementwise import each, function
from tile.backends.nvptx.emit.types import llvm_type
from tile.ir.core import Operation
from tile.ir.opdef import OpDef
from tile.ir.ops import math
from tile.ir.types import F32


@dataclass(frozen=True)
class Instruction:
    """An instruction on f32, and how far it may be off, in units in the last place.

    The bounds are of the PTX ISA and of the CUDA C++ Programming Guide, mathematical functions.
    """

    name: str
    ulp: int


INSTRUCTIONS: dict[OpDef, Instruction] = {
    math.exp2: Instruction("ex2.approx.ftz.f32", 2),
    math.sqrt: Instruction("sqrt.approx.f32", 1),
    math.rsqrt: Instruction("rsqrt.approx.f32", 2),
}
_INTRINSICS = {
    math.sqrt: "@llvm.sqrt",
    math.sqrt_rn: "@llvm.sqrt",
    math.floor: "@llvm.floor",
    math.ceil: "@llvm.ceil",
}


def real(body: Body, op: Operation) -> None:
    """One instruction, an intrinsic, or a call of libdevice."""
    element = element_of(op)
    ty = llvm_type(element)
    if element is F32 and op.defn in INSTRUCTIONS:
        text = f"{INSTRUCTIONS[op.defn].name} $0, $1;"
        return each(body, op, lambda x: assemble(body, text, ["float"], [("float", x)])[0])
    if op.defn in _INTRINSICS:
        return function(body, op, f"{_INTRINSICS[op.defn]}.{element.name}", ty)
    name = f"__nv_{op.name}{'f' if element is F32 else ''}"
    body.module.libraries.add(name)
    return function(body, op, f"@{name}", ty)


RULES: dict[OpDef, Rule] = {
    **dict.fromkeys(
        (
            math.exp,
            math.exp2,
            math.log,
            math.log2,
            math.sin,
            math.cos,
            math.tanh,
            math.erf,
            math.sqrt,
            math.sqrt_rn,
            math.rsqrt,
            math.floor,
            math.ceil,
        ),
        real,
    ),
    math.abs_: magnitude,
}
