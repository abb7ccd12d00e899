"""Functions of real numbers, by the built-in functions of OpenCL C.

Their accuracy is what the device states; the specification's bounds for `exp`, `log`, `sin` and
others are within those that `OpDef.ulp` asks for, or the device's own are.
"""

from __future__ import annotations

from tile.backends.opencl.emit.arith import absolute, rounded
from tile.backends.opencl.emit.body import Body, Rule, each
from tile.ir.core import Operation
from tile.ir.opdef import OpDef
from tile.ir.ops import math


def _function(name: str) -> Rule:
    def rule(body: Body, op: Operation) -> None:
        each(body, op, lambda x: f"{name}({x})")

    return rule


def sqrt_rn(body: Body, op: Operation) -> None:
    """Rounded to nearest everywhere."""
    name = rounded(body, op, "sqrt") or "sqrt"
    each(body, op, lambda x: f"{name}({x})")


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
