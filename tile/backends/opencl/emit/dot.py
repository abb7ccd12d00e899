"""Emit `fma_dot`, the dot of fragments of one thread, as multiply-adds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import product

from tile.backends.opencl.emit.arith import Element, narrow, wide
from tile.backends.opencl.emit.function_builder import FunctionBuilder, Registers, Rule
from tile.backends.opencl.emit.register_arrays import Index, RegisterArray, stored_array
from tile.backends.opencl.emit.types import is_integer, natural
from tile.ir.core import Operation, Value
from tile.ir.op_definition import OpDef
from tile.ir.types import F16, F32, F64, Precision
from tile.simt import ops


def fma_dot(builder: FunctionBuilder, op: Operation) -> None:
    """Emit multiply-adds in the order of k, one row of the result at a time.

    The sum of one operation begins at 0, and the accumulator is added last. This costs one addition
    per element and keeps the long sums of loops over many such operations accurate to a few ulp.
    """
    if builder.is_array(op.result):
        dot_in_loops(builder, op)
        return
    a, b, acc = op.inputs
    batch, m, n, k = op["sizes"]
    left, right = _operand(builder, op, a, "a"), _operand(builder, op, b, "b")
    accumulator = [wide(builder, F16, x) if acc.type.element is F16 else x for x in builder.of(acc)]
    kind = _Kind.of(builder, acc.type.element)
    sums: list[str] = []
    for p, i in product(range(batch), range(m)):
        row = left[(p * m + i) * k : (p * m + i + 1) * k]
        columns = [right[p * k * n + j : (p + 1) * k * n : n] for j in range(n)]
        start = (p * m + i) * n
        sums += _row(builder, op, kind, row, columns, accumulator[start : start + n])
    if acc.type.element is F16:
        builder.let(op, [narrow(builder, F16, total) for total in sums])
    else:
        builder.set(op, sums)


def dot_in_loops(builder: FunctionBuilder, op: Operation) -> None:
    """Emit a dot as loops over blocks of up to `block_sums` sums, kept in registers."""
    a, b, acc = op.inputs
    batch, m, n, k = op["sizes"]
    left, right, accumulator = (
        _operand_array(builder, op, a, "a"),
        _operand_array(builder, op, b, "b"),
        builder.array_of(acc),
    )
    kind, element = _Kind.of(builder, acc.type.element), acc.type.element
    name = builder.names.new(op.result.name or "sums")
    builder.array(builder.carrier(op.result), name, batch * m * n)
    result = stored_array(name, batch * m * n)
    rows = min(m, max(1, builder.tuning.block_sums // n))
    with _maybe_loop(builder, batch, "p") as p, _maybe_loop(builder, m // rows, "i") as i:
        sums = builder.names.new("sum")
        builder.array(kind.ty, sums, rows * n)
        block = stored_array(sums, rows * n)
        # No initializer `= {0}`: PoCL 3.0 executes it once for all work-items of a group.
        with _block(builder, rows, n) as (h, j):
            builder.line(f"{block.at(h.times(n).and_(j))} = 0;")
        with builder.loop(k, hint="k", unroll=True) as at, _block(builder, rows, n) as (h, j):
            x = left.at(p.times(m * k).and_(i.times(rows * k)).and_(h.times(k)).and_(at))
            y = right.at(p.times(k * n).and_(at.times(n)).and_(j))
            total = block.at(h.times(n).and_(j))
            builder.line(f"{total} = {kind.step(x, y, total)};")
        with _block(builder, rows, n) as (h, j):
            position = p.times(m * n).and_(i.times(rows * n)).and_(h.times(n)).and_(j)
            initial, total = accumulator.at(position), block.at(h.times(n).and_(j))
            if element is F16:
                initial = wide(builder, F16, initial)
            total = total if initial in _ZEROS else f"{initial} + {total}"
            text = narrow(builder, F16, total) if element is F16 else total
            builder.line(f"{result.at(position)} = {text};")
    builder.set(op, result)


@contextmanager
def _block(builder: FunctionBuilder, rows: int, columns: int) -> Iterator[tuple[Index, Index]]:
    """Emit loops over a block of sums, which is small enough to be unrolled."""
    with ExitStack() as loops:
        indices = [
            loops.enter_context(builder.loop(count, hint=hint, unroll=True))
            if count > 1
            else Index()
            for count, hint in ((rows, "h"), (columns, "j"))
        ]
        yield indices[0], indices[1]


@contextmanager
def _maybe_loop(builder: FunctionBuilder, count: int, hint: str) -> Iterator[Index]:
    """Emit a loop, unless it has one iteration."""
    if count == 1:
        yield Index()
        return
    with builder.loop(count, hint=hint) as index:
        yield index


def _operand_array(builder: FunctionBuilder, op: Operation, x: Value, hint: str) -> RegisterArray:
    """Return an operand in the type in which it is multiplied; if it is converted, a new array."""
    registers = builder.array_of(x)
    convert, ty = _conversion(builder, op, x.type.element)
    if convert is None:
        return registers
    converted = stored_array(builder.names.new(x.name or hint), len(registers))
    builder.array(ty, converted.array, len(converted))
    with builder.loop(len(converted)) as index:
        text = convert(registers.at(index))
        builder.line(f"{converted.at(index)} = {text};")
    return converted


@dataclass(frozen=True)
class _Kind:
    """The type of sums and the multiply-add function."""

    ty: str
    function: str  # "" for integers, which use operators

    @classmethod
    def of(cls, builder: FunctionBuilder, element: Element) -> _Kind:
        if is_integer(element):
            return cls("uint", "")
        ty, name = ("double", "dot_f64") if element is F64 else ("float", "dot_f32")
        return cls(ty, builder.use(name))

    def step(self, x: str, y: str, total: str) -> str:
        return f"{self.function}({x}, {y}, {total})" if self.function else f"{total} + {x} * {y}"


def _row(
    builder: FunctionBuilder,
    op: Operation,
    kind: _Kind,
    row: Registers,
    columns: list[Registers],
    accumulator: Registers,
) -> Registers:
    """Emit a row of the result: the dot of a row of `a` with each column of `b`."""
    names = builder.names.registers(op.result.name or "sum", len(columns))
    if len(row) == 1:
        steps = zip(columns, accumulator, strict=True)
        builder.declare(kind.ty, names, [kind.step(row[0], y[0], total) for y, total in steps])
        return names
    builder.declare(kind.ty, names, [f"{row[0]} * {column[0]}" for column in columns])
    for at, x in enumerate(row[1:], 1):
        pairs = zip(names, columns, strict=True)
        texts = [f"{name} = {kind.step(x, column[at], name)};" for name, column in pairs]
        builder.join_parts("", texts, " ", "")
    pairs = zip(names, accumulator, strict=True)
    builder.join_parts("", [f"{name} += {x};" for name, x in pairs if x not in _ZEROS], " ", "")
    return names


_ZEROS = ("0", "0.0", "0.0f")


def _operand(builder: FunctionBuilder, op: Operation, x: Value, hint: str) -> Registers:
    """Return the registers of an operand in the type in which it is multiplied."""
    registers = builder.of(x)
    convert, ty = _conversion(builder, op, x.type.element)
    if convert is None:
        return registers
    texts = [convert(register) for register in registers]
    distinct = list(dict.fromkeys(texts))
    names = builder.names.registers(x.name or hint, len(distinct))
    builder.declare(ty, names, distinct)
    converted = dict(zip(distinct, names, strict=True))
    return [converted[text] for text in texts]


def _conversion(
    builder: FunctionBuilder, op: Operation, ty: Element
) -> tuple[Callable[[str], str] | None, str]:
    """Return the conversion of an operand to the type in which it is multiplied, and that type.

    The types are f32, f64 and 32-bit integers; the conversion is None if none is needed.
    """
    if ty is F64:
        return None, "double"
    if ty is F32:
        if op["input_precision"] is not Precision.TF32:
            return None, "float"
        name = builder.use("round_tf32")
        return lambda x: f"{name}({x})", "float"
    if is_integer(ty):
        return lambda x: f"(uint){natural(ty, x)}", "uint"
    return lambda x: wide(builder, ty, x), "float"


RULES: dict[OpDef, Rule] = {ops.mma.fma_dot: fma_dot}
