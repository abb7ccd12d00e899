"""Decompose dots that the target has no mma instruction for into dots that it has one for.

A dot of f32 operands as sums of terms (`tf32x3`, `bf16x3`, `bf16x6`) is one dot for each pair of
terms that counts. The terms of an operand are its rounded value, the rounded rest, and so on. The
dots of small terms are summed first and then added to the large one, as in CUTLASS's 3xTF32
(example 27):

    %r = dot %a, %b, %c {input_precision = tf32x3}

    %rest  = dot %a1, %b0, %zero {input_precision = tf32}
    %small = dot %a0, %b1, %rest {input_precision = tf32}
    %large = dot %a0, %b0, (%small where it is finite) {input_precision = tf32}
    %r = add %large, %c

The small term of an infinite operand is NaN, and so is %small; it is dropped, as the large dot is
the result there.

A batched dot is one dot of rank 2 for each index of the batch axis, unless each of its matrices has
warps of its own. Batched dots whose matrices are smaller than an instruction's, or of a long batch
axis, stay, too: each thread computes its part by FMA.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tile.ir.builder import Builder
from tile.ir.core import Function, Operation, Value
from tile.ir.effects import constant_of
from tile.ir.expressions import Expression
from tile.ir.ops import arith, dot, shape
from tile.ir.types import BF16, F32, U32, Precision, Scalar, number_of
from tile.simt.hopper.wgmma_layouts import WGMMA_ROWS
from tile.simt.layouts.mma_fragments import FRAGMENTS, MmaShape, Operand
from tile.simt.target import SimtTarget

# The most matrices of a batched dot for which each has a dot of its own; the text grows by each.
MOST_MATRICES = 16


@dataclass(frozen=True)
class Terms:
    """Operands as sums of rounded terms.

    element: the type of a term. input_precision: that of the dots of terms. count: the terms of an
    operand. pairs: the terms of both operands that are multiplied, the largest last.
    """

    element: Scalar
    input_precision: Precision
    count: int
    pairs: tuple[tuple[int, int], ...]


_OF_TWO = ((1, 0), (0, 1), (0, 0))
_OF_THREE = ((1, 1), (2, 0), (0, 2), *_OF_TWO)
TERMS = {
    Precision.TF32X3: Terms(F32, Precision.TF32, 2, _OF_TWO),
    Precision.BF16X3: Terms(BF16, Precision.IEEE, 2, _OF_TWO),
    Precision.BF16X6: Terms(BF16, Precision.IEEE, 3, _OF_THREE),
}


def decompose_dots(function: Function, target: SimtTarget, num_warps: int) -> None:
    """Replace the dots of a function that decompose into dots with an mma instruction."""
    for op in list(function.walk()):
        if op.defn is dot.dot:
            for single in _matrices(op, target, num_warps):
                _of_terms(single, target)


def mma_shapes(target: SimtTarget, element: Scalar, m: int, n: int, k: int) -> list[MmaShape]:
    """Return the mma shapes for operands of an element that are at most as large as a dot."""
    return [
        instruction
        for instruction in target.mma_shapes
        if target.has_mma(instruction, element)
        and (m >= instruction.m and n >= instruction.n and k >= instruction.k)
        and Operand.RIGHT in FRAGMENTS[instruction]
    ]


def _multiplied(op: Operation) -> Scalar | None:
    """Return the element that instructions for a dot multiply; None for f32 itself."""
    element = number_of(op.inputs[0].type)
    if element is not F32:
        return element
    terms = TERMS.get(op["input_precision"])
    if terms is not None:
        return terms.element
    return F32 if op["input_precision"] is Precision.TF32 else None


def _has_instruction(op: Operation, target: SimtTarget) -> bool:
    element = _multiplied(op)
    m, n = op.inputs[2].type.shape[-2:]
    k = op.inputs[0].type.shape[-1]
    return element is not None and bool(mma_shapes(target, element, m, n, k))


# -- terms


def _of_terms(op: Operation, target: SimtTarget) -> None:
    """Replace a dot of rank 2 by dots of terms if there are instructions for these."""
    a, right, acc = op.inputs
    terms = TERMS.get(op["input_precision"])
    if a.type.element is not F32 or terms is None:
        return
    if a.type.rank != 2 or not _has_instruction(op, target):
        return
    b = Builder.before(op)
    left_terms, right_terms = (_terms(b, x, terms) for x in (a, right))
    total = zero = b.constant(0, acc.type)
    for i, j in terms.pairs:
        if (i, j) == (0, 0):
            total = _where_finite(b, total, zero)
        total = b(
            dot.dot,
            left_terms[i],
            right_terms[j],
            total,
            input_precision=terms.input_precision,
        )
    op.replace_by([total if constant_of(acc) == 0 else b(arith.add, total, acc)])


def _terms(b: Builder, x: Value, terms: Terms) -> list[Value]:
    """Return rounded values that add up to an f32 value, up to the rounding of the last."""
    rounded: list[Value] = []
    rest = x
    for number in range(terms.count):
        if number:
            last = rounded[-1]
            rest = b(arith.sub, rest, last if terms.element is F32 else b(arith.cast, last, to=F32))
        to_bf16 = terms.element is BF16
        rounded.append(b(arith.cast, rest, to=BF16) if to_bf16 else _to_tf32(b, rest))
    return rounded


def _to_tf32(b: Builder, x: Value) -> Value:
    """Round f32 to 10 bits of mantissa, ties away from zero, by its bits; a NaN stays."""
    number = Expression(b, x)
    rounded = (number.view(U32) + 0x1000) & 0xFFFFE000
    return number.equals(number).select(rounded.view(F32), number).value


def _where_finite(b: Builder, x: Value, other: Value) -> Value:
    number = Expression(b, x)
    return (number.absolute() < math.inf).select(number, Expression(b, other)).value


# -- batches


def _matrices(op: Operation, target: SimtTarget, num_warps: int) -> list[Operation]:
    """Replace a batched dot by dots of rank 2 that have instructions; return these, or the dot."""
    batch = op.result.type.shape[:-2]
    if not batch or math.prod(batch) > MOST_MATRICES or not _has_instruction(op, target):
        return [op]
    if has_own_warps(op, target, num_warps):
        return [op]
    b = Builder.before(op)
    operands = zip(*(_split(b, value) for value in op.inputs), strict=True)
    singles = [b.op(dot.dot, *matrices, **op.attributes) for matrices in operands]
    op.replace_by([_join(b, [single.result for single in singles])])
    return singles


def has_own_warps(op: Operation, target: SimtTarget, num_warps: int) -> bool:
    """Return True for a batched dot whose matrices are multiplied by warps of their own.

    No warp then waits for operands that others load. A matrix for wgmma is better multiplied by all
    warps, from shared memory.
    """
    batch, rows = op.result.type.shape[:-2], op.result.type.shape[-2]
    if not batch or num_warps % math.prod(batch) or op["input_precision"] in TERMS:
        return False
    return not (target.wgmma_shapes and rows >= WGMMA_ROWS) and _has_instruction(op, target)


def _split(b: Builder, x: Value) -> list[Value]:
    """Return the matrices of a tile of rank 3, by their index on the first axis."""
    last = b(shape.trans, x, order=(1, 2, 0))
    return [b(shape.reshape, part, shape=x.type.shape[1:]) for part in _unjoin(b, last)]


def _unjoin(b: Builder, x: Value) -> list[Value]:
    """Return the tiles of extent 1 along the last axis; those of even indices are split first."""
    *others, count = x.type.shape
    if count == 1:
        return [x]
    pairs = b(shape.reshape, x, shape=(*others, count // 2, 2))
    even, odd = (_unjoin(b, part) for part in b.op(shape.split, pairs).results)
    return [part for both in zip(even, odd, strict=True) for part in both]


def _join(b: Builder, matrices: Sequence[Value]) -> Value:
    """Reverse `_split`."""
    extents = matrices[0].type.shape

    def whole(parts: Sequence[Value]) -> Value:
        if len(parts) == 1:
            return b(shape.reshape, parts[0], shape=(*extents, 1))
        joined = b(shape.join, whole(parts[::2]), whole(parts[1::2]))
        return b(shape.reshape, joined, shape=(*extents, len(parts)))

    return b(shape.trans, whole(matrices), order=(2, 0, 1))
