"""Reductions and scans by a region that is associative, and commutative unless it scans."""

from __future__ import annotations

from typing import Any

from tests.fuzz.axes import longer
from tests.fuzz.elementwise import one_zero
from tests.fuzz.writer import Writer
from tile.ir.core import Block, Value
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith, control, reduce
from tile.ir.ops.arith import Predicate
from tile.ir.types import FLOATS, FP8, I1, I32, INTEGERS, Scalar, Type, with_element

ASSOCIATIVE = (arith.add, arith.mul, arith.xor, arith.and_, arith.or_, arith.min_, arith.max_)


def reduce_by_of(w: Writer, ty: Type, depth: int) -> Value:
    of, axis = longer(w, ty)
    return combined(w, reduce.reduce_region, of, depth, axis=axis)


def scan_by_of(w: Writer, ty: Type, depth: int) -> Value:
    rest = {"axis": -w.number(1, ty.rank), "reverse": w.chance(2)}
    return combined(w, reduce.scan_region, ty, depth, **rest)


def combined(w: Writer, defn: OpDef, of: Type, depth: int, **attributes: Any) -> Value:
    """Combine by a region that is associative, and commutative unless it scans."""
    element = of.element
    assert isinstance(element, Scalar)
    styles = [in_one_step]
    if element in INTEGERS:
        styles += [lesser_by_if, lesser_with_index]
    if defn is reduce.scan_region:
        styles += [later]
        styles += [composition] if element in INTEGERS else []
    style = w.choose(styles) if element not in FP8 else later
    region = Block()
    with w.build.into(region):
        types, yielded = style(w, of, region)
        w.build.op(control.yield_, *yielded)
    operands = [w.value(ty, depth) for ty in types]
    w.place()
    op = w.build.op(defn, *operands, regions=(region,), **attributes)
    return op.results[0]


def in_one_step(w: Writer, of: Type, region: Block) -> Any:
    element = of.element
    a, b = (region.add_arg(element) for _ in range(2))
    if element in FLOATS:
        made = w.emit(w.choose((arith.min_, arith.max_)), a, b)
        made = one_zero(w, made)
    elif element == I1:
        made = w.emit(w.choose((arith.and_, arith.or_, arith.xor)), a, b)
    else:
        made = w.emit(w.choose(ASSOCIATIVE), a, b)
    return [of], [made]


def lesser_by_if(w: Writer, of: Type, region: Block) -> Any:
    a, b = (region.add_arg(of.element) for _ in range(2))
    less = w.emit(arith.cmp, a, b, predicate=w.choose((Predicate.LT, Predicate.GE)))
    arms = Block(), Block()
    for arm, value in zip(arms, (a, b), strict=True):
        with w.build.into(arm):
            w.build.op(control.yield_, value)
    made = w.build.op(control.if_, less, regions=arms).result
    return [of], [made]


def lesser_with_index(w: Writer, of: Type, region: Block) -> Any:
    a, i, b, j = (region.add_arg(e) for e in (of.element, I32, of.element, I32))
    less = w.emit(arith.cmp, a, b, predicate=Predicate.LT)
    same = w.emit(arith.cmp, a, b, predicate=Predicate.EQ)
    first = w.emit(arith.cmp, i, j, predicate=Predicate.LE)
    take = w.emit(arith.or_, less, w.emit(arith.and_, same, first))
    yielded = [w.emit(arith.select, take, a, b), w.emit(arith.select, take, i, j)]
    return [of, with_element(of, I32)], yielded


def later(w: Writer, of: Type, region: Block) -> Any:
    pair = [region.add_arg(of.element) for _ in range(2)]
    return [of], [w.choose(pair)]


def composition(w: Writer, of: Type, region: Block) -> Any:
    """One affine map after another: a * x + b, then c * x + d."""
    a, b, c, d = (region.add_arg(of.element) for _ in range(4))
    scaled = w.emit(arith.mul, b, c)
    yielded = [w.emit(arith.mul, a, c), w.emit(arith.add, scaled, d)]
    return [of, of], yielded
