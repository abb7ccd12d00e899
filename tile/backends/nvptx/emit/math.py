"""Real functions, as accurate as the `ulp` of their declarations demands.

An f32 function becomes one approximate instruction where that is accurate enough; a test compares
the bound of the instruction with the declaration. `exp2` takes the form that flushes subnormal
results to zero, as the language allows: the other form costs three more instructions, which scale
argument and result. `exp` corrects that instruction (`EXPONENTIAL`), and trigonometry.py has sines
and cosines. Everything else calls libdevice, which is within 2 units in the last place;
`extern_elementwise` calls it by the names of its functions. The other approximate instructions are
too inaccurate for the language: the PTX ISA bounds only the absolute error of lg2.approx,
sin.approx and cos.approx, which near a zero is any number of units in the last place, and
tanh.approx is accurate to 11 bits.
"""

from __future__ import annotations

from dataclasses import dataclass

from tile.backends.nvptx.emit.float_bounds import LEAST_NORMAL, lower_bound
from tile.backends.nvptx.emit.function_builder import FunctionBuilder
from tile.backends.nvptx.emit.inline_asm import assemble
from tile.codegen.llvm.arith import EXACT, each, element_of, function, intrinsic
from tile.codegen.llvm.function_builder import Rule
from tile.codegen.llvm.types import llvm_type
from tile.ir.core import Operation
from tile.ir.op_definition import OpDef
from tile.ir.ops import extern, math
from tile.ir.types import F32, number_of


@dataclass(frozen=True)
class Instruction:
    """An f32 instruction and its maximal error in units in the last place.

    The bounds are those of the PTX ISA and of the CUDA C++ Programming Guide, "Mathematical
    Functions".
    """

    name: str
    ulp: int


INSTRUCTIONS: dict[OpDef, Instruction] = {
    math.exp2: Instruction("ex2.approx.ftz.f32", 2),
    math.sqrt: Instruction("sqrt.approx.f32", 1),
    math.rsqrt: Instruction("rsqrt.approx.f32", 2),
}

# These scale subnormal operands, in three instructions more than the form that takes these as zero.
_ROOTS = (math.sqrt, math.rsqrt)

# e to the power x in 6 instructions. 2^t for t = x * log2(e) rounded is off by up to 60 units in
# the last place, as t has few bits after the binary point. The exact value is 2^t * e^d for the
# residual d = x - t * ln(2), which is at most 7e-6, so that 1 + d is e^d in f32. ln(2) has two
# terms: the first alone would leave 5 units for |x| = 88.
# log2(e) and t are rounded toward zero, so d >= 0 for x > 0: where 2^t is infinite, the sum is not
# infinity - infinity. The minimum replaces d by 1 where x is infinite and d therefore a NaN.
# On an H200 the results for all numbers of the domain are within 3 units in the last place (2.53 of
# the exact value), those of libdevice's expf within 2 (1.93): ex2.approx.ftz is off by up to 2.06.
# libdevice's expf takes 8 instructions; x * log2(e) and ex2.approx.f32, as in Triton, take 5.
EXPONENTIAL = (
    "mul.rz.f32 t, $1, 0f3FB8AA3B;",
    "fma.rn.f32 d, t, 0fBF317218, $1;",
    "fma.rn.f32 d, t, 0f3102E308, d;",
    "min.f32 d, d, 0f3F800000;",
    "ex2.approx.ftz.f32 t, t;",
    "fma.rn.f32 $0, t, d, t;",
)


def exponential(builder: FunctionBuilder, op: Operation) -> None:
    """Emit `exp`: f32 by a power of 2 and its correction, f64 by libdevice."""
    if element_of(op) is not F32:
        return real(builder, op)
    text = f"{{ .reg .f32 t, d; {' '.join(EXPONENTIAL)} }}"
    return each(builder, op, lambda x: assemble(builder, text, ["float"], [("float", x)])[0])


def real(builder: FunctionBuilder, op: Operation) -> None:
    """Emit one instruction, an intrinsic, or a call of libdevice."""
    element = element_of(op)
    ty = llvm_type(element)
    if element is F32 and op.defn in INSTRUCTIONS:
        name = INSTRUCTIONS[op.defn].name
        if op.defn in _ROOTS and lower_bound(op.inputs[0]) >= LEAST_NORMAL:
            name = name.replace(".approx.f32", ".approx.ftz.f32")
        text = f"{name} $0, $1;"
        return each(builder, op, lambda x: assemble(builder, text, ["float"], [("float", x)])[0])
    if op.defn in EXACT:
        return intrinsic(builder, op)
    name = f"__nv_{op.name}{'f' if element is F32 else ''}"
    builder.module.libdevice_functions.add(name)
    return function(builder, op, f"@{name}", ty)


def extern_elementwise(builder: FunctionBuilder, op: Operation) -> None:
    """Call a function of libdevice, which has a type for each operand."""
    name = op["symbol"]
    builder.module.libdevice_functions.add(name)
    types = [llvm_type(number_of(value.type)) for value in op.inputs]
    result = llvm_type(number_of(op.result.type))

    def call(*registers: str) -> str:
        return builder.call(f"@{name}", result, *zip(types, registers, strict=True))

    each(builder, op, call)


RULES: dict[OpDef, Rule] = {
    extern.extern_elementwise: extern_elementwise,
    math.exp: exponential,
    **dict.fromkeys(
        (
            math.exp2,
            math.log,
            math.log2,
            math.tanh,
            math.erf,
            math.sqrt,
            math.rsqrt,
        ),
        real,
    ),
}
