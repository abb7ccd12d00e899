"""Groups of elements as registers, and back: see `tile/ir/ops/inline_asm.py`.

A group of `pack` is made of adjacent elements in row-major order; smaller values repeat theirs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tile.ir.builder import Builder
from tile.ir.core import Value
from tile.ir.expressions import Expression, fields, joined, unsigned
from tile.ir.ops import shape
from tile.ir.ops.inline_asm import WIDTHS
from tile.ir.types import I1, Pointer, Scalar, Type
from tile.transforms.expand_inline_asm.registers import extended


def split(build: Builder, x: Value, pack: int) -> list[Value]:
    """Return `pack` values that hold the elements of `x` with equal number in their groups."""
    count = min(pack, math.prod(x.type.shape))
    return _split(build, x, count) * (pack // count)


def _split(build: Builder, x: Value, count: int) -> list[Value]:
    if count == 1:
        return [x]
    numel = math.prod(x.type.shape)
    pairs = build(shape.reshape, x, shape=(numel // 2, 2)) if x.type.shape != (numel // 2, 2) else x
    even, odd = build.op(shape.split, pairs).results
    evens, odds = (_split(build, half, count // 2) for half in (even, odd))
    return [part for pair in zip(evens, odds, strict=True) for part in pair]


def merge(build: Builder, parts: Sequence[Value], like: Type) -> Value:
    """Return the value of the shape of `like` whose `split` begins with these parts."""
    count = min(len(parts), math.prod(like.shape))
    whole = _merge(build, parts[:count])
    if whole.type.shape == like.shape:
        return whole
    return build(shape.reshape, whole, shape=like.shape)


def _merge(build: Builder, parts: Sequence[Value]) -> Value:
    if len(parts) == 1:
        return parts[0]
    even, odd = (_merge(build, parts[first::2]) for first in (0, 1))
    pairs = build(shape.join, _flat(build, even), _flat(build, odd))
    return _flat(build, pairs)


def _flat(build: Builder, x: Value) -> Value:
    return build(shape.reshape, x, shape=(math.prod(x.type.shape),)) if x.type.rank > 1 else x


def to_register(elements: Sequence[Expression], constraint: str) -> Expression:
    """Return a register of a constraint that holds elements, the first in its lowest bits."""
    width = WIDTHS[constraint]
    if len(elements) > 1:
        return joined(elements, width)
    (x,) = elements
    if x.bits == width:
        return x
    return x.cast(unsigned(width)) if x.element is I1 else extended(x, width)


def from_register(register: Expression, element: Scalar | Pointer, count: int) -> list[Expression]:
    """Return the elements in a register."""
    if register.bits == element.bits:
        return [register.view(element)]
    return fields(register.unsigned(), element, count)
