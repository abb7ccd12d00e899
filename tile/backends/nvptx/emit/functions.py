"""Whole functions and modules."""

from __future__ import annotations

from dataclasses import dataclass

from tile.backends.base import Options
from tile.backends.nvptx.emit import RULES
from tile.backends.nvptx.emit.function_builder import FunctionBuilder
from tile.backends.nvptx.emit.module import ModuleText
from tile.backends.nvptx.emit.occupancy import resident_programs
from tile.backends.nvptx.launch_metadata import MAP_ALIGNMENT, MAP_BYTES, LaunchMetadata
from tile.backends.nvptx.target import WARP, Architecture
from tile.codegen.llvm.function_builder import THREAD
from tile.codegen.llvm.functions import function_text
from tile.ir.core import Function, Module
from tile.simt.memory.allocate_shared import shared_bytes
from tile.simt.ops.warp_specialize import warp_specialize

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
    shared = shared_bytes(module)
    partitions = [op for op in module.walk() if op.defn is warp_specialize]
    producer_warps = sum(op["num_warps"] for op in partitions)
    text = ModuleText(arch, options, WARP * options.num_warps, WARP * producer_warps)
    for function in module:
        text.name_function(function)
    programs = resident_programs(module, text.threads, arch.simt)
    for function in module:
        emit_function(text, function, programs=programs)
    return EmittedModule(
        text.text(),
        LaunchMetadata(
            kernel=text.symbol(module.kernel.name)[1:],
            threads=text.all_threads,
            shared_bytes=shared,
            assertions=tuple(text.assertions),
            maps=tuple(text.maps),
        ),
        frozenset(text.libdevice_functions),
        text.has_alwaysinline,
    )


def emit_function(text: ModuleText, function: Function, *, programs: int | None = None) -> None:
    """Emit a function, and add it to a module.

    programs: the number of programs that a multiprocessor runs at a time, at least; None if it is
        unknown.
    """
    kind = "ptx_kernel " if function.kernel else "internal "
    attributes = ["nounwind", "convergent"]
    if not function.kernel:
        attributes.append("noinline")
    else:
        attributes.append(f'"nvvm.reqntid"="{text.all_threads}"')
        if text.options.maxnreg is not None:
            attributes.append(f'"nvvm.maxnreg"="{text.options.maxnreg}"')
        elif programs is not None:
            attributes.append(f'"nvvm.minctasm"="{programs}"')
    name = "@llvm.nvvm.read.ptx.sreg.tid.x"
    text.declare(name, f"declare i32 {name}()")
    thread = f"{THREAD} = call range(i32 0, {text.all_threads}) i32 {name}()"

    def maps() -> list[str]:
        count = len(text.maps) if function.kernel else 0
        return [f"{_MAP} %map{number}" for number in range(count)]

    builder = FunctionBuilder(text, function, RULES)
    text.functions.append(function_text(builder, kind, attributes, [thread], maps))
