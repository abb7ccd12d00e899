"""Products of matrices that one thread holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import product

from tile.backends.opencl.emit.arith import Element
from tile.backends.opencl.emit.body import Body, Registers, Rule
from tile.backends.opencl.emit.floats import narrow, wide
from tile.backends.opencl.emit.rows import Index, Row, array_row
from tile.backends.opencl.emit.types import is_integer, natural
from tile.ir.core import Operation, Value
from tile.ir.opdef import OpDef
from tile.ir.ops.linalg import Precision
from tile.ir.types import F16, F32, F64
from tile.simt import ops


def thread_dot(body: Body, op: Operation) -> None:
    """Multiply-adds in the order of k, a row of products at a time.

    The products of one operation are summed apart from the accumulator, which costs an addition and
    keeps long sums, which loops make of many such, exact to a few last bits.
    """
    if body.rolled(op.result):
        rolled_dot(body, op)
        return
    a, b, acc = op.inputs
    batch, m, n, k = op["sizes"]
    left, right = _factor(body, op, a, "a"), _factor(body, op, b, "b")
    before = [wide(body, F16, x) if acc.type.element is F16 else x for x in body.of(acc)]
    kind = _Kind.of(body, acc.type.element)
    sums: list[str] = []
    for p, i in product(range(batch), range(m)):
        row = left[(p * m + i) * k : (p * m + i + 1) * k]
        columns = [right[p * k * n + j : (p + 1) * k * n : n] for j in range(n)]
        start = (p * m + i) * n
        sums += _row(body, op, kind, row, columns, before[start : start + n])
    if acc.type.element is F16:
        body.let(op, [narrow(body, F16, total) for total in sums])
    else:
        body.set(op, sums)


SUMS = 8  # of a block


def rolled_dot(body: Body, op: Operation) -> None:
    """The same in loops: a block of sums is in variables while it is summed up."""
    a, b, acc = op.inputs
    batch, m, n, k = op["sizes"]
    left, right, before = _row_of(body, op, a, "a"), _row_of(body, op, b, "b"), body.row(acc)
    kind, element = _Kind.of(body, acc.type.element), acc.type.element
    name = body.names.new(op.result.name or "sums")
    body.array(body.carrier(op.result), name, batch * m * n)
    result = array_row(name, batch * m * n)
    rows = min(m, max(1, SUMS // n))
    with _maybe_loop(body, batch, "p") as p, _maybe_loop(body, m // rows, "i") as i:
        sums = body.names.new("sum")
        body.array(kind.ty, sums, rows * n)
        here = array_row(sums, rows * n)
        # Not `= {0}`, which PoCL 3.0 does once for all work-items of a group.
        with _block(body, rows, n) as (h, j):
            body.line(f"{here.at(h.times(n).and_(j))} = 0;")
        with body.loop(k, hint="k", free=True) as at, _block(body, rows, n) as (h, j):
            x = left.at(p.times(m * k).and_(i.times(rows * k)).and_(h.times(k)).and_(at))
            y = right.at(p.times(k * n).and_(at.times(n)).and_(j))
            total = here.at(h.times(n).and_(j))
            body.line(f"{total} = {kind.step(x, y, total)};")
        with _block(body, rows, n) as (h, j):
            place = p.times(m * n).and_(i.times(rows * n)).and_(h.times(n)).and_(j)
            added, total = before.at(place), here.at(h.times(n).and_(j))
            if element is F16:
                added = wide(body, F16, added)
            total = total if added in _ZEROS else f"{added} + {total}"
            text = narrow(body, F16, total) if element is F16 else total
            body.line(f"{result.at(place)} = {text};")
    body.set(op, result)


@contextmanager
def _block(body: Body, rows: int, columns: int) -> Iterator[tuple[Index, Index]]:
    """Over a block of sums, which is small enough to be unrolled."""
    with ExitStack() as loops:
        indices = [
            loops.enter_context(body.loop(count, hint=hint, free=True)) if count > 1 else Index()
            for count, hint in ((rows, "h"), (columns, "j"))
        ]
        yield indices[0], indices[1]


@contextmanager
def _maybe_loop(body: Body, count: int, hint: str) -> Iterator[Index]:
    """A loop, unless it has one round."""
    if count == 1:
        yield Index()
        return
    with body.loop(count, hint=hint) as index:
        yield index


def _row_of(body: Body, op: Operation, x: Value, hint: str) -> Row:
    """A factor as it is multiplied, in an array of its own if that is another type."""
    row = body.row(x)
    convert, ty = _conversion(body, op, x.type.element)
    if convert is None:
        return row
    name = body.names.new(x.name or hint)
    body.array(ty, name, len(row))
    with body.loop(len(row)) as index:
        text = convert(row.at(index))
        body.line(f"{array_row(name, len(row)).at(index)} = {text};")
    return array_row(name, len(row))


@dataclass(frozen=True)
class _Kind:
    """How products are added up."""

    ty: str
    function: str  # that multiplies and adds; nothing for integers

    @classmethod
    def of(cls, body: Body, element: Element) -> _Kind:
        if is_integer(element):
            return cls("uint", "")
        ty, name = ("double", "dot_f64") if element is F64 else ("float", "dot_f32")
        return cls(ty, body.use(name))

    def step(self, x: str, y: str, total: str) -> str:
        return f"{self.function}({x}, {y}, {total})" if self.function else f"{total} + {x} * {y}"


def _row(
    body: Body,
    op: Operation,
    kind: _Kind,
    row: Registers,
    columns: list[Registers],
    before: Registers,
) -> Registers:
    """A row of the result: sums of products with each column."""
    names = body.names.registers(op.result.name or "sum", len(columns))
    if len(row) == 1:
        steps = zip(columns, before, strict=True)
        body.declare(kind.ty, names, [kind.step(row[0], y[0], total) for y, total in steps])
        return names
    body.declare(kind.ty, names, [f"{row[0]} * {column[0]}" for column in columns])
    for at, x in enumerate(row[1:], 1):
        pairs = zip(names, columns, strict=True)
        texts = [f"{name} = {kind.step(x, column[at], name)};" for name, column in pairs]
        body.joined("", texts, " ", "")
    added = zip(names, before, strict=True)
    body.joined("", [f"{name} += {x};" for name, x in added if x not in _ZEROS], " ", "")
    return names


_ZEROS = ("0", "0.0", "0.0f")


def _factor(body: Body, op: Operation, x: Value, hint: str) -> Registers:
    """Registers as they are multiplied: in f32, f64 or int."""
    registers = body.of(x)
    convert, held = _conversion(body, op, x.type.element)
    if convert is None:
        return registers
    texts = [convert(register) for register in registers]
    different = list(dict.fromkeys(texts))
    names = body.names.registers(x.name or hint, len(different))
    body.declare(held, names, different)
    known = dict(zip(different, names, strict=True))
    return [known[text] for text in texts]


def _conversion(body: Body, op: Operation, ty: Element) -> tuple[Callable[[str], str] | None, str]:
    """What makes a factor one that is multiplied, if anything is to be done; and its type then."""
    if ty is F64:
        return None, "double"
    if ty is F32:
        if op["input_precision"] is not Precision.TF32:
            return None, "float"
        name = body.use("round_tf32")
        return lambda x: f"{name}({x})", "float"
    if is_integer(ty):
        return lambda x: f"(uint){natural(ty, x)}", "uint"
    return lambda x: wide(body, ty, x), "float"


RULES: dict[OpDef, Rule] = {ops.matrix.thread_dot: thread_dot}
