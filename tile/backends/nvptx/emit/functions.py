"""Whole functions and modules."""

from __future__ import annotations

from dataclasses import dataclass

from tile.backends.base import Options
from tile.backends.nvptx.emit import RULES
from tile.backends.nvptx.emit.control import return_, structure
from tile.backends.nvptx.emit.function_builder import FunctionBuilder, types_of
from tile.backends.nvptx.emit.module import ModuleText
from tile.backends.nvptx.emit.registers import THREAD
from tile.backends.nvptx.launch_metadata import MAP_ALIGNMENT, MAP_BYTES, LaunchMetadata
from tile.backends.nvptx.target import WARP, Architecture
from tile.ir.core import Function, Module
from tile.ir.types import I1
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
    for function in module:
        emit_function(text, function)
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


def emit_function(text: ModuleText, function: Function) -> None:
    """Emit a function, and add it to a module."""
    builder = FunctionBuilder(text, function, RULES)
    symbol = text.symbol(function.name)
    builder.scope = text.scope(function, symbol[1:])
    parameters = []
    for value in function.args:
        names = [builder.name() for _ in types_of([value])]
        builder.values[value] = names
        for ty, name in zip(types_of([value]), names, strict=True):
            # A kernel takes an i1 as a byte.
            parameters.append(f"{'i8' if function.kernel and ty == 'i1' else ty} {name}")
    if function.kernel:
        _booleans_from_bytes(builder, function)
    builder.emit(function.body)
    if function.kernel:
        parameters += [f"{_MAP} %map{number}" for number in range(len(text.maps))]
    last = function.body.last
    assert last is not None
    return_(builder, last)
    text.functions.append(
        "\n".join(
            [*_head(builder, symbol, parameters), *builder.hoisted_lines, *builder.lines, "}"]
        )
    )


def _booleans_from_bytes(builder: FunctionBuilder, function: Function) -> None:
    for value in function.args:
        if value.type is I1:
            byte = builder.scalar(value)
            builder.values[value] = [builder.new(f"icmp ne i8 {byte}, 0")]


def _head(builder: FunctionBuilder, symbol: str, parameters: list[str]) -> list[str]:
    """Return the first lines: signature, attributes of the launch, and the thread's number."""
    function, text = builder.function, builder.module
    attributes = ["nounwind", "convergent"]
    if function.kernel:
        attributes.append(f'"nvvm.reqntid"="{text.threads}"')
        if text.options.maxnreg is not None:
            attributes.append(f'"nvvm.maxnreg"="{text.options.maxnreg}"')
    else:
        attributes.append("noinline")
    kind = "ptx_kernel void" if function.kernel else f"internal {structure(result_types(function))}"
    debug = f" !dbg !{builder.scope}" if builder.scope is not None else ""
    name = "@llvm.nvvm.read.ptx.sreg.tid.x"
    text.declare(name, f"declare i32 {name}()")
    suffix = ""
    if builder.scope is not None and function.loc is not None:
        suffix = f", !dbg !{text.debug_location(function.loc, builder.scope, function.loc.file)}"
    return [
        f"define {kind} {symbol}({', '.join(parameters)}) {' '.join(attributes)}{debug} {{",
        "entry:",
        *builder.entry_lines,
        f"  {THREAD} = call range(i32 0, {text.threads}) i32 {name}(){suffix}",
    ]


def result_types(function: Function) -> list[str]:
    """Return the types of the registers that a function returns."""
    assert function.body.last is not None
    return types_of(function.body.last.inputs)
