"""Reductions and scans along one axis. Axes are counted from the right: -1 is the last."""

from __future__ import annotations

import enum

from tile.ir import numerics
from tile.ir.opdef import op
from tile.ir.ops.shape import along, without
from tile.ir.types import FLOATS, I1, I32, INTEGERS, Type, require, with_element, with_shape


class ReduceKind(enum.StrEnum):
    """The function that combines two elements."""

    SUM = "sum"
    PROD = "prod"
    MAX = "max"
    MIN = "min"
    XOR = "xor"
    AND = "and"
    OR = "or"

    @property
    def bitwise(self) -> bool:
        return self in (ReduceKind.XOR, ReduceKind.AND, ReduceKind.OR)


EXTREMES = (ReduceKind.MAX, ReduceKind.MIN)


class ArgKind(enum.StrEnum):
    """The element that an `arg_reduce` returns."""

    MAX = "max"
    MIN = "min"


def _combinable(name: str, x: Type, axis: int, kind: ReduceKind) -> None:
    along(name, x, axis)
    accepts = (I1, *INTEGERS) if kind.bitwise else (*INTEGERS, *FLOATS)
    require(x.element in accepts, f"{name} {{kind = {kind}}} is not defined on {x.element}")


@op(
    meaning=lambda x, *, axis, kind, propagate_nan: numerics.reduce(
        x, kind, axis, propagate_nan=propagate_nan
    ),
    accepts=(*INTEGERS, *FLOATS),
    examples=(
        "%x: tile<4x8xf32> | %r = reduce %x {axis = -1, kind = sum} : tile<4xf32>",
        "%x: tile<8xi32> | %r = reduce %x {axis = -1, kind = max} : i32",
    ),
)
def reduce(x: Type, *, axis: int, kind: ReduceKind, propagate_nan: bool = False) -> Type:
    """Reduce the elements along an axis, in unspecified order.

    `max` and `min` ignore NaNs unless `propagate_nan`.
    """
    _combinable("reduce", x, axis, kind)
    return with_shape(without(x, axis), x.element)


@op(
    meaning=lambda x, *, axis, kind, tie_break_left: numerics.argreduce(
        x, f"arg{kind}", axis, tie_break_left
    ),
    accepts=(*INTEGERS, *FLOATS),
    examples=(
        "%x: tile<4x8xf32> | "
        "%v, %i = arg_reduce %x {axis = -1, kind = max} : tile<4xf32>, tile<4xi32>",
    ),
)
def arg_reduce(
    x: Type, *, axis: int, kind: ArgKind, tie_break_left: bool = True
) -> tuple[Type, Type]:
    """Return the greatest or least element along an axis, and its index.

    Ties are resolved to the first element if `tie_break_left`.
    """
    along("arg_reduce", x, axis)
    require(x.element in (*INTEGERS, *FLOATS), f"arg_reduce is not defined on {x.element}")
    value = with_shape(without(x, axis), x.element)
    return value, with_element(value, I32)


@op(
    meaning=lambda x, *, axis, kind, reverse: numerics.scan(x, kind, axis, reverse),
    accepts=(*INTEGERS, *FLOATS),
    examples=("%x: tile<4x8xf32> | %r = scan %x {axis = -1, kind = sum} : tile<4x8xf32>",),
)
def scan(x: Type, *, axis: int, kind: ReduceKind, reverse: bool = False) -> Type:
    """Combine each element with all before it along the axis (all after it, if `reverse`)."""
    _combinable("scan", x, axis, kind)
    return x
