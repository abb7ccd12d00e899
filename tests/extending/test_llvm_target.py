"""A target of LLVM, this machine's CPU, added from outside of `tile/`.

One thread runs a program at a time, so fragments are whole tiles, and nothing is exchanged. The rules
of `tile.codegen.llvm` emit nearly everything. The target adds what only it knows: how a kernel
learns the number of its program, and real functions. llvmlite compiles the text, and runs it.
"""

from __future__ import annotations

import ctypes
import itertools
import linecache
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.simt.kernels import softmax
from tile.codegen.llvm import RULES as LLVM_RULES
from tile.codegen.llvm.arith import element_of, function
from tile.codegen.llvm.control import function_text
from tile.codegen.llvm.function_builder import FunctionBuilder, ModuleText, Rule
from tile.errors import UnsupportedError
from tile.ir.core import Operation
from tile.ir.op_definition import OpDef
from tile.ir.ops import math, program
from tile.ir.types import F32
from tile.simt.pass_pipeline import lower
from tile.simt.target import EmittedOps, SimtTarget

llvm = pytest.importorskip("llvmlite.binding", reason="llvmlite is not installed")


def program_number(builder: FunctionBuilder, op: Operation) -> None:
    """Read the number of the program, or how many there are, which the host writes to a global."""
    name = f"@{op.name}"
    builder.module.declare(name, f"{name} = global [3 x i32] zeroinitializer")
    address = builder.new(f"getelementptr i32, ptr {name}, i32 {op['axis']}")
    builder.set(op, [builder.new(f"load i32, ptr {address}")])


def tanh(builder: FunctionBuilder, op: Operation) -> None:
    """Call the C library, for which LLVM has no intrinsic."""
    name, ty = ("@tanhf", "float") if element_of(op) is F32 else ("@tanh", "double")
    function(builder, op, name, ty)


RULES: dict[OpDef, Rule] = {
    **LLVM_RULES,
    program.program_id: program_number,
    program.num_programs: program_number,
    math.tanh: tanh,
}
HOST = SimtTarget(
    "host", warp_size=1, shared_bytes=0, registers=1 << 16, max_threads=1,
    ops=EmittedOps(frozenset(RULES)),
)  # fmt: skip


def this_machine() -> Any:
    """Return a new code generator; an engine takes it over."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(opt=2)


def emit(kernel: Any, signature: dict[str, str], constants: dict[str, Any]) -> str:
    """Return a kernel as the text of an LLVM module."""
    optimized = tile.compile(kernel, signature, constants, target="interp").artifact.module
    assert optimized is not None
    module = optimized.clone()
    lower(module, HOST, num_warps=1)
    machine = this_machine()
    text = ModuleText("host", machine.triple, str(machine.target_data), threads=1)
    for each in module:
        text.name_function(each)
    for each in module:
        builder = FunctionBuilder(text, each, RULES)
        text.functions.append(function_text(builder, "", prologue=["%thread = add i32 0, 0"]))
    return text.text()


def run(text: str, grid: Sequence[int], *arguments: Any) -> None:
    """Compile a module, and run its only kernel for each program of a grid, one by one."""
    module = llvm.parse_assembly(text)
    module.verify()
    (name,) = (each.name for each in module.functions if not each.is_declaration)
    with llvm.create_mcjit_compiler(module, this_machine()) as engine:
        engine.finalize_object()
        types = [_c_type(each) for each in arguments]
        start = ctypes.CFUNCTYPE(None, *types)(engine.get_function_address(name))
        values = [each.ctypes.data if isinstance(each, np.ndarray) else each for each in arguments]
        extents = (*grid, 1, 1)[:3]
        for numbers in itertools.product(*map(range, extents)):
            for name, three in (("program_id", numbers), ("num_programs", extents)):
                if f"@{name} = " in text:
                    address = engine.get_global_value_address(name)
                    (ctypes.c_int32 * 3).from_address(address)[:] = three
            start(*values)


def _c_type(argument: Any) -> Any:
    if isinstance(argument, np.ndarray):
        return ctypes.c_uint64
    return ctypes.c_float if isinstance(argument, float) else ctypes.c_int32


@tile.jit
def scale(x_ptr, y_ptr, n, factor, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y_ptr + i, factor * tl.load(x_ptr + i, i < n), i < n)


SCALE = {"x_ptr": "*fp32", "y_ptr": "*fp32", "n": "i32", "factor": "fp32"}


def test_text() -> None:
    """The text has the target's triple, one function, and nothing of another target."""
    text = emit(scale, SCALE, {"B": 4})
    assert f'target triple = "{llvm.get_default_triple()}"' in text
    assert "define void @scale(i64 %v1, i64 %v2, i32 %v3, float %v4)" in text
    assert text.count("fmul contract float") == 4 and "@program_id = global" in text
    assert "nvvm" not in text and "asm" not in text and "addrspace" not in text


def test_programs_run() -> None:
    """Three programs, the last of them masked."""
    x = np.arange(40, dtype=np.float32)
    y = np.full(48, -1, np.float32)
    run(emit(scale, SCALE, {"B": 16}), (3,), x, y, 40, 0.5)
    np.testing.assert_array_equal(y, [*(0.5 * x), *[-1] * 8])


def test_reductions_and_real_functions() -> None:
    """A softmax, whose reductions stay within a thread, as on the interpreter."""
    x = np.random.default_rng(0).standard_normal((3, 50)).astype(np.float32)
    expected, actual = np.zeros_like(x), np.zeros_like(x)
    with tile.backend("interp"):
        softmax[(3,)](x, expected, 50, N=64)
    signature = {"x_ptr": "*fp32", "y_ptr": "*fp32", "columns": "i32"}
    run(emit(softmax, signature, {"N": 64}), (3,), x, actual, 50)
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


@tile.jit
def functions(x_ptr, B: tl.constexpr, ERF: tl.constexpr = False):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i)
    tl.store(x_ptr + i, tl.erf(x) if ERF else tl.tanh(x))


@pytest.mark.parametrize("dtype", ["fp32", "fp64"])
def test_a_rule_of_the_target(dtype: str) -> None:
    x = np.linspace(-3, 3, 32).astype(dtype.replace("fp", "float"))
    expected = np.tanh(x)
    run(emit(functions, {"x_ptr": f"*{dtype}"}, {"B": 32}), (1,), x)
    np.testing.assert_allclose(x, expected, rtol=1e-6)


def test_what_has_no_rule_is_refused() -> None:
    """At the user's line."""
    with pytest.raises(UnsupportedError, match=r"host.*erf") as caught:
        emit(functions, {"x_ptr": "*fp32"}, {"B": 4, "ERF": True})
    loc = caught.value.loc
    assert loc is not None and "tl.erf" in linecache.getline(loc.file, loc.line)


def test_rules_of_the_target_are_its_own() -> None:
    """The tables of `tile/` are left as they are."""
    assert not {program.program_id, program.num_programs, math.tanh} & LLVM_RULES.keys()
