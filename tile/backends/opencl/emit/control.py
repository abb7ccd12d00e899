"""Emit structured control flow; loop-carried values are variables that iterations assign."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from tile.analysis.call_graph import CallGraph
from tile.backends.opencl.emit.function_builder import FunctionBuilder, Registers, Rule
from tile.backends.opencl.emit.register_arrays import RegisterArray, stored_array
from tile.backends.opencl.emit.types import (
    is_literal,
    natural,
    stored,
    unsigned,
    value_of,
)
from tile.ir.core import Block, Operation, Value
from tile.ir.effects import may_hang_silently
from tile.ir.module import Module
from tile.ir.op_definition import OpDef
from tile.ir.ops import control, memory
from tile.ir.types import Scalar, count_of, number_of


def types_of(builder: FunctionBuilder, values: Sequence[Value]) -> list[str]:
    """Return the C type of every register of some values, in order."""
    return [builder.carrier(value) for value in values for _ in range(count_of(value.type))]


def _declared(
    builder: FunctionBuilder,
    args: Sequence[Value],
    results: Sequence[Value],
    inits: Sequence[Value] | None,
) -> list[Registers]:
    """Declare variables for the values that a region yields or carries, with their initial values.

    They have the names of the arguments, or else of the results.
    """
    variables: list[Registers] = []
    for number, (value, result) in enumerate(zip(args, results, strict=True)):
        hint, ty = value.name or result.name or "v", builder.carrier(value)
        if builder.is_array(value):
            init = None if inits is None else builder.array_of(inits[number])
            variables.append(_array(builder, ty, hint, count_of(value.type), init))
            continue
        names = builder.named(hint, value.type)
        builder.declare(ty, names, None if inits is None else builder.of(inits[number]))
        variables.append(names)
    return variables


def _array(
    builder: FunctionBuilder, ty: str, hint: str, count: int, first: RegisterArray | None
) -> RegisterArray:
    """Declare an array with its initial values."""
    row = stored_array(builder.names.new(hint), count)
    builder.array(ty, row.array, count)
    if first is not None:
        _copy(builder, row, first)
    return row


def _copy(builder: FunctionBuilder, target: RegisterArray, source: RegisterArray) -> None:
    with builder.loop(len(target)) as index:
        text = source.at(index)
        builder.line(f"{target.at(index)} = {text};")


def assign(
    builder: FunctionBuilder, values: Sequence[Value], registers: Sequence[Registers]
) -> None:
    """Set the registers of values."""
    builder.values.update(zip(values, registers, strict=True))


def _move(
    builder: FunctionBuilder,
    args: Sequence[Value],
    targets: Sequence[Registers],
    sources: Sequence[Value],
) -> None:
    """Assign to all targets in parallel: save sources that are overwritten before they are read."""
    copies: list[tuple[RegisterArray, RegisterArray]] = []
    types: list[str] = []
    moves: list[tuple[str, str]] = []
    arrays = {target.array for target in targets if isinstance(target, RegisterArray)}
    for arg, target, value in zip(args, targets, sources, strict=True):
        if not isinstance(target, RegisterArray):
            types += [builder.carrier(arg)] * len(target)
            moves += zip(target, builder.of(value), strict=True)
            continue
        source = builder.array_of(value)
        if source.array != target.array:
            if not source.array or source.array in arrays:
                source = _array(builder, builder.carrier(arg), "old", len(source), source)
            copies.append((target, source))
    _move_variables(builder, types, moves)
    for target, source in copies:
        _copy(builder, target, source)


def _move_variables(
    builder: FunctionBuilder, types: Sequence[str], pairs: Sequence[tuple[str, str]]
) -> None:
    statements = []
    overwritten: set[str] = set()
    moves = [move for move in zip(types, pairs, strict=True) if move[1][0] != move[1][1]]
    saved: dict[str, str] = {}
    for ty, (target, source) in moves:
        if source in overwritten and source not in saved:
            saved[source] = builder.temporary(ty, source, "old")
        overwritten.add(target)
        statements.append(f"{target} = {saved.get(source, source)};")
    builder.join_parts("", statements, " ", "")


def synchronizing(module: Module) -> frozenset[str]:
    """Return the names of the functions that contain a barrier or call one that does."""
    names: set[str] = set()
    for function in CallGraph(module).bottom_up():
        if _synchronizes(function.walk(), names):
            names.add(function.name)
    return frozenset(names)


def _synchronizes(ops: Iterable[Operation], functions: Container[str]) -> bool:
    """Return True if operations contain a barrier or a call of one of these functions."""
    return any(
        op.defn is memory.barrier or (op.defn is control.call and op["callee"] in functions)
        for op in ops
    )


def _separates(builder: FunctionBuilder, op: Operation) -> bool:
    """Return True if regions of `op` have a barrier that must not look conditional."""
    return builder.source.device.header_barriers and _has_barrier(builder, op)


def _has_barrier(builder: FunctionBuilder, op: Operation) -> bool:
    return _synchronizes(op.walk(), builder.source.synchronizing)


def if_(builder: FunctionBuilder, op: Operation) -> None:
    """Emit an `if`, whose results are variables that both branches assign."""
    then, orelse = op.regions
    names = _declared(builder, op.results, op.results, None)
    condition = builder.scalar(op.inputs[0])
    has_else = bool(names) or orelse.end.prev is not None
    builder.source.branch_barriers |= _has_barrier(builder, op)
    if _separates(builder, op):
        _branch(builder, condition, then, op.results, names)
        if has_else:
            _branch(builder, f"!{condition}", orelse, op.results, names)
        assign(builder, op.results, names)
        return
    builder.open(f"if ({condition})")
    _emit_branch(builder, then, op.results, names)
    if has_else:
        builder.otherwise()
        _emit_branch(builder, orelse, op.results, names)
    builder.close()
    assign(builder, op.results, names)


def _emit_branch(
    builder: FunctionBuilder, region: Block, results: Sequence[Value], names: Sequence[Registers]
) -> None:
    builder.emit(region)
    _move(builder, results, names, region.yielded)


def _branch(
    builder: FunctionBuilder,
    condition: str,
    region: Block,
    results: Sequence[Value],
    names: Sequence[Registers],
) -> None:
    """Emit a branch with a barrier as a loop of at most one iteration."""
    enter = builder.names.new("enter")
    builder.open(f"for (bool {enter} = {condition};; {enter} = false)")
    builder.barrier()
    _exit_unless(builder, enter)
    _emit_branch(builder, region, results, names)
    builder.close()


def _exit_unless(builder: FunctionBuilder, condition: str) -> None:
    """Emit the exit test of a loop that has a barrier before it.

    PoCL 3.0 takes a branch that begins a block after such a test to be uniform, and lets the first
    work-item decide, as for a masked store whose operands LLVM has hoisted. A volatile store cannot
    be hoisted; the barrier keeps it out of loops over work-items that LLVM may vectorize.
    """
    builder.line(f"if (!{condition}) break;")
    builder.line(f"volatile int {builder.names.new('not_uniform')} = 0;")
    builder.barrier()


def for_(builder: FunctionBuilder, op: Operation) -> None:
    """Emit a `for`, whose counter stops at the bound, since it might wrap beyond it."""
    lower, upper, step = (builder.scalar(value) for value in op.inputs[:3])
    region = op.regions[0]
    counter, *args = region.args
    ty = number_of(counter.type)
    names = _declared(builder, args, op.results, op.inputs[3:])
    assign(builder, args, names)
    variable = builder.names.new(counter.name or "i")
    header = _header(ty, variable, lower, upper, step)
    if _separates(builder, op):
        builder.open(f"for ({header.start};; {header.increment})")
        builder.barrier()
        _exit_unless(builder, f"({header.test})")
    else:
        builder.open(f"for ({header.start}; {header.test}; {header.increment})")
    if ty.bits >= 32:
        builder.values[counter] = [variable]
    else:
        narrow = builder.temporary(unsigned(ty.bits), f"({unsigned(ty.bits)}){variable}", variable)
        builder.values[counter] = [narrow]
    add_side_effect(builder, op)
    builder.emit(region)
    _move(builder, args, names, region.yielded)
    builder.close()
    assign(builder, op.results, names)


@dataclass(frozen=True)
class _Header:
    """The parts of the header of a `for` statement."""

    start: str
    test: str
    increment: str


def _header(ty: Scalar, i: str, lower: str, upper: str, step: str) -> _Header:
    if ty.bits < 32:  # a 32-bit counter cannot wrap
        lower, upper, step = (natural(ty, x) for x in (lower, upper, step))
        if is_literal(step):
            compare = "<" if value_of(step) > 0 else ">"
            return _Header(f"int {i} = {lower}", f"{i} {compare} {upper}", f"{i} += {step}")
        test = f"{step} > 0 ? {i} < {upper} : {i} > {upper}"
        return _Header(f"int {i} = {lower}", test, f"{i} += {step}")
    kind = unsigned(ty.bits)
    below = f"{natural(ty, i)} < {natural(ty, upper)}"
    above = f"{natural(ty, i)} > {natural(ty, upper)}"
    start = f"{kind} {i} = {lower}"
    if is_literal(step):
        number = value_of(step)
        if number > 0:
            return _Header(start, below, f"{i} += {_up(ty, i, upper, number)}")
        return _Header(start, above, f"{i} -= {_down(ty, i, upper, -number)}")
    up = f"min(({kind}){step}, ({kind})({upper} - {i}))"
    if not ty.is_int_signed():
        return _Header(start, below, f"{i} += {up}")
    down = f"min(({kind})(0 - {step}), ({kind})({i} - {upper}))"
    forward = f"({stored(ty, True)}){step} > 0"
    change = f"{i} += {forward} ? {up} : 0 - {down}"
    return _Header(start, f"{forward} ? {below} : {above}", change)


def _up(ty: Scalar, i: str, upper: str, step: int) -> str:
    if step == 1 or (is_literal(upper) and value_of(upper) + step <= ty.max_value):
        return str(step)
    kind = unsigned(ty.bits)
    return f"min(({kind}){step}, {upper} - {i})"


def _down(ty: Scalar, i: str, upper: str, step: int) -> str:
    if step == 1 or (is_literal(upper) and value_of(upper) - step >= ty.min_value):
        return str(step)
    kind = unsigned(ty.bits)
    return f"min(({kind}){step}, {i} - {upper})"


def add_side_effect(builder: FunctionBuilder, loop: Operation) -> None:
    """Emit a volatile access in a loop that may run forever without a side effect.

    The constant condition of `while (true)` keeps a C compiler from assuming that the loop ends
    (C11 6.8.5p6). It does not keep a later compiler from it: ptxas assumes it of every loop without
    side effects.
    """
    if may_hang_silently(loop):
        builder.line(f"volatile int {builder.names.new('side_effect')} = 0;")


def while_(builder: FunctionBuilder, op: Operation) -> None:
    """Emit a `while` as an endless loop with a `break` after its condition."""
    test, region = op.regions
    names = _declared(builder, region.args, op.results, op.inputs)
    assign(builder, test.args, names)
    assign(builder, region.args, names)
    builder.open("while (true)")
    if _separates(builder, op):
        builder.barrier()
    builder.emit(test)
    condition = builder.scalar(test.yielded[0])
    if _separates(builder, op):
        # PoCL 3.0 takes the wrong values out of a loop that LLVM leaves by several edges, one for
        # each operand of an `and`. A volatile variable keeps them one test.
        going_on = builder.names.new("going_on")
        builder.line(f"volatile bool {going_on} = {condition};")
        _exit_unless(builder, going_on)
    else:
        builder.line(f"if (!{condition}) break;")
    add_side_effect(builder, op)
    builder.emit(region)
    _move(builder, region.args, names, region.yielded)
    builder.close()
    assign(builder, op.results, names)


def call(builder: FunctionBuilder, op: Operation) -> None:
    """Emit a call; several result registers are the fields of a structure.

    PoCL 3.0 adds a barrier before a conditional one, such as one in a loop. For a barrier of a
    function that begins with a branch, it may add it in a branch before the call: then the first
    work-item decides that branch for all. It does not do so where the call follows a barrier.
    """
    if _separates(builder, op):
        builder.barrier()
    name = builder.source.symbol(op["callee"])
    arguments = ", ".join([*builder.flat(op.inputs), *hidden(builder)])
    text = f"{name}({arguments})"
    types = types_of(builder, op.results)
    if not types:
        builder.line(f"{text};")
    elif len(types) == 1:
        names = builder.new_names(op.results[0])
        builder.declare(types[0], names, [text])
        assign(builder, op.results, [names])
    else:
        results = builder.temporary(builder.source.structure(types), text, "results")
        fields = [f"{results}.r{number}" for number in range(len(types))]
        ends = list(accumulate(count_of(result.type) for result in op.results))
        assign(builder, op.results, [fields[i:j] for i, j in zip([0, *ends], ends, strict=False)])


def hidden(builder: FunctionBuilder) -> list[str]:
    """Return the additional arguments of every function but the kernel."""
    shared = ["shared"] if builder.source.shared_bytes else []
    return shared + (["faults"] if builder.source.reports else [])


def return_(builder: FunctionBuilder, op: Operation) -> None:
    """Emit the return statement of a function, if it has results."""
    registers = builder.flat(op.inputs)
    if not registers:
        return
    if len(registers) == 1:
        builder.line(f"return {registers[0]};")
        return
    structure = builder.source.structure(types_of(builder, op.inputs))
    name = builder.names.new("results")
    builder.line(f"{structure} {name} = {{{', '.join(registers)}}};")
    builder.line(f"return {name};")


RULES: dict[OpDef, Rule] = {
    control.for_: for_,
    control.while_: while_,
    control.if_: if_,
    control.call: call,
}
