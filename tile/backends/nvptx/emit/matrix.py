"""Products: matrix instructions of a warp, and multiply-adds of one thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

from tile.backends.nvptx.emit.assembler import assemble, braces
from tile.backends.nvptx.emit.body import Body, Registers, Rule
from tile.backends.nvptx.emit.narrow import fp8_as_f16, narrow, wide
from tile.backends.nvptx.emit.types import is_integer, is_signed, llvm_type, number_of
from tile.backends.nvptx.emit.words import pack
from tile.ir.core import Operation, Value
from tile.ir.opdef import OpDef
from tile.ir.ops.linalg import Precision
from tile.ir.types import BF16, F8E4M3, F8E5M2, F16, F32, F64, FP8, I8, U8, Scalar
from tile.simt import ops
from tile.simt.layouts.fragments import MatrixShape

_PTX = {
    F16: "f16", BF16: "bf16", F64: "f64", I8: "s8", U8: "u8", F8E4M3: "e4m3", F8E5M2: "e5m2",
}  # fmt: skip
_ACCUMULATOR = {"i32": "s32", "float": "f32", "double": "f64"}

Change = Callable[[Body, str], str]

# Which parts of the factors are multiplied, the least products first; see `numerics/linalg.py`.
_OF_TWO = ((1, 0), (0, 1), (0, 0))
_OF_THREE = ((1, 1), (2, 0), (0, 2), *_OF_TWO)
_PAIRS: dict[Precision, tuple[tuple[int, int], ...]] = {
    Precision.IEEE: _OF_THREE,
    Precision.TF32: ((0, 0),),
    Precision.TF32X3: _OF_TWO,
    Precision.BF16X3: _OF_TWO,
    Precision.BF16X6: _OF_THREE,
}


def matrix_multiply(body: Body, op: Operation) -> None:
    """One instruction after the other, in the order of k.

    Those of one accumulator, which wait for each other, are as far apart as can be.
    """
    shape = MatrixShape(*op["shape"])
    rows, columns, depth = op["repeats"]
    a, b, acc = op.inputs
    if number_of(a.type) in FP8 and not body.module.arch.multiplies_fp8:
        left, right = _fp8_as_f16(body, a), _fp8_as_f16(body, b, rows=False)
        shape, depth = _HALF_AS_DEEP, 2 * depth
    else:
        left = _factor(body, op, a, shape, shape.m)
        right = _factor(body, op, b, shape, shape.n)
    narrow_sum = acc.type.element is F16  # added up in f32, as the interpreter does
    sums = [wide(body, F16, x) if narrow_sum else x for x in body.of(acc)]
    step = len(sums) // (rows * columns)
    pairs = _PAIRS[op["input_precision"]] if a.type.element is F32 else ((0, 0),)
    for k, (i, j) in product(range(depth), pairs):
        for row, column in product(range(rows), range(columns)):
            at = (row * columns + column) * step
            x, y = left.words(i, row * depth + k), right.words(j, column * depth + k)
            sums[at : at + step] = _instruction(
                body, shape, left, right, x, y, sums[at : at + step]
            )
    if narrow_sum:
        sums = [narrow(body, F16, x) for x in sums]
    body.set(op, sums)


Word = tuple[str, str]  # type and value


class _Factor:
    """A factor as words of 32 bits (64 for f64), which are made as they are asked for.

    Of `registers`, `each` are one instruction's; `parts` makes of them lists of words that add up
    to them.
    """

    def __init__(
        self,
        body: Body,
        kind: str,
        registers: Registers,
        each: int,
        parts: Callable[[Registers], list[list[Word]]],
    ) -> None:
        self.body = body
        self.kind = kind
        self.registers = registers
        self.each = each
        self.parts = parts
        self._made: dict[int, list[list[Word]]] = {}

    def words(self, part: int, instruction: int) -> list[Word]:
        found = self._made.get(instruction)
        if found is None:
            first = instruction * self.each
            registers = self.registers[first : first + self.each]
            self.body.need(registers)
            found = self._made[instruction] = self.parts(registers)
        return found[part]


def _factor(body: Body, op: Operation, x: Value, shape: MatrixShape, size: int) -> _Factor:
    """A factor of `size` rows or columns of an instruction."""
    element, registers = number_of(x.type), body.of(x)
    each = size * shape.k // 32  # lanes

    def made(kind: str, parts: Callable[[Registers], list[list[Word]]]) -> _Factor:
        return _Factor(body, kind, registers, each, parts)

    if shape.bits == 64:
        return made("f64", lambda own: [[("double", x) for x in own]])
    if element is not F32:
        return made(_PTX[element], lambda own: [pack(body, element, own)])
    precision = op["input_precision"]
    number = 1 + max(max(pair) for pair in _PAIRS[precision])
    if shape.bits == 16:

        def cut(own: Registers) -> list[list[Word]]:
            parts = _parts(body, own, number, _to_bf16, lambda b, x: wide(b, BF16, x))
            return [pack(body, BF16, part) for part in parts]

        return made("bf16", cut)
    return made(
        "tf32",
        lambda own: [
            [_bits(body, x) for x in part]
            for part in _parts(body, own, number, round_to_tf32, lambda b, x: x)
        ],
    )


_HALF_AS_DEEP = MatrixShape(16, 8, 16, 16)

# The words of the left factor, for each of two such instructions that do what m16n8k32 of 8 bits
# does. Registers there have the bits k0 k1 m3 k4, and two are a word here; a product does not mind
# in which order k is, so that k1 takes the part of k3, and k4 tells the two apart. The right
# factor's, k0 k1 k4, are in order as they are.
_REORDERED = (0, 2, 1, 3)


def _fp8_as_f16(body: Body, x: Value, *, rows: bool = True) -> _Factor:
    """8-bit floats as f16, which holds them all, for machines that multiply none."""
    element, order = number_of(x.type), _REORDERED if rows else (0, 1)

    def halves(own: Registers) -> list[list[Word]]:
        words = fp8_as_f16(body, element, own)
        return [[("i32", words[number]) for number in order]]

    return _Factor(body, "f16", body.of(x), 2 * len(order), halves)


def _bits(body: Body, x: str) -> tuple[str, str]:
    return "i32", body.new(f"bitcast float {x} to i32")


def _parts(
    body: Body, registers: Registers, number: int, cut: Change, back: Change
) -> list[Registers]:
    """Each register as a sum of so many rounded numbers: the number rounded, then what is left."""
    parts = []
    rest = registers
    for last in range(number - 1, -1, -1):
        part = [cut(body, x) for x in rest]
        parts.append(part)
        if last:
            rest = [
                body.new(f"fsub float {x}, {back(body, y)}")
                for x, y in zip(rest, part, strict=True)
            ]
    return parts


def _to_bf16(body: Body, x: str) -> str:
    return narrow(body, BF16, x)


def round_to_tf32(body: Body, x: str) -> str:
    """An f32 rounded to 10 bits of mantissa, ties away from zero."""
    if body.module.arch.capability >= 80:
        (bits,) = assemble(body, "cvt.rna.tf32.f32 $0, $1;", ["i32"], [("float", x)])
        return body.new(f"bitcast i32 {bits} to float")
    bits = body.new(f"bitcast float {x} to i32")
    bits = body.new(f"and i32 {body.new(f'add i32 {bits}, 4096')}, -8192")
    rounded = body.new(f"bitcast i32 {bits} to float")
    missing = body.new(f"fcmp uno float {x}, {x}")
    return body.new(f"select i1 {missing}, float {x}, float {rounded}")


def _instruction(
    body: Body,
    shape: MatrixShape,
    left: _Factor,
    right: _Factor,
    a: Sequence[tuple[str, str]],
    b: Sequence[tuple[str, str]],
    total: Registers,
) -> Registers:
    ty = {"f64": "double", "s8": "i32", "u8": "i32"}.get(left.kind, "float")
    kind = _ACCUMULATOR[ty]
    starts = [0, len(total), len(total) + len(a), len(total) + len(a) + len(b)]
    counts = (len(total), len(a), len(b), len(total))
    places = ", ".join(
        [
            braces(s, c) if c > 1 else "{$" + str(s) + "}"
            for s, c in zip(starts, counts, strict=True)
        ]
    )
    name = f"mma.sync.aligned.m{shape.m}n{shape.n}k{shape.k}.row.col"
    text = f"{name}.{kind}.{left.kind}.{right.kind}.{kind} {places};"
    operands = [*a, *b, *[(ty, x) for x in total]]
    return assemble(body, text, [ty] * len(total), operands, convergent=True)


# -- one thread by itself


def thread_dot(body: Body, op: Operation) -> None:
    """Fused multiply-adds in the order of k, then one addition to what was there.

    So a loop over k adds sums of a few products, and rounds less than if it added each.
    """
    a, b, acc = op.inputs
    element, into = number_of(a.type), acc.type.element
    left = _widened(body, op, element, body.of(a))
    right = _widened(body, op, number_of(b.type), body.of(b))
    sums = [wide(body, into, x) if into is F16 else x for x in body.of(acc)]
    batch, m, n, k = op["sizes"]
    of_integers = is_integer(element) and element not in FP8
    ty = "i32" if of_integers else "double" if element is F64 else "float"
    zero, add = ("0", f"add {ty}") if of_integers else ("0.0", f"fadd {ty}")
    results: Registers = []
    for p, i, j in product(range(batch), range(m), range(n)):
        total = zero
        for at in range(k):
            x, y = left[(p * m + i) * k + at], right[(p * k + at) * n + j]
            total = _multiply_add(body, element, x, y, total)
        results.append(body.new(f"{add} {total}, {sums[(p * m + i) * n + j]}"))
    if into is F16:
        results = [narrow(body, F16, x) for x in results]
    body.set(op, results)


def _widened(body: Body, op: Operation, element: Scalar, registers: Registers) -> Registers:
    if is_integer(element) and element not in FP8:
        extend = "sext" if is_signed(element) else "zext"
        return [body.new(f"{extend} {llvm_type(element)} {x} to i32") for x in registers]
    if element is F32 and op["input_precision"] is Precision.TF32:
        return [round_to_tf32(body, x) for x in registers]
    return [wide(body, element, x) for x in registers]


def _multiply_add(body: Body, element: Scalar, x: str, y: str, total: str) -> str:
    if is_integer(element) and element not in FP8:
        return body.new(f"add i32 {body.new(f'mul i32 {x}, {y}')}, {total}")
    ty, name = ("double", "f64") if element is F64 else ("float", "f32")
    return body.call(f"@llvm.fma.{name}", ty, (ty, x), (ty, y), (ty, total))


RULES: dict[OpDef, Rule] = {
    ops.matrix.matrix_multiply: matrix_multiply,
    ops.matrix.thread_dot: thread_dot,
}
