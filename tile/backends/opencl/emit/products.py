"""Products of matrices that one thread holds."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from tile.backends.opencl.emit.arith import Element
from tile.backends.opencl.emit.body import Body, Registers, Rule
from tile.backends.opencl.emit.floats import narrow, wide
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
    a, b, acc = op.inputs
    batch, m, n, k = op["sizes"]
    left, right = _factor(body, op, a, "a"), _factor(body, op, b, "b")
    before = [wide(body, F16, x) if acc.type.element is F16 else x for x in body.of(acc)]
    kind = _Kind.of(body, acc.type.element)
    sums: Registers = []
    for p, i in product(range(batch), range(m)):
        row = left[(p * m + i) * k : (p * m + i + 1) * k]
        columns = [right[p * k * n + j : (p + 1) * k * n : n] for j in range(n)]
        start = (p * m + i) * n
        sums += _row(body, op, kind, row, columns, before[start : start + n])
    if acc.type.element is F16:
        body.let(op, [narrow(body, F16, total) for total in sums])
    else:
        body.set(op, sums)


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
    ty, registers = x.type.element, body.of(x)
    if ty is F64:
        return registers
    if ty is F32:
        if op["input_precision"] is not Precision.TF32:
            return registers
        texts = [f"{body.use('round_tf32')}({r})" for r in registers]
    elif is_integer(ty):
        texts = [f"(uint){natural(ty, r)}" for r in registers]
    else:
        texts = [wide(body, ty, r) for r in registers]
    different = list(dict.fromkeys(texts))
    names = body.names.registers(x.name or hint, len(different))
    body.declare("uint" if is_integer(ty) else "float", names, different)
    known = dict(zip(different, names, strict=True))
    return [known[text] for text in texts]


RULES: dict[OpDef, Rule] = {ops.matrix.thread_dot: thread_dot}
