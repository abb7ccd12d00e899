"""Functions of real numbers, as accurate as `ulp` of their declarations asks for.

Where the chip's own instructions are, they are used: ex2.approx, sqrt.approx and rsqrt.approx are
within 2 units in the last place (PTX ISA; CUDA C++ Programming Guide, mathematical functions). All
else is done by libdevice, within 2.
"""

from __future__ import annotations

from tile.backends.nvptx.emit.arith import element_of, magnitude
from tile.backends.nvptx.emit.assembler import assemble
from tile.backends.nvptx.emit.body import Body, Rule
from tile.backends.nvptx.emit.elementwise import each, function
from tile.backends.nvptx.emit.types import llvm_type
from tile.ir.core import Operation
from tile.ir.opdef import OpDef
from tile.ir.ops import math
from tile.ir.types import F32

_INSTRUCTIONS = {
    math.exp2: "ex2.approx.f32",
    math.sqrt: "sqrt.approx.f32",
    math.rsqrt: "rsqrt.approx.f32",
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
    if element is F32 and op.defn in _INSTRUCTIONS:
        text = f"{_INSTRUCTIONS[op.defn]} $0, $1;"
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
