"""Real functions that LLVM has intrinsics for; a target's library may have to compute them."""

from __future__ import annotations

from tile.codegen.llvm.arith import element_of, function, magnitude, suffix
from tile.codegen.llvm.function_builder import FunctionBuilder, Rule
from tile.codegen.llvm.types import llvm_type
from tile.ir.core import Operation
from tile.ir.op_definition import OpDef
from tile.ir.ops import math

# Those that LLVM expands to instructions where a target has them, exact or correctly rounded.
EXACT = {
    math.sqrt: "sqrt",
    math.sqrt_rn: "sqrt",
    math.floor: "floor",
    math.ceil: "ceil",
}
_INTRINSICS = {
    **EXACT,
    math.exp: "exp",
    math.exp2: "exp2",
    math.log: "log",
    math.log2: "log2",
    math.sin: "sin",
    math.cos: "cos",
}


def intrinsic(builder: FunctionBuilder, op: Operation) -> None:
    """Call an intrinsic."""
    element = element_of(op)
    name = f"@llvm.{_INTRINSICS[op.defn]}.{suffix(element)}"
    function(builder, op, name, llvm_type(element))


RULES: dict[OpDef, Rule] = {**dict.fromkeys(_INTRINSICS, intrinsic), math.abs_: magnitude}
