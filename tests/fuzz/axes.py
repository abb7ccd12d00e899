"""Values combined along axes, counted, sorted, gathered, scattered; dots."""

from __future__ import annotations

import math

from tests.fuzz.accesses import maybe_mask
from tests.fuzz.elementwise import one_zero
from tests.fuzz.writer import Writer
from tile.ir.core import Value
from tile.ir.ops import arith, dot, indexing, reduce
from tile.ir.ops.reduce import ArgKind, ReduceKind
from tile.ir.types import (
    BF16,
    F16,
    F32,
    F64,
    FLOATS,
    FP8,
    I1,
    I8,
    I32,
    I64,
    INTEGERS,
    U8,
    Precision,
    Scalar,
    Tile,
    Type,
    with_element,
    with_shape,
)


def longer(w: Writer, ty: Type) -> tuple[Type, int]:
    """A type with one axis more, and that axis."""
    axis = w.number(0, ty.rank)
    free = w.sizes.most // math.prod(ty.shape)
    extent = w.choose([n for n in w.sizes.longer if n <= free] or (1,))
    dims = (*ty.shape[:axis], extent, *ty.shape[axis:])
    return with_shape(dims, ty.element), axis - ty.rank - 1


def small(w: Writer, ty: Type, depth: int, most: int = 3) -> Value:
    """Numbers from 0 to `most`, of which even 8 bits hold sums exactly."""
    of = with_element(ty, I32)
    x = w.emit(arith.and_, w.value(of, depth), w.constant(most, of))
    return x if ty == of else w.emit(arith.cast, x, to=ty.element)


def reduce_of(w: Writer, ty: Type, depth: int) -> Value:
    of, axis = longer(w, ty)
    kind, x = reducible(w, of, depth)
    attributes = {}
    if kind in (ReduceKind.MAX, ReduceKind.MIN):
        attributes["propagate_nan"] = w.chance(2)
    made = w.emit(reduce.reduce, x, axis=axis, kind=kind, **attributes)
    return one_zero(w, made)


def reducible(w: Writer, of: Type, depth: int) -> tuple[ReduceKind, Value]:
    element = of.element
    assert isinstance(element, Scalar)
    kinds = [k for k in ReduceKind if k.bitwise is not element.is_floating()]
    if element.is_int() and element != I1:
        kinds = list(ReduceKind)
    kind = w.choose([k for k in kinds if element != I1 or k.bitwise])
    exact = element.is_int() or kind in (ReduceKind.MAX, ReduceKind.MIN)
    most = 1 if kind is ReduceKind.PROD else 3
    return kind, w.value(of, depth) if exact else small(w, of, depth, most)


def scan_of(w: Writer, ty: Type, depth: int) -> Value:
    axis = -w.number(1, ty.rank)
    kind, x = reducible(w, ty, depth)
    made = w.emit(reduce.scan, x, axis=axis, kind=kind, reverse=w.chance(2))
    return one_zero(w, made)


def arg_reduce_of(w: Writer, ty: Type, depth: int) -> Value:
    """The index where it has the type, else the value."""
    elements = [e for e in w.elements if e in (*INTEGERS, *FLOATS)]
    element = ty.element if ty.element != I32 else w.choose(elements)
    of, axis = longer(w, with_element(ty, element))
    w.place()
    op = w.build.op(
        reduce.arg_reduce,
        w.value(of, depth),
        axis=axis,
        kind=w.choose(tuple(ArgKind)),
        tie_break_left=w.chance(2),
    )
    return op.results[1] if ty.element == I32 else one_zero(w, op.results[0])


def dot_of(w: Writer, ty: Type, depth: int) -> Value:
    element = ty.element
    multipliers = {I32: (I8, U8), F16: (F16, *FP8), F32: (F16, BF16, F32, *FP8), F64: (F64,)}
    multiplier = w.choose(multipliers[element])  # type: ignore[index]
    inner = w.choose(w.sizes.inner)
    *batch, m, n = ty.shape
    a = small(w, with_shape((*batch, m, inner), multiplier), depth)
    b = small(w, with_shape((*batch, inner, n), multiplier), depth)
    acc = w.value(ty, depth) if element == I32 else small(w, ty, depth)
    precision = w.choose(tuple(Precision)) if multiplier == F32 else Precision.IEEE
    return w.emit(dot.dot, a, b, acc, input_precision=precision)


def gather_of(w: Writer, ty: Type, depth: int) -> Value:
    axis = w.number(0, ty.rank - 1)
    extent = w.choose((1, 2, 4, 8))
    source = with_shape((*ty.shape[:axis], extent, *ty.shape[axis + 1 :]), ty.element)
    of = with_element(ty, w.choose((I32, I64)))
    place = w.emit(arith.and_, w.value(of, depth), w.constant(extent - 1, of))
    return w.emit(indexing.gather, w.value(source, depth), place, axis=axis - ty.rank)


def scatter_of(w: Writer, ty: Type, depth: int) -> Value:
    bins = w.choose((1, 4, 16, 256))
    of = with_element(ty, I32)
    digits = w.emit(arith.and_, w.value(of, depth), w.constant(bins - 1, of))
    ranks = w.emit(indexing.rank, digits, bins=bins)
    return w.emit(indexing.scatter, w.value(ty, depth), ranks, axis=-1)


def histogram_of(w: Writer, ty: Type, depth: int) -> Value:
    of = Tile(w.choose(w.sizes.counted), w.choose((I32, U8, I64)))
    mask = maybe_mask(w, of, depth)
    return w.emit(indexing.histogram, w.value(of, depth), mask, bins=ty.shape[0])


def sort_of(w: Writer, ty: Type, depth: int) -> Value:
    axis = w.number(0, ty.rank - 1)
    more = w.choose((1, 1, 2))
    source = list(ty.shape)
    source[axis] *= more
    x = one_zero(w, w.value(with_shape(source, ty.element), depth))
    count = ty.shape[axis] if more > 1 or w.chance(3) else None
    descending = w.chance(2)
    return w.emit(indexing.sort, x, axis=axis - ty.rank, descending=descending, count=count)
