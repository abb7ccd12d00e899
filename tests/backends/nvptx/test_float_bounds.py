"""Lower bounds of floats, and the instructions that need not care for subnormal operands then."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.ulp import ulp_distance
from tile.backends.nvptx.emit.arith import _LEAST_DIVISOR
from tile.backends.nvptx.emit.float_bounds import lower_bound
from tile.ir.numpy_dtypes import Array
from tile.ir.ops import control
from tile.ir.parser import parse_module
from tile.language.extra import libdevice

BOUNDS = {
    "%r = exp %x": 0.0,
    "%r = abs %x": 0.0,
    "%r = mul %x, %x": 0.0,
    "%r = mul %x, %y": -math.inf,
    "%r = neg %x": -math.inf,
    "%e = exp2 %x\n  %r = add %e, %one": 1.0,
    "%e = sqrt %x\n  %f = add %e, %one\n  %r = add %one, %f": 2.0,
    "%r = add %x, %one": -math.inf,
    "%e = exp %x\n  %f = abs %y\n  %r = mul %e, %f": 0.0,
    "%e = exp %x\n  %r = mul %e, %y": -math.inf,
    "%r = max %x, %one": 1.0,
    "%e = exp %x\n  %f = add %e, %one\n  %r = max %f, %e": 0.0,
    "%e = exp %x\n  %r = min %e, %one": 0.0,
    "%r = min %x, %one": -math.inf,
    "%e = exp %x\n  %r = select %c, %e, %one": 0.0,
    "%e = exp %x\n  %f = add %e, %one\n  %r = frag_shuffle %f {registers = (1, 0)}": 1.0,
    "%n = const {value = nan} : frag<2xf32>\n  %r = max %n, %one": 1.0,
}


@pytest.mark.parametrize("text", BOUNDS)
def test_bounds(text: str) -> None:
    """A NaN may be where a bound is given: a maximum with it is the other operand."""
    lines = [f"{line} : frag<2xf32>" if "const" not in line else line for line in text.split("\n")]
    module = parse_module(
        "func @f(%x: frag<2xf32>, %y: frag<2xf32>, %c: frag<2xi1>) -> (frag<2xf32>) {\n"
        "  %one = const {value = 1.0} : frag<2xf32>\n" + "\n".join(lines) + "\n  return %r\n}"
    )
    (returned,) = [op for op in module.walk() if op.defn is control.return_]
    assert lower_bound(returned.inputs[0]) == BOUNDS[text]


@tile.jit
def normalized(x_ptr, y_ptr, KIND: tl.constexpr):
    at = tl.arange(0, 128)
    x, y = tl.load(x_ptr + at), tl.load(y_ptr + at)
    if KIND == "sigmoid":
        r = 1 / (1 + tl.exp(-x))
    elif KIND == "quotient":
        r = y / (1e-6 + tl.abs(x))
    elif KIND == "root":
        r = tl.rsqrt(x * x + 1e-6)
    elif KIND == "any":
        r = y / x
    tl.store(x_ptr + at, r)


@pytest.mark.parametrize(
    ("kind", "division"),
    [
        ("sigmoid", "rcp.approx.ftz.f32"),
        ("quotient", "rcp.approx.ftz.f32"),
        ("root", "rsqrt.approx.ftz.f32"),
        ("any", "div.full.f32"),
    ],
)
def test_instructions(kind: str, division: str) -> None:
    """Signs are modifiers of other instructions, where LLVM would change bits."""
    types = {"x_ptr": "*fp32:16", "y_ptr": "*fp32:16"}
    kernel = tile.compile(normalized, types, {"KIND": kind}, {"num_warps": 4}, "nvptx:sm_90a")
    text = str(kernel.asm["ptx"])
    assert division in text
    assert not {"xor.b32", "and.b32"} & {*text.split()}
    assert ("neg.f32" in text) == (kind == "sigmoid")


def quotients(x: Array, y: Array) -> Array:
    """Execute the instructions of a quotient with a reciprocal that is rounded to nearest."""
    scale = np.where(y > np.float32(2.0**126), np.float32(0.25), np.float32(1))
    reciprocal = rounded(1 / (y * scale).astype(np.float64))
    assert (np.abs(reciprocal[np.isfinite(y)]) >= np.finfo(np.float32).smallest_normal).all()
    return (x * scale) * reciprocal


def rounded(x: Array) -> Array:
    return x.astype(np.float32)


def test_no_reciprocal_of_a_divisor_is_subnormal() -> None:
    powers = rounded(np.exp2(np.arange(-124.0, 128)))
    above = np.nextafter(powers, np.float32(np.inf))
    y = np.concatenate([powers, above, rounded(np.array([np.finfo(np.float32).max, np.inf]))])
    assert y.min() == _LEAST_DIVISOR
    x = rounded(np.random.default_rng(0).standard_normal(len(y)))
    exact = x.astype(np.float64) / y.astype(np.float64)
    normal = np.abs(exact) > np.finfo(np.float32).smallest_normal
    assert ulp_distance(quotients(x, y)[normal], rounded(exact[normal])).max() <= 2
    fourth = np.float32(0.25)
    reciprocals = rounded(1 / (y * fourth).astype(np.float64)) * fourth
    assert ulp_distance(reciprocals, rounded(1 / y.astype(np.float64))).max() <= 1


@tile.jit
def logarithms(x_ptr, FAST: tl.constexpr):
    at = tl.arange(0, 128)
    x = tl.load(x_ptr + at)
    tl.store(x_ptr + at, libdevice.fast_log2f(x) if FAST else libdevice.log2(x))


@pytest.mark.parametrize("fast", [True, False])
def test_fast_functions_alone_flush_subnormal_numbers(fast: bool) -> None:
    kernel = tile.compile(
        logarithms, {"x_ptr": "*fp32:16"}, {"FAST": fast}, {"num_warps": 4}, "nvptx:sm_90a"
    )
    assert (".ftz." in str(kernel.asm["ptx"])) == fast
