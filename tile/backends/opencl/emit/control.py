"""Structured control flow, kept as it is; what a loop carries are variables that change."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from tile.analysis.call_graph import CallGraph
from tile.backends.opencl.emit.body import Body, Registers, Rule
from tile.backends.opencl.emit.rows import Row, array_row
from tile.backends.opencl.emit.types import (
    count_of,
    is_literal,
    is_signed,
    natural,
    stored,
    unsigned,
    value_of,
)
from tile.ir.core import Block, Module, Operation, Value
from tile.ir.effects import may_hang_silently
from tile.ir.opdef import OpDef
from tile.ir.ops import control, memory
from tile.ir.types import Scalar


def flat(body: Body, values: Sequence[Value]) -> list[str]:
    """The registers of values, in order."""
    return [register for value in values for register in body.of(value)]


def ending(block: Block) -> Operation:
    """What ends a block."""
    assert block.last is not None
    return block.last


def types_of(body: Body, values: Sequence[Value]) -> list[str]:
    """The C type of every register of some values, in order."""
    return [body.carrier(value) for value in values for _ in range(count_of(value.type))]


def _declared(
    body: Body, args: Sequence[Value], results: Sequence[Value], inits: Sequence[Value] | None
) -> list[Registers]:
    """Variables for what a region carries, under the results' names or the arguments'."""
    names: list[Registers] = []
    for number, (value, result) in enumerate(zip(args, results, strict=True)):
        hint, held = value.name or result.name or "v", body.carrier(value)
        if body.rolled(value):
            first = None if inits is None else body.row(inits[number])
            names.append(_array(body, held, hint, count_of(value.type), first))
            continue
        own = body.named(hint, value.type)
        body.declare(held, own, None if inits is None else body.of(inits[number]))
        names.append(own)
    return names


def _array(body: Body, ty: str, hint: str, count: int, first: Row | None) -> Row:
    """An array, with what it holds at first."""
    row = array_row(body.names.new(hint), count)
    body.array(ty, row.array, count)
    if first is not None:
        _copy(body, row, first)
    return row


def _copy(body: Body, target: Row, source: Row) -> None:
    with body.loop(len(target)) as index:
        text = source.at(index)
        body.line(f"{target.at(index)} = {text};")


def assign(body: Body, values: Sequence[Value], registers: Sequence[Registers]) -> None:
    """Say which registers the values have."""
    body.values.update(zip(values, registers, strict=True))


def _move(
    body: Body, args: Sequence[Value], targets: Sequence[Registers], sources: Sequence[Value]
) -> None:
    """Assign to all targets at once: what is overwritten before it is read goes through another."""
    rows: list[tuple[Row, Row]] = []
    types: list[str] = []
    moves: list[tuple[str, str]] = []
    arrays = {target.array for target in targets if isinstance(target, Row)}
    for arg, target, value in zip(args, targets, sources, strict=True):
        if not isinstance(target, Row):
            types += [body.carrier(arg)] * len(target)
            moves += zip(target, body.of(value), strict=True)
            continue
        source = body.row(value)
        if source.array != target.array:
            if not source.array or source.array in arrays:
                source = _array(body, body.carrier(arg), "old", len(source), source)
            rows.append((target, source))
    _move_variables(body, types, moves)
    for target, source in rows:
        _copy(body, target, source)


def _move_variables(body: Body, types: Sequence[str], pairs: Sequence[tuple[str, str]]) -> None:
    statements = []
    overwritten: set[str] = set()
    moves = [move for move in zip(types, pairs, strict=True) if move[1][0] != move[1][1]]
    saved: dict[str, str] = {}
    for ty, (target, source) in moves:
        if source in overwritten and source not in saved:
            saved[source] = body.temporary(ty, source, "old")
        overwritten.add(target)
        statements.append(f"{target} = {saved.get(source, source)};")
    body.joined("", statements, " ", "")


def synchronising(module: Module) -> frozenset[str]:
    """The functions that have a barrier, their own or that of what they call."""
    found: set[str] = set()
    for function in CallGraph(module).bottom_up():
        if _synchronises(function.walk(), found):
            found.add(function.name)
    return frozenset(found)


def _synchronises(ops: Iterable[Operation], functions: Container[str]) -> bool:
    """Whether there is a barrier among operations, or a call of one of these functions."""
    return any(
        op.defn is memory.barrier or (op.defn is control.call and op["callee"] in functions)
        for op in ops
    )


def _separates(body: Body, op: Operation) -> bool:
    """Return True if regions of `op` have a barrier that must not look conditional."""
    return body.source.device.header_barriers and _has_barrier(body, op)


def _has_barrier(body: Body, op: Operation) -> bool:
    return _synchronises(op.walk(), body.source.synchronising)


def if_(body: Body, op: Operation) -> None:
    """Results are variables that both branches assign."""
    then, orelse = op.regions
    names = _declared(body, op.results, op.results, None)
    condition = body.scalar(op.inputs[0])
    has_else = bool(names) or ending(orelse).prev is not None
    body.source.branch_barriers |= _has_barrier(body, op)
    if _separates(body, op):
        _branch(body, condition, then, op.results, names)
        if has_else:
            _branch(body, f"!{condition}", orelse, op.results, names)
        assign(body, op.results, names)
        return
    body.open(f"if ({condition})")
    _emit_branch(body, then, op.results, names)
    if has_else:
        body.otherwise()
        _emit_branch(body, orelse, op.results, names)
    body.close()
    assign(body, op.results, names)


def _emit_branch(
    body: Body, region: Block, results: Sequence[Value], names: Sequence[Registers]
) -> None:
    body.emit(region)
    _move(body, results, names, ending(region).inputs)


def _branch(
    body: Body, condition: str, region: Block, results: Sequence[Value], names: Sequence[Registers]
) -> None:
    """Emit a branch with a barrier as a loop of at most one iteration."""
    enter = body.names.new("enter")
    body.open(f"for (bool {enter} = {condition};; {enter} = false)")
    body.barrier()
    body.line(f"if (!{enter}) break;")
    _emit_branch(body, region, results, names)
    body.close()


def for_(body: Body, op: Operation) -> None:
    """The count never passes the end, where it might wrap."""
    lower, upper, step = (body.scalar(value) for value in op.inputs[:3])
    region = op.regions[0]
    count, *args = region.args
    ty = count.type.element
    assert isinstance(ty, Scalar)
    names = _declared(body, args, op.results, op.inputs[3:])
    assign(body, args, names)
    variable = body.names.new(count.name or "i")
    header = _header(ty, variable, lower, upper, step)
    if _separates(body, op):
        body.open(f"for ({header.start};; {header.increment})")
        body.barrier()
        body.line(f"if (!({header.test})) break;")
    else:
        body.open(f"for ({header.start}; {header.test}; {header.increment})")
    if ty.bits >= 32:
        body.values[count] = [variable]
    else:
        inner = body.temporary(unsigned(ty.bits), f"({unsigned(ty.bits)}){variable}", variable)
        body.values[count] = [inner]
    keep(body, op)
    body.emit(region)
    _move(body, args, names, ending(region).inputs)
    body.close()
    assign(body, op.results, names)


@dataclass(frozen=True)
class _Header:
    """The parts of the header of a `for` statement."""

    start: str
    test: str
    increment: str


def _header(ty: Scalar, i: str, lower: str, upper: str, step: str) -> _Header:
    if ty.bits < 32:  # counted in 32 bits, where nothing wraps
        lower, upper, step = (natural(ty, x) for x in (lower, upper, step))
        if is_literal(step):
            before = "<" if value_of(step) > 0 else ">"
            return _Header(f"int {i} = {lower}", f"{i} {before} {upper}", f"{i} += {step}")
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
    if not is_signed(ty):
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


def keep(body: Body, loop: Operation) -> None:
    """Put a volatile access in a loop that may run forever without a side effect.

    The constant condition of `while (true)` keeps a C compiler from assuming that the loop ends
    (C11 6.8.5p6), but not what runs behind it: ptxas assumes that of any loop without side effects.
    """
    if may_hang_silently(loop):
        body.line(f"volatile int {body.names.new('kept')} = 0;")


def while_(body: Body, op: Operation) -> None:
    """An endless loop that the test leaves."""
    test, region = op.regions
    names = _declared(body, region.args, op.results, op.inputs)
    assign(body, test.args, names)
    assign(body, region.args, names)
    body.open("while (true)")
    if _separates(body, op):
        body.barrier()
    body.emit(test)
    body.line(f"if (!{body.scalar(ending(test).inputs[0])}) break;")
    keep(body, op)
    body.emit(region)
    _move(body, region.args, names, ending(region).inputs)
    body.close()
    assign(body, op.results, names)


def call(body: Body, op: Operation) -> None:
    """Several results come in a structure."""
    name = body.source.symbol(op["callee"])
    given = ", ".join([*flat(body, op.inputs), *hidden(body)])
    types = types_of(body, op.results)
    if not types:
        body.line(f"{name}({given});")
    elif len(types) == 1:
        names = body.fresh(op.results[0])
        body.declare(types[0], names, [f"{name}({given})"])
        assign(body, op.results, [names])
    else:
        held = body.temporary(body.source.structure(types), f"{name}({given})", "results")
        fields = [f"{held}.r{number}" for number in range(len(types))]
        ends = list(accumulate(count_of(result.type) for result in op.results))
        assign(body, op.results, [fields[i:j] for i, j in zip([0, *ends], ends, strict=False)])


def hidden(body: Body) -> list[str]:
    """What every function but the kernel is given besides its arguments."""
    shared = ["shared"] if body.source.shared_bytes else []
    return shared + (["faults"] if body.source.reports else [])


def return_(body: Body, op: Operation) -> None:
    """The end of a function."""
    registers = flat(body, op.inputs)
    if not registers:
        return
    if len(registers) == 1:
        body.line(f"return {registers[0]};")
        return
    structure = body.source.structure(types_of(body, op.inputs))
    name = body.names.new("results")
    body.line(f"{structure} {name} = {{{', '.join(registers)}}};")
    body.line(f"return {name};")


RULES: dict[OpDef, Rule] = {
    control.for_: for_,
    control.while_: while_,
    control.if_: if_,
    control.call: call,
}
