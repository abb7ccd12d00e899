"""Whole functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tile.codegen.llvm.control import return_, structure
from tile.codegen.llvm.function_builder import FunctionBuilder, types_of
from tile.ir.core import Function
from tile.ir.types import I1


def function_text(
    builder: FunctionBuilder,
    kind: str,
    attributes: Sequence[str] = (),
    prologue: Sequence[str] = (),
    parameters: Callable[[], list[str]] = list,
) -> str:
    """Emit a function, and return its text.

    kind: linkage and calling convention, such as `internal`, followed by a space; or nothing.
    prologue: instructions at the start, one of which computes `%thread`.
    parameters: further parameters, known when the body is emitted.
    """
    function, module = builder.function, builder.module
    symbol = module.symbol(function.name)
    builder.scope = module.scope(function, symbol[1:])
    own = _parameters(builder)
    builder.emit(function.body)
    return_(builder, function.body.end)
    debug = suffix = ""
    if builder.scope is not None:
        debug = f" !dbg !{builder.scope}"
        assert function.loc is not None
        location = module.debug_location(function.loc, builder.scope, function.loc.file)
        suffix = f", !dbg !{location}"
    arguments = ", ".join([*own, *parameters()])
    head = f"define {kind}{structure(result_types(function))} {symbol}({arguments})"
    lines = [
        f"{' '.join([head, *attributes])}{debug} {{",
        "entry:",
        *builder.entry_lines,
        *[f"  {text}{suffix}" for text in prologue],
        *builder.prologue,
        *builder.lines,
        "}",
    ]
    return "\n".join(lines)


def _parameters(builder: FunctionBuilder) -> list[str]:
    """Name the parameters, and return them with their types. A kernel takes an i1 as a byte."""
    function = builder.function
    parameters = []
    for value in function.args:
        types = types_of([value])
        names = builder.values[value] = [builder.name() for _ in types]
        for ty, name in zip(types, names, strict=True):
            parameters.append(f"{'i8' if function.kernel and ty == 'i1' else ty} {name}")
    for value in function.args if function.kernel else ():
        if value.type is I1:
            byte = builder.scalar(value)
            builder.values[value] = [builder.new(f"icmp ne i8 {byte}, 0")]
    return parameters


def result_types(function: Function) -> list[str]:
    """Return the types of the registers that a function returns."""
    return types_of(function.body.yielded)
