"""Whole functions and modules."""

from __future__ import annotations

from dataclasses import dataclass

from tile.backends.base import Options
from tile.backends.nvptx.emit import RULES
from tile.backends.nvptx.emit.function_builder import FunctionBuilder
from tile.backends.nvptx.emit.module import ModuleText
from tile.backends.nvptx.emit.occupancy import runs_alone
from tile.backends.nvptx.launch_metadata import MAP_ALIGNMENT, MAP_BYTES, LaunchMetadata
from tile.backends.nvptx.target import WARP, Architecture
from tile.codegen.llvm.function_builder import THREAD
from tile.codegen.llvm.functions import function_text
from tile.ir.core import Function, Module
from tile.simt.memory.allocate_shared import shared_bytes

# A tensor map is read from the parameter itself, without a local copy.
_MAP = f'ptr byval([{MAP_BYTES} x i8]) align {MAP_ALIGNMENT} "nvvm.grid_constant"'


@dataclass(frozen=True)
class EmittedModule:
    """The text of an LLVM module, and what the host must know of it."""

    text: str
    metadata: LaunchMetadata
    libdevice_functions: frozenset[str]  # names of those that it calls
    has_alwaysinline: bool = False  # True if it defines functions that must be inlined


def emit_module(module: Module, arch: Architecture, options: Options) -> EmittedModule:
    """Emit the functions of a THREAD module, whose only kernel is launched."""
    text = ModuleText(arch, options, threads=WARP * options.num_warps)
    for function in module:
        text.name_function(function)
    alone = runs_alone(module, text.threads, arch.simt)
    for function in module:
        emit_function(text, function, alone=alone)
    return EmittedModule(
        text.text(),
        LaunchMetadata(
            kernel=text.symbol(module.kernel.name)[1:],
            threads=text.threads,
            shared_bytes=shared_bytes(module),
            assertions=tuple(text.assertions),
            maps=tuple(text.maps),
        ),
        frozenset(text.libdevice_functions),
        text.has_alwaysinline,
    )


def emit_function(text: ModuleText, function: Function, *, alone: bool = False) -> None:
    """Emit a function, and add it to a module.

    alone: a multiprocessor runs one program of the kernel at a time.
    """
    kind = "ptx_kernel " if function.kernel else "internal "
    attributes = ["nounwind", "convergent"]
    if not function.kernel:
        attributes.append("noinline")
    else:
        attributes.append(f'"nvvm.reqntid"="{text.threads}"')
        if text.options.maxnreg is not None:
            attributes.append(f'"nvvm.maxnreg"="{text.options.maxnreg}"')
        elif alone:
            attributes.append('"nvvm.minctasm"="1"')
    name = "@llvm.nvvm.read.ptx.sreg.tid.x"
    text.declare(name, f"declare i32 {name}()")
    thread = f"{THREAD} = call range(i32 0, {text.threads}) i32 {name}()"

    def maps() -> list[str]:
        count = len(text.maps) if function.kernel else 0
        return [f"{_MAP} %map{number}" for number in range(count)]

    builder = FunctionBuilder(text, function, RULES)
    text.functions.append(function_text(builder, kind, attributes, [thread], maps))
