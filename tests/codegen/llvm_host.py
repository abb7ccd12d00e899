"""A target of LLVM that is no GPU: programs of one thread on this machine, by llvmlite's JIT."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import binding as llvm

from tests.conformance.running import Device
from tile.codegen.llvm import RULES
from tile.codegen.llvm.control import function_text
from tile.codegen.llvm.function_builder import FunctionBuilder, ModuleText, Rule
from tile.ir.core import Operation
from tile.ir.module import Module
from tile.ir.op_definition import OpDef
from tile.ir.ops import program
from tile.ir.parser import parse_module
from tile.simt.pass_pipeline import lower
from tile.simt.target import EmittedOps, SimtTarget, narrow_rules
from tile.transforms.pass_pipeline import optimize


def program_id(builder: FunctionBuilder, op: Operation) -> None:
    """The number of a program is an argument of the function."""
    builder.set(op, [f"%program{op['axis']}"])


HOST: dict[OpDef, Rule] = {**RULES, program.program_id: program_id}
TARGET = SimtTarget("host", 1, 0, 1 << 20, 1, ops=EmittedOps(frozenset(HOST), narrow_rules()))


def machine() -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(llvm.get_host_cpu_name(), features, opt=2)


def emitted(module: Module) -> ModuleText:
    """Lower a TILE module, and return it as LLVM IR."""
    optimize(module)
    lower(module, TARGET, num_warps=1)
    triple, layout = llvm.get_default_triple(), str(machine().target_data)
    text = ModuleText("host", triple, layout, threads=1, enable_fp_fusion=False)
    for function in module:
        text.name_function(function)
    for function in module:
        builder = FunctionBuilder(text, function, HOST)
        thread = ["%thread = add i32 0, 0"]
        text.functions.append(function_text(builder, "", prologue=thread, parameters=_programs))
    return text


def _programs() -> list[str]:
    return [f"i32 %program{axis}" for axis in range(3)]


class HostDevice(Device):
    """Runs modules on this machine, one program after the other."""

    def __init__(self) -> None:
        super().__init__("host")

    def run(
        self, module: Module | str, grid: tuple[int, int, int], arguments: Sequence[Any]
    ) -> None:
        module = parse_module(module) if isinstance(module, str) else module
        text = emitted(module)
        parsed = llvm.parse_assembly(text.text())
        parsed.verify()
        engine = llvm.create_mcjit_compiler(parsed, machine())
        engine.finalize_object()
        types = [_type(argument) for argument in arguments]
        kind = ctypes.CFUNCTYPE(None, *types, *[ctypes.c_int32] * 3)
        kernel = kind(engine.get_function_address(text.symbol(module.kernel.name)[1:]))
        values = [x.ctypes.data if isinstance(x, np.ndarray) else x.item() for x in arguments]
        for numbers in itertools.product(*map(range, grid)):
            kernel(*values, *numbers)


def _type(argument: Any) -> Any:
    if isinstance(argument, np.ndarray):
        return ctypes.c_void_p
    return np.ctypeslib.as_ctypes_type(argument.dtype)
