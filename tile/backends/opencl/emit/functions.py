"""Whole functions and programs."""

from __future__ import annotations

import linecache
from pathlib import Path

from tile.backends.base import Options
from tile.backends.opencl.capabilities import Capabilities
from tile.backends.opencl.emit.body import Body
from tile.backends.opencl.emit.control import ending, return_, synchronising, types_of
from tile.backends.opencl.emit.registers import LANE_OF_THREAD, PART_OF_THREAD, THREAD
from tile.backends.opencl.emit.rules import RULES
from tile.backends.opencl.emit.source import Line, Source
from tile.backends.opencl.emit.types import is_signed, stored
from tile.backends.opencl.emitted import Emitted
from tile.errors import Loc
from tile.ir.core import Function, Module, Value
from tile.ir.ops import debug
from tile.ir.types import I1
from tile.simt.plan_shared import shared_bytes

ALIGNMENT = 128  # of the array in local memory, in bytes


def emit_module(module: Module, device: Capabilities, options: Options) -> tuple[str, Emitted]:
    """A THREAD module, whose only kernel is launched: as text to be read, and as it is built.

    The former has the Python lines as comments.
    """
    reports = any(op.defn is debug.device_assert for op in module.walk())
    source = Source(device, options, shared_bytes(module), reports, synchronising(module))
    for function in module:
        source.name_function(function)
    for function in sorted(module, key=lambda f: f.kernel):
        emit_function(source, function)
    lines = source.lines()
    emitted = Emitted(
        numbered="\n".join(_numbered(lines)) + "\n",
        kernel=source.symbol(module.kernel.name),
        extents=source.extents,
        shared_bytes=source.shared_bytes,
        reports=reports,
        assertions=tuple(source.assertions),
        build_options=source.build_options,
        device=device.name,
        extensions=frozenset(source.extensions),
        assembly=source.assembly,
        subgroup=device.warp if device.subgroups else 0,
    )
    return "\n".join(_commented(lines)) + "\n", emitted


def emit_function(source: Source, function: Function) -> None:
    """Add a function to a program."""
    body = Body(source, function, RULES)
    parameters = []
    for value in function.args:
        names = body.named(value.name or "v", value.type)
        parameters += [_parameter(body, function, value, name) for name in names]
        body.values[value] = names
        if function.kernel and is_signed(value.type.element):
            body.values[value] = [f"({source.carrier(value.type.element)}){names[0]}"]
    if function.kernel and source.shared_bytes:
        size = f"char shared[{source.shared_bytes}]"
        body.line(f"__local {size} __attribute__((aligned({ALIGNMENT})));")
    if source.abreast > 1:
        body.line(f"uint {LANE_OF_THREAD} = get_local_id(0), {PART_OF_THREAD} = get_local_id(1);")
    body.line(f"uint {THREAD} = {_thread(source)};")
    if function.kernel and source.device.copied:
        body.line(f"if (get_work_dim() == 0) {body.use('stay_whole')}();")
    for value in function.args:
        if function.kernel and value.type is I1:
            body.values[value] = [body.temporary("bool", f"{body.scalar(value)} != 0", value.name)]
    body.emit(function.body)
    return_(body, ending(function.body))
    head = _head(body, function, parameters)
    source.functions.append([*head, *body.lines, Line("}")])


def _parameter(body: Body, function: Function, value: Value, name: str) -> str:
    """A kernel's parameters have the types of memory."""
    ty = value.type.element
    held = body.carrier(value)
    if function.kernel and not held.endswith("*"):
        held = stored(ty, body.source.device.fp16)
    return f"{held}{name}" if held.endswith("*") else f"{held} {name}"


def _thread(source: Source) -> str:
    """The number of a work-item in its work-group: sub-groups are warps where they matter.

    Where warps are those of assembly, they are neighbours along the only axis of a work-group.
    """
    if source.abreast > 1:
        return f"{PART_OF_THREAD} * {source.abreast} + {LANE_OF_THREAD}"
    if not source.device.subgroups:
        return "get_local_id(0)"
    source.extensions.add("cl_khr_subgroups")
    return f"get_sub_group_id() * {source.device.warp} + get_sub_group_local_id()"


def _head(body: Body, function: Function, parameters: list[str]) -> list[Line]:
    """The signature, and what the launch promises."""
    source, symbol = body.source, body.source.symbol(function.name)
    hidden = ["__local char *shared"] if source.shared_bytes and not function.kernel else []
    if source.reports:
        hidden.append("__global int *faults")
    given = ", ".join([*parameters, *hidden])
    if function.kernel:
        lines = [Line("__kernel", function.loc)]
        if source.device.subgroups and source.device.fixed_subgroups:
            size = source.device.warp
            lines.append(Line(f"__attribute__((intel_reqd_sub_group_size({size})))", function.loc))
        extents = ", ".join(map(str, source.extents))
        lines.append(Line(f"__attribute__((reqd_work_group_size({extents})))", function.loc))
        return [*lines, Line(f"void {symbol}({given}) {{", function.loc)]
    types = types_of(body, ending(function.body).inputs)
    result = "void" if not types else types[0] if len(types) == 1 else source.structure(types)
    signature = f"{result} {symbol}({given})"
    source.prototypes.append(f"{signature};")
    attribute = "__attribute__((noinline))"
    return [Line(attribute, function.loc), Line(f"{signature} {{", function.loc)]


# -- places in Python


def _commented(lines: list[Line]) -> list[str]:
    """The Python line above the statements that come of it."""
    texts: list[str] = []
    last: tuple[str, int] | None = None
    for line in lines:
        loc = line.loc
        if loc is None:
            last = None
        elif (loc.file, loc.line) != last:
            last = (loc.file, loc.line)
            comment = _comment(loc)
            if comment:
                indent = " " * (len(line.text) - len(line.text.lstrip()))
                texts.append(f"{indent}{comment}")
        texts.append(line.text)
    return texts


def _comment(loc: Loc) -> str:
    text = linecache.getline(loc.file, loc.line).strip()
    text = text.rstrip("\\")  # which would join the next line to the comment
    return f"// {Path(loc.file).name}:{loc.line}: {text}" if text else ""


def _numbered(lines: list[Line]) -> list[str]:
    """The text with `#line` wherever the compiler would count to another place."""
    texts: list[str] = []
    at: tuple[str, int] | None = None
    for number, line in enumerate(lines, 1):
        place = (line.loc.file, line.loc.line) if line.loc is not None else ("program.cl", number)
        if place != at:
            file = place[0].replace("\\", "\\\\").replace('"', '\\"')
            texts.append(f'#line {place[1]} "{file}"')
        texts.append(line.text)
        at = (place[0], place[1] + 1)
    return texts
