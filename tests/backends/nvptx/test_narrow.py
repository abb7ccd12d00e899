"""8-bit floats by integer code, run on the CPU by LLVM's JIT and held against the interpreter."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest
from llvmlite import binding as llvm

from tile.codegen.llvm import convert
from tile.ir import semantics
from tile.ir.types import F8E4M3, F32, FP8, Scalar

DECLARED = "declare float @llvm.fabs.f32(float)\n"


def run(code: str, name: str, x: np.ndarray, result: np.dtype, ty: str, to: str) -> np.ndarray:
    """A function of one number on every element of an array."""
    loop = f"""
    define void @each(ptr %x, ptr %y, i64 %n) {{
    entry:
      br label %loop
    loop:
      %i = phi i64 [ 0, %entry ], [ %next, %loop ]
      %p = getelementptr {ty}, ptr %x, i64 %i
      %v = load {ty}, ptr %p
      %r = call {to} {name}({ty} %v)
      %q = getelementptr {to}, ptr %y, i64 %i
      store {to} %r, ptr %q
      %next = add i64 %i, 1
      %more = icmp ult i64 %next, %n
      br i1 %more, label %loop, label %done
    done:
      ret void
    }}
    """
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(DECLARED + code + loop)
    features = llvm.get_host_cpu_features().flatten()  # f16 to f32 is a call without F16C
    machine = llvm.Target.from_default_triple().create_target_machine(
        llvm.get_host_cpu_name(), features
    )
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    signature = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    function: Callable[..., None] = signature(engine.get_function_address("each"))
    y = np.zeros(x.shape, result)
    function(x.ctypes.data, y.ctypes.data, x.size)
    return y


@pytest.mark.parametrize("element", FP8, ids=str)
def test_to_8_bits(element: Scalar) -> None:
    """All floats of 16 leading bits, each with what follows just below, at and above a tie."""
    high = np.arange(1 << 16, dtype=np.uint32) << 16
    bits = np.concatenate([high | low for low in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)])
    x = bits.astype(np.uint32).view(np.float32)
    code, name = convert._TO_FP8[element], f"@tile.to.{element.ir_name}"
    actual = run(code, name, x, np.dtype(np.uint8), "float", "i8")
    with semantics.quiet():
        wanted = semantics.cast(x, element)
    same = actual == wanted.view(np.uint8)
    nan = np.isnan(x)
    assert same[~nan].all()
    assert np.isnan(actual.view(wanted.dtype)[nan].astype(np.float32)).all()


@pytest.mark.skipif(
    not llvm.get_host_cpu_features().get("f16c"), reason="this CPU has no conversions of f16"
)
def test_from_e4m3() -> None:
    """All pairs of numbers, in the upper bytes of the halves of a word."""
    low, high = np.meshgrid(np.arange(256, dtype=np.uint32), np.arange(256, dtype=np.uint32))
    x = (high << 24 | low << 8).ravel()
    name = convert._E4M3_AS_F16
    actual = run(convert._FROM_E4M3, name, x, np.dtype(np.uint32), "i32", "i32")
    pairs = np.stack([low.ravel(), high.ravel()], axis=1).astype(np.uint8)
    with semantics.quiet():
        wanted = semantics.cast(pairs.view(semantics.numpy_dtype(F8E4M3)), F32)
    np.testing.assert_array_equal(actual.view(np.float16).reshape(-1, 2).astype(np.float32), wanted)
