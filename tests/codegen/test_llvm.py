"""The rules of `codegen.llvm` on a target of LLVM that is no GPU: the machine of the tests."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from llvmlite import binding as llvm

import tile
import tile.language as tl
from tests.codegen.llvm_host import TARGET, HostDevice, emitted
from tests.conformance.test_pure import CASES, Case, check_all
from tile.codegen.llvm.control import function_text
from tile.codegen.llvm.function_builder import FunctionBuilder, ModuleText
from tile.errors import UnsupportedError
from tile.ir.ops.arith import Rounding
from tile.ir.parser import parse_module
from tile.ir.types import BF16, F16, F32, FP8
from tile.simt.pass_pipeline import lower
from tile.transforms.pass_pipeline import optimize

DEVICE = HostDevice()
# Conversions of f16 from and to f32 alone are instructions; a JIT has no library for others.
HAS_F16 = llvm.get_host_cpu_features().get("f16c", False)
OPERATIONS = (
    *("add", "sub", "mul", "div", "div_rn", "rem", "neg", "and", "or", "xor", "not", "shl", "shr"),
    *("mulhi", "fma", "min", "max", "cmp", "select", "cast", "bitcast", "abs", "sqrt", "sqrt_rn"),
    *("floor", "ceil", "broadcast", "reshape", "trans", "sort", "reduce", "scan", "dot"),
)


def is_computed(case: Case) -> bool:
    """Return True if a machine computes a case by instructions, without a library."""
    if case.defn.name == "dot" and math.prod(case.operands[0].shape) > 128:  # type: ignore[union-attr]
        return False  # one thread unrolls it
    elements: set[Any] = {ty.element for ty in case.operands if ty is not None}
    if case.defn.name == "cast":
        (source,), to = elements, case.attributes["to"]
        if case.attributes.get("rounding") is Rounding.RTZ:
            return False
        through_f32 = (*FP8, F16, F32)
        if (to in FP8 and source not in through_f32) or (
            F16 in (source, to) and not (source in through_f32 and to in through_f32)
        ):
            return False
        elements.add(to)
    return BF16 not in elements and (HAS_F16 or not elements & {F16, *FP8})


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name: str) -> None:
    cases = [case for case in CASES[name] if is_computed(case)]
    assert cases
    check_all(DEVICE, cases[::7])


@tile.jit
def powers(x_ptr, out_ptr, n, count, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < n
    x = tl.load(x_ptr + index, mask=inside, other=1.0)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    power = tl.full((BLOCK,), 1.0, dtype=tl.float32)
    for _ in range(count):
        total += power
        power *= x
    remaining = count
    while remaining > 0:
        if remaining % 2 == 0:
            total += 1.0
        remaining -= 1
    tl.store(out_ptr + index, total, mask=inside)


SIGNATURE = {"x_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32", "count": "i32"}


def test_control_flow_and_masks() -> None:
    text = tile.compile(powers, SIGNATURE, {"BLOCK": 8}, {}, "interp").asm["tile"]
    x = np.linspace(-1, 1, 13, dtype=np.float32)
    out = np.full(16, -7, dtype=np.float32)
    DEVICE.run(text, (2, 1, 1), [x, out, np.int32(13), np.int32(5)])
    expected = sum(x.astype(np.float64) ** power for power in range(5)) + 2
    np.testing.assert_allclose(out[:13], expected, rtol=1e-5)
    np.testing.assert_array_equal(out[13:], -7)


def test_what_llvm_has_no_instruction_for() -> None:
    module = parse_module(
        """
kernel @f(%p: ptr<f32>, %q: ptr<f16>) {
  %x = load %p : f32
  %y = cast %x {to = f16, rounding = rtz} : f16
  store %q, %y
  return
}
"""
    )
    with pytest.raises(UnsupportedError, match="LLVM has no conversion of f32 to f16 rtz"):
        emitted(module)


def test_no_ptx_in_the_text() -> None:
    text = tile.compile(powers, SIGNATURE, {"BLOCK": 8}, {}, "interp").asm["tile"]
    module = emitted(parse_module(text)).text()
    assert "asm" not in module
    assert "nvvm" not in module


def test_an_operation_without_a_rule_is_refused_at_its_line() -> None:
    text = "kernel @k(%x: ptr<i32>) {\n  %v = load %x : i32\n  store %x, %v\n  return\n}"
    module = parse_module(text, "lacking.tile")
    optimize(module)
    lower(module, TARGET, num_warps=1)
    function = module.kernel
    source = ModuleText("host", "", "", threads=1, enable_fp_fusion=False)
    source.name_function(function)
    builder = FunctionBuilder(source, function, {})
    with pytest.raises(UnsupportedError, match="the host backend has no code for `load`") as caught:
        function_text(builder, "")
    assert caught.value.loc is not None and caught.value.loc.line == 2
