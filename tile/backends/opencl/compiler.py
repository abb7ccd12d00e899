"""Compile a module for an OpenCL device: lower it to THREAD IR, and emit a program in OpenCL C."""

from __future__ import annotations

import linecache
from pathlib import Path

from tile.analysis.alias import disjoint_parameters
from tile.backends.base import Artifact, Options, Target
from tile.backends.opencl.emit import RULES, lowering_target
from tile.backends.opencl.emit.control import return_, synchronizing, types_of
from tile.backends.opencl.emit.function_builder import FunctionBuilder
from tile.backends.opencl.emit.module import Line, Source
from tile.backends.opencl.emit.registers import LANE_OF_THREAD, PART_OF_THREAD, THREAD
from tile.backends.opencl.emit.types import stored
from tile.backends.opencl.launch_metadata import LaunchMetadata
from tile.backends.opencl.target import Capabilities
from tile.ir.core import Function, Value
from tile.ir.module import Module
from tile.ir.ops import debug
from tile.ir.printer import print_module
from tile.ir.types import I1
from tile.location import Loc
from tile.simt.lower.infer_invariant_loads import invariant_parameters
from tile.simt.memory.allocate_shared import shared_bytes
from tile.simt.pass_pipeline import lower
from tile.transforms.pass_pipeline import optimize

ALIGNMENT = 128  # of the array in local memory, in bytes


def emit_module(
    module: Module, device: Capabilities, options: Options
) -> tuple[str, LaunchMetadata]:
    """Emit a THREAD module; return its text for readers, and its metadata with the text to build.

    The text for readers has the Python lines as comments, the text to build `#line` directives.
    """
    reports = any(op.defn is debug.device_assert for op in module.walk())
    source = Source(device, options, shared_bytes(module), reports, synchronizing(module))
    for function in module:
        source.name_function(function)
    for function in sorted(module, key=lambda f: f.kernel):
        emit_function(source, function)
    lines = source.lines()
    metadata = LaunchMetadata(
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
    return "\n".join(_commented(lines)) + "\n", metadata


def emit_function(source: Source, function: Function) -> None:
    """Emit a function and add it to a program."""
    builder = FunctionBuilder(source, function, RULES)
    parameters = []
    for value in function.args:
        names = builder.named(value.name or "v", value.type)
        parameters += [_parameter(builder, function, value, name) for name in names]
        builder.values[value] = names
        if function.kernel and value.type.element.is_int_signed():
            builder.values[value] = [f"({source.carrier(value.type.element)}){names[0]}"]
    if function.kernel and source.shared_bytes:
        size = f"char shared[{source.shared_bytes}]"
        builder.line(f"__local {size} __attribute__((aligned({ALIGNMENT})));")
    if source.simd_width > 1:
        builder.line(
            f"uint {LANE_OF_THREAD} = get_local_id(0), {PART_OF_THREAD} = get_local_id(1);"
        )
    builder.line(f"uint {THREAD} = {_thread(source)};")
    if function.kernel and source.device.inlines_kernels:
        builder.line(f"if (get_work_dim() == 0) {builder.use('prevent_inlining')}();")
    for value in function.args:
        if function.kernel and value.type is I1:
            builder.values[value] = [
                builder.temporary("bool", f"{builder.scalar(value)} != 0", value.name)
            ]
    builder.emit(function.body)
    return_(builder, function.body.end)
    head = _head(builder, function, parameters)
    source.functions.append([*head, *builder.lines, Line("}")])


def _parameter(builder: FunctionBuilder, function: Function, value: Value, name: str) -> str:
    """Return the declaration of a parameter; a kernel's parameters have the types of memory."""
    ty = builder.carrier(value)
    if function.kernel and not ty.endswith("*"):
        ty = stored(value.type.element, builder.source.device.fp16)
    if ty.endswith("*"):
        return f"{ty}restrict {name}" if value in builder.pointers.restrict else f"{ty}{name}"
    return f"{ty} {name}"


def _thread(source: Source) -> str:
    """Return the number of a work-item in its work-group.

    A sub-group is a warp on devices with sub-group shuffles. For PTX, 32 adjacent work-items along
    the only axis of a work-group are a warp.
    """
    if source.simd_width > 1:
        return f"{PART_OF_THREAD} * {source.simd_width} + {LANE_OF_THREAD}"
    if not source.device.subgroups:
        return "get_local_id(0)"
    source.extensions.add("cl_khr_subgroups")
    return f"get_sub_group_id() * {source.device.warp} + get_sub_group_local_id()"


def _head(builder: FunctionBuilder, function: Function, parameters: list[str]) -> list[Line]:
    """Return the lines of the signature, with the attributes of a kernel."""
    source, symbol = builder.source, builder.source.symbol(function.name)
    hidden = ["__local char *shared"] if source.shared_bytes and not function.kernel else []
    if source.reports:
        hidden.append("__global int *faults")
    declarations = ", ".join([*parameters, *hidden])
    if function.kernel:
        lines = [Line("__kernel", function.loc)]
        if source.device.subgroups and source.device.fixed_subgroups:
            size = source.device.warp
            lines.append(Line(f"__attribute__((intel_reqd_sub_group_size({size})))", function.loc))
        extents = ", ".join(map(str, source.extents))
        lines.append(Line(f"__attribute__((reqd_work_group_size({extents})))", function.loc))
        return [*lines, Line(f"void {symbol}({declarations}) {{", function.loc)]
    types = types_of(builder, function.body.yielded)
    result = "void" if not types else types[0] if len(types) == 1 else source.structure(types)
    signature = f"{result} {symbol}({declarations})"
    source.prototypes.append(f"{signature};")
    inlined = source.device.inlined_barriers and function.name in source.synchronizing
    attribute = f"__attribute__(({'always_inline' if inlined else 'noinline'}))"
    return [Line(attribute, function.loc), Line(f"{signature} {{", function.loc)]


# -- locations in Python


def _commented(lines: list[Line]) -> list[str]:
    """Return the text with each Python line as a comment above its statements."""
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
    text = text.rstrip("\\")  # a trailing backslash would continue the comment on the next line
    return f"// {Path(loc.file).name}:{loc.line}: {text}" if text else ""


def _numbered(lines: list[Line]) -> list[str]:
    """Return the text with `#line` directives where lines do not follow each other in Python."""
    texts: list[str] = []
    expected: tuple[str, int] | None = None
    for number, line in enumerate(lines, 1):
        file, row = ("program.cl", number) if line.loc is None else (line.loc.file, line.loc.line)
        if (file, row) != expected:
            escaped = file.replace("\\", "\\\\").replace('"', '\\"')
            texts.append(f'#line {row} "{escaped}"')
        texts.append(line.text)
        expected = (file, row + 1)
    return texts


def compile_module(module: Module, target: Target, options: Options, can: Capabilities) -> Artifact:
    """Lower a TILE module to OpenCL C, modifying it. See `OpenclBackend.compile`."""
    tiles = optimize(module)
    stages = tiles.stages
    lower(module, lowering_target(can), **options.lowering)
    stages["thread"] = print_module(module)
    text, launch_metadata = emit_module(module, can, options)
    stages["opencl"] = text
    return Artifact(
        kernel=module.kernel.name,
        target=target,
        options=options,
        stages=stages,
        parameters=tiles.parameters,
        written=tiles.written,
        noalias=invariant_parameters(module.kernel),
        disjoint=disjoint_parameters(module.kernel),
        launch_metadata=launch_metadata.data(),
    )
