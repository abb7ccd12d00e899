"""Dots: mma instructions of a warp, and fused multiply-adds of one thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

from tile.backends.nvptx.emit.convert import fp8_as_f16, narrow, wide
from tile.backends.nvptx.emit.function_builder import FunctionBuilder
from tile.backends.nvptx.emit.inline_asm import assemble, braces
from tile.backends.nvptx.emit.vectors import pack
from tile.codegen.llvm import dot as llvm
from tile.codegen.llvm.function_builder import Registers, Rule
from tile.ir.core import Operation, Value
from tile.ir.op_definition import OpDef
from tile.ir.types import BF16, F8E4M3, F8E5M2, F16, F32, F64, I8, U8, Precision, Scalar, number_of
from tile.simt import ops
from tile.simt.layouts.mma_fragments import MmaShape

_PTX = {
    F16: "f16", BF16: "bf16", F64: "f64", I8: "s8", U8: "u8", F8E4M3: "e4m3", F8E5M2: "e5m2",
}  # fmt: skip
_ACCUMULATOR = {"i32": "s32", "float": "f32", "double": "f64"}

Change = Callable[[FunctionBuilder, str], str]

# Slices of the operands that are multiplied, those of the least magnitude first; see `dot` in
# `ir/semantics/dot.py`.
_TWO_SLICES = ((1, 0), (0, 1), (0, 0))
_THREE_SLICES = ((1, 1), (2, 0), (0, 2), *_TWO_SLICES)
_PAIRS: dict[Precision, tuple[tuple[int, int], ...]] = {
    Precision.IEEE: _THREE_SLICES,
    Precision.TF32: ((0, 0),),
    Precision.TF32X3: _TWO_SLICES,
    Precision.BF16X3: _TWO_SLICES,
    Precision.BF16X6: _THREE_SLICES,
}


def mma(builder: FunctionBuilder, op: Operation) -> None:
    """Emit the instructions in the order of k.

    Instructions on one accumulator depend on each other and are put as far apart as possible.
    """
    shape = MmaShape(*op["shape"])
    rows, columns, depth = op["repeats"]
    a, b, acc = op.inputs
    if number_of(a.type).is_fp8() and not builder.module.arch.has_fp8_mma:
        left, right = _fp8_as_f16(builder, a), _fp8_as_f16(builder, b, rows=False)
        shape, depth = _F16_SHAPE, 2 * depth
    else:
        left = _operand(builder, op, a, shape, shape.m)
        right = _operand(builder, op, b, shape, shape.n)
    is_f16 = acc.type.element is F16  # accumulated in f32, as the interpreter does
    accumulators = [wide(builder, F16, x) if is_f16 else x for x in builder.of(acc)]
    step = len(accumulators) // (rows * columns)
    pairs = _PAIRS[op["input_precision"]] if a.type.element is F32 else ((0, 0),)
    for k, (i, j) in product(range(depth), pairs):
        for row, column in product(range(rows), range(columns)):
            at = (row * columns + column) * step
            x, y = left.slice(i, row * depth + k), right.slice(j, column * depth + k)
            accumulators[at : at + step] = _instruction(
                builder, shape, left, right, x, y, accumulators[at : at + step]
            )
    if is_f16:
        accumulators = [narrow(builder, F16, x) for x in accumulators]
    builder.set(op, accumulators)


TypedRegister = tuple[str, str]  # type and value


class _Operand:
    """An operand as 32-bit registers (64 for f64), emitted when an instruction needs them.

    Each instruction takes `each` of `registers`; `slices` makes of them lists of packed registers
    that add up to them.
    """

    def __init__(
        self,
        builder: FunctionBuilder,
        kind: str,
        registers: Registers,
        each: int,
        slices: Callable[[Registers], list[list[TypedRegister]]],
    ) -> None:
        self.builder = builder
        self.kind = kind
        self.registers = registers
        self.each = each
        self.slices = slices
        self._emitted: dict[int, list[list[TypedRegister]]] = {}

    def slice(self, number: int, instruction: int) -> list[TypedRegister]:
        """Return the registers of a slice of the operand of an instruction, both by number."""
        slices = self._emitted.get(instruction)
        if slices is None:
            first = instruction * self.each
            registers = self.registers[first : first + self.each]
            self.builder.materialize(registers)
            slices = self._emitted[instruction] = self.slices(registers)
        return slices[number]


def _operand(
    builder: FunctionBuilder, op: Operation, x: Value, shape: MmaShape, size: int
) -> _Operand:
    """Return an operand, of which an instruction takes `size` rows or columns."""
    element, registers = number_of(x.type), builder.of(x)
    each = size * shape.k // 32  # lanes

    def operand(kind: str, slices: Callable[[Registers], list[list[TypedRegister]]]) -> _Operand:
        return _Operand(builder, kind, registers, each, slices)

    if shape.bits == 64:
        return operand("f64", lambda own: [[("double", x) for x in own]])
    if element is not F32:
        return operand(_PTX[element], lambda own: [pack(builder, element, own)])
    precision = op["input_precision"]
    count = 1 + max(max(pair) for pair in _PAIRS[precision])
    if shape.bits == 16:

        def bf16_slices(own: Registers) -> list[list[TypedRegister]]:
            slices = _split(builder, own, count, _to_bf16, lambda b, x: wide(b, BF16, x))
            return [pack(builder, BF16, part) for part in slices]

        return operand("bf16", bf16_slices)
    return operand(
        "tf32",
        lambda own: [
            [_bits(builder, x) for x in part]
            for part in _split(builder, own, count, round_to_tf32, lambda b, x: x)
        ],
    )


_F16_SHAPE = MmaShape(16, 8, 16, 16)

# Registers of the `a` operand for the two f16 instructions (m16n8k16) that replace one 8-bit
# m16n8k32. Elements in a thread's registers are numbered by the bits k0 k1 m3 k4, and two of them
# share a 32-bit register here. A dot is independent of the order of k: k1 takes the role of k3, and
# k4 tells the two instructions apart. The registers of the `b` operand, k0 k1 k4, are in order as
# they are.
_A_ORDER = (0, 2, 1, 3)


def _fp8_as_f16(builder: FunctionBuilder, x: Value, *, rows: bool = True) -> _Operand:
    """Convert an operand of 8-bit floats to f16, exactly, for targets without 8-bit mma."""
    element, order = number_of(x.type), _A_ORDER if rows else (0, 1)

    def convert(own: Registers) -> list[list[TypedRegister]]:
        packed = fp8_as_f16(builder, element, own)
        return [[("i32", packed[number]) for number in order]]

    return _Operand(builder, "f16", builder.of(x), 2 * len(order), convert)


def _bits(builder: FunctionBuilder, x: str) -> tuple[str, str]:
    return "i32", builder.new(f"bitcast float {x} to i32")


def _split(
    builder: FunctionBuilder, registers: Registers, count: int, round_: Change, back: Change
) -> list[Registers]:
    """Split each register into a sum of `count` rounded numbers, the largest first."""
    slices = []
    rest = registers
    for remaining in range(count - 1, -1, -1):
        part = [round_(builder, x) for x in rest]
        slices.append(part)
        if remaining:
            rest = [
                builder.new(f"fsub float {x}, {back(builder, y)}")
                for x, y in zip(rest, part, strict=True)
            ]
    return slices


def _to_bf16(builder: FunctionBuilder, x: str) -> str:
    return narrow(builder, BF16, x)


def round_to_tf32(builder: FunctionBuilder, x: str) -> str:
    """Round an f32 to 10 bits of mantissa, ties away from zero."""
    if builder.module.arch.capability >= 80:
        (bits,) = assemble(builder, "cvt.rna.tf32.f32 $0, $1;", ["i32"], [("float", x)])
        return builder.new(f"bitcast i32 {bits} to float")
    bits = builder.new(f"bitcast float {x} to i32")
    bits = builder.new(f"and i32 {builder.new(f'add i32 {bits}, 4096')}, -8192")
    rounded = builder.new(f"bitcast i32 {bits} to float")
    is_nan = builder.new(f"fcmp uno float {x}, {x}")
    return builder.new(f"select i1 {is_nan}, float {x}, float {rounded}")


def _instruction(
    builder: FunctionBuilder,
    shape: MmaShape,
    left: _Operand,
    right: _Operand,
    a: Sequence[tuple[str, str]],
    b: Sequence[tuple[str, str]],
    acc: Registers,
) -> Registers:
    ty = {"f64": "double", "s8": "i32", "u8": "i32"}.get(left.kind, "float")
    kind = _ACCUMULATOR[ty]
    starts = [0, len(acc), len(acc) + len(a), len(acc) + len(a) + len(b)]
    counts = (len(acc), len(a), len(b), len(acc))
    fragments = ", ".join(
        [
            braces(s, c) if c > 1 else "{$" + str(s) + "}"
            for s, c in zip(starts, counts, strict=True)
        ]
    )
    name = f"mma.sync.aligned.m{shape.m}n{shape.n}k{shape.k}.row.col"
    text = f"{name}.{kind}.{left.kind}.{right.kind}.{kind} {fragments};"
    operands = [*a, *b, *[(ty, x) for x in acc]]
    return assemble(builder, text, [ty] * len(acc), operands, convergent=True)


def fma_dot(builder: FunctionBuilder, op: Operation) -> None:
    """Emit fused multiply-adds of one thread."""
    llvm.fma_dot(builder, op, _widen, narrow)


def _widen(builder: FunctionBuilder, op: Operation, element: Scalar, x: str) -> str:
    if element is F32 and op["input_precision"] is Precision.TF32:
        return round_to_tf32(builder, x)
    return wide(builder, element, x)


RULES: dict[OpDef, Rule] = {
    ops.mma.mma: mma,
    ops.mma.fma_dot: fma_dot,
}
