"""Emit dots of one thread: fused multiply-adds."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

from tile.codegen.llvm.convert import narrow, wide
from tile.codegen.llvm.function_builder import FunctionBuilder, Registers, Rule
from tile.codegen.llvm.types import llvm_type
from tile.ir.core import Operation
from tile.ir.op_definition import OpDef
from tile.ir.types import F16, F64, Scalar, number_of
from tile.simt import ops

# With so many accumulators, a sum of its own for each slice takes fewer registers, and an addition
# more: FMA dots of 128x256 tiles by 8 warps on sm_75, in slices of 2, have 0 instead of 8 bytes of
# spills. The additions would be a fifth of the instructions of slices of 4.
MANY_ACCUMULATORS, SHORT_SLICE = 128, 2

Widen = Callable[[Any, Operation, Scalar, str], str]
Narrow = Callable[[Any, Scalar, str], str]


def _wide(builder: FunctionBuilder, op: Operation, element: Scalar, x: str) -> str:
    return wide(builder, element, x)


def fma_dot(
    builder: FunctionBuilder, op: Operation, widen: Widen = _wide, to_f16: Narrow = narrow
) -> None:
    """Emit fused multiply-adds in the order of k: to the accumulator, or to a sum added to it.

    `widen` converts floats to f32, and `to_f16` rounds to f16.
    """
    a, b, acc = op.inputs
    element, into = number_of(a.type), acc.type.element
    left = _operand(builder, op, element, builder.of(a), widen)
    right = _operand(builder, op, number_of(b.type), builder.of(b), widen)
    accumulators = [wide(builder, into, x) if into is F16 else x for x in builder.of(acc)]
    results = _accumulated(builder, element, (left, right), accumulators, op["sizes"])
    if into is F16:
        results = [to_f16(builder, F16, x) for x in results]
    builder.set(op, results)


def _accumulated(
    builder: FunctionBuilder,
    element: Scalar,
    operands: tuple[Registers, Registers],
    accumulators: Registers,
    sizes: tuple[int, ...],
) -> Registers:
    """Return the accumulators with the dots of rows and columns added to them."""
    batch, m, n, k = sizes
    left, right = operands
    ty = "i32" if element.is_int() else "double" if element is F64 else "float"
    zero, add = ("0", f"add {ty}") if element.is_int() else ("0.0", f"fadd {ty}")
    direct = len(accumulators) < MANY_ACCUMULATORS or k > SHORT_SLICE
    results = list(accumulators) if direct else [zero] * len(accumulators)
    # k is outermost: an operand's registers are free after its step, and adjacent FMAs independent.
    for at, (p, i, j) in product(range(k), product(range(batch), range(m), range(n))):
        x, y = left[(p * m + i) * k + at], right[(p * k + at) * n + j]
        number = (p * m + i) * n + j
        results[number] = _multiply_add(builder, element, x, y, results[number])
    if direct:
        return results
    pairs = zip(results, accumulators, strict=True)
    return [builder.new(f"{add} {total}, {accumulator}") for total, accumulator in pairs]


def _operand(
    builder: FunctionBuilder, op: Operation, element: Scalar, registers: Registers, widen: Widen
) -> Registers:
    if not element.is_int():
        return [widen(builder, op, element, x) for x in registers]
    extend = "sext" if element.is_int_signed() else "zext"
    return [builder.new(f"{extend} {llvm_type(element)} {x} to i32") for x in registers]


def _multiply_add(builder: FunctionBuilder, element: Scalar, x: str, y: str, total: str) -> str:
    if element.is_int():
        return builder.new(f"add i32 {builder.new(f'mul i32 {x}, {y}')}, {total}")
    ty, name = ("double", "f64") if element is F64 else ("float", "f32")
    return builder.call(f"@llvm.fma.{name}", ty, (ty, x), (ty, y), (ty, total))


RULES: dict[OpDef, Rule] = {ops.mma.fma_dot: fma_dot}
