"""Who can make a value of a type, and how often they are asked."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.accesses import boxable, descriptor_block, load_of
from tests.fuzz.axes import (
    arg_reduce_of,
    dot_of,
    gather_of,
    histogram_of,
    reduce_of,
    scan_of,
    scatter_of,
    sort_of,
)
from tests.fuzz.elementwise import (
    binary_of,
    bitcast_of,
    cast_of,
    compare_of,
    fma_of,
    hint_of,
    leaf_of,
    mulhi_of,
    select_of,
    unary_of,
)
from tests.fuzz.regions import reduce_by_of, scan_by_of
from tests.fuzz.shapes import (
    broadcast_of,
    expand_dims_of,
    flip_of,
    index_of,
    join_of,
    reshapable,
    reshape_of,
    splat_of,
    split_of,
    trans_of,
)
from tests.fuzz.writer import Maker, Writer
from tile.ir.types import F16, F32, F64, FLOATS, FP8, I1, I32, I64, U32, U64, Scalar, Type


def _numeric(writer: Writer, ty: Type) -> bool:
    return ty.element not in FP8


def _of(*elements: Scalar) -> Callable[[Writer, Type], bool]:
    return lambda writer, ty: ty.element in elements


def _always(writer: Writer, ty: Type) -> bool:
    return True


def _tile(writer: Writer, ty: Type) -> bool:
    return ty.rank > 0


def _combinable(writer: Writer, ty: Type) -> bool:
    return _numeric(writer, ty) and 0 < ty.rank


# The first can make any; those that matter more stand here several times.
MAKERS: tuple[Maker, ...] = (
    (_always, leaf_of),
    (_numeric, binary_of),
    (_numeric, binary_of),
    (_numeric, unary_of),
    (_of(*FLOATS), fma_of),
    (_of(I32, I64, U32, U64), mulhi_of),
    (_of(I1), compare_of),
    (_of(I1), compare_of),
    (_always, select_of),
    (_always, cast_of),
    (
        lambda w, ty: (
            _numeric(w, ty)
            and ty.element != I1
            and any(e.bits == ty.element.bits and e not in FP8 for e in w.elements)
        ),
        bitcast_of,
    ),
    (_always, hint_of),
    *(((lambda w, ty: ty.element == I32 and ty.rank > 0, index_of),) * 5),
    (_tile, flip_of),
    (lambda w, ty: ty.rank > 0 and ty.shape[-1] == 2, join_of),
    (lambda w, ty: ty.rank < 3, split_of),
    (_tile, gather_of),
    (lambda _, ty: ty.rank == 1, scatter_of),
    (lambda w, ty: ty.element == I32 and ty.rank == 1, histogram_of),
    (_combinable, sort_of),
    (lambda w, ty: _numeric(w, ty) and ty.rank < 3, reduce_by_of),
    (_tile, scan_by_of),
    (_tile, splat_of),
    (_tile, broadcast_of),
    (lambda w, ty: ty.rank > 1 and 1 in ty.shape, expand_dims_of),
    (lambda w, ty: ty.rank > 0 and bool(reshapable(w, ty)), reshape_of),
    (_tile, trans_of),
    (lambda w, ty: _numeric(w, ty) and ty.rank < 3, reduce_of),
    (_combinable, scan_of),
    (lambda w, ty: _numeric(w, ty) and ty.element != I1 and ty.rank < 3, arg_reduce_of),
    (lambda w, ty: ty.element in (I32, F16, F32, F64) and ty.rank in (2, 3), dot_of),
    (boxable, descriptor_block),
    (lambda w, ty: bool(w.readable(ty.element)), load_of),  # type: ignore[arg-type]
    (lambda w, ty: bool(w.readable(ty.element)), load_of),  # type: ignore[arg-type]
)
