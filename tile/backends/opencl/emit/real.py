"""Transcendental functions, roots and rounding by the built-in functions of OpenCL C.

Their accuracy is what the device states. For `exp`, `log`, `sin` and others, the specification's
error bounds, or those of the device, are within the bounds of `OpDef.ulp`.
"""

from __future__ import annotations

from tile.backends.opencl.emit.arith import absolute, rounded
from tile.backends.opencl.emit.body import FunctionBuilder, Rule, each
from tile.ir.core import Operation
from tile.ir.opdef import OpDef
from tile.ir.ops import math


def _function(name: str) -> Rule:
    def rule(builder: FunctionBuilder, op: Operation) -> None:
        each(builder, op, lambda x: f"{name}({x})")

    return rule


def sqrt_rn(builder: FunctionBuilder, op: Operation) -> None:
    """Emit a square root that is rounded to nearest on every device."""
    name = rounded(builder, op, "sqrt") or "sqrt"
    each(builder, op, lambda x: f"{name}({x})")


RULES: dict[OpDef, Rule] = {
    math.exp: _function("exp"),
    math.exp2: _function("exp2"),
    math.log: _function("log"),
    math.log2: _function("log2"),
    math.sin: _function("sin"),
    math.cos: _function("cos"),
    math.tanh: _function("tanh"),
    math.erf: _function("erf"),
    math.sqrt: _function("sqrt"),
    math.sqrt_rn: sqrt_rn,
    math.rsqrt: _function("rsqrt"),
    math.floor: _function("floor"),
    math.ceil: _function("ceil"),
    math.abs_: absolute,
}
