"""Whole functions and modules."""

from __future__ import annotations

from dataclasses import dataclass

from tile.backends.base import Options
from tile.backends.nvptx.emit.body import Body, types_of
from tile.backends.nvptx.emit.control import return_, structure
from tile.backends.nvptx.emit.module import ModuleText
from tile.backends.nvptx.emit.registers import THREAD
from tile.backends.nvptx.emit.rules import RULES
from tile.backends.nvptx.facts import MAP_ALIGNMENT, MAP_BYTES, Facts
from tile.backends.nvptx.target import WARP, Architecture
from tile.ir.core import Function, Module
from tile.ir.types import I1
from tile.simt.plan_shared import shared_bytes

# A tensor map stays where the launch has put it.
_MAP = f'ptr byval([{MAP_BYTES} x i8]) align {MAP_ALIGNMENT} "nvvm.grid_constant"'


@dataclass(frozen=True)
class Emitted:
    """The text of an LLVM module, and what the host must know of it."""

    text: str
    facts: Facts
    libraries: frozenset[str]  # functions of libdevice that it calls
    inlined: bool = False  # whether it has functions to be put in the place of their calls


def emit_module(module: Module, arch: Architecture, options: Options) -> Emitted:
    """The functions of a THREAD module, whose only kernel is launched."""
    text = ModuleText(arch, options, threads=WARP * options.num_warps)
    for function in module:
        text.name_function(function)
    for function in module:
        emit_function(text, function)
    return Emitted(
        text.text(),
        Facts(
            kernel=text.symbol(module.kernel.name)[1:],
            threads=text.threads,
            shared_bytes=shared_bytes(module),
            assertions=tuple(text.assertions),
            maps=tuple(text.maps),
        ),
        frozenset(text.libraries),
        text.inlined,
    )


def emit_function(text: ModuleText, function: Function) -> None:
    """Add a function to a module."""
    body = Body(text, function, RULES)
    symbol = text.symbol(function.name)
    body.scope = text.scope(function, symbol[1:])
    parameters = []
    for value in function.args:
        names = [body.name() for _ in types_of([value])]
        body.values[value] = names
        for ty, name in zip(types_of([value]), names, strict=True):
            # A kernel's i1 is a byte, as the host has it.
            parameters.append(f"{'i8' if function.kernel and ty == 'i1' else ty} {name}")
    if function.kernel:
        _truths(body, function)
    body.emit(function.body)
    if function.kernel:
        parameters += [f"{_MAP} %map{number}" for number in range(len(text.maps))]
    last = function.body.last
    assert last is not None
    return_(body, last)
    text.functions.append(
        "\n".join([*_head(body, symbol, parameters), *body.early, *body.lines, "}"])
    )


def _truths(body: Body, function: Function) -> None:
    for value in function.args:
        if value.type is I1:
            byte = body.scalar(value)
            body.values[value] = [body.new(f"icmp ne i8 {byte}, 0")]


def _head(body: Body, symbol: str, parameters: list[str]) -> list[str]:
    """The first lines: signature, what the launch promises, and the thread's number."""
    function, text = body.function, body.module
    attributes = ["nounwind", "convergent"]
    if function.kernel:
        attributes.append(f'"nvvm.reqntid"="{text.threads}"')
        if text.options.maxnreg is not None:
            attributes.append(f'"nvvm.maxnreg"="{text.options.maxnreg}"')
    else:
        attributes.append("noinline")
    kind = "ptx_kernel void" if function.kernel else ""
    if not function.kernel:
        returned = last_types(function)
        kind = f"internal {structure(returned)}"
    debug = f" !dbg !{body.scope}" if body.scope is not None else ""
    name = "@llvm.nvvm.read.ptx.sreg.tid.x"
    text.declare(name, f"declare i32 {name}()")
    place = ""
    if body.scope is not None and function.loc is not None:
        place = f", !dbg !{text.place(function.loc, body.scope, function.loc.file)}"
    return [
        f"define {kind} {symbol}({', '.join(parameters)}) {' '.join(attributes)}{debug} {{",
        "entry:",
        *body.top,
        f"  {THREAD} = call range(i32 0, {text.threads}) i32 {name}(){place}",
    ]


def last_types(function: Function) -> list[str]:
    """The types of the registers that a function returns."""
    assert function.body.last is not None
    return types_of(function.body.last.inputs)
