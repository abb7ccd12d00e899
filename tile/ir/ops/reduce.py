"""Reductions and scans along one axis. Axes are counted from the right: -1 is the last.

`reduce`, `arg_reduce` and `scan` name a kind of combination. `reduce_region` and `scan_region` have
a combine region instead. It takes two groups of n scalars, one scalar for each of n tiles, and
yields one group. The region is isolated and uses only pure operations on scalars: a backend may run
it at any time, on any lanes, any number of times. `if` and calls of functions with the same
restrictions are allowed; since they have no effects, a backend may compute both branches and select
one.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tile.ir import semantics
from tile.ir.core import Block, Function, Operation
from tile.ir.declare import op
from tile.ir.op_definition import Trait
from tile.ir.ops import arith, control
from tile.ir.ops.inline_asm import inline_asm
from tile.ir.ops.shape import along, without
from tile.ir.types import (
    ALL,
    FLOATS,
    I1,
    I32,
    INTEGERS,
    Scalar,
    Type,
    listed,
    require,
    with_element,
    with_shape,
)


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
    any_extents=True,
    traits={Trait.COMBINE},
    semantics=semantics.reduce,
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
    any_extents=True,
    traits={Trait.COMBINE},
    semantics=lambda x, *, axis, kind, tie_break_left: semantics.argreduce(
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
    any_extents=True,
    traits={Trait.COMBINE},
    semantics=semantics.scan,
    accepts=(*INTEGERS, *FLOATS),
    examples=("%x: tile<4x8xf32> | %r = scan %x {axis = -1, kind = sum} : tile<4x8xf32>",),
)
def scan(x: Type, *, axis: int, kind: ReduceKind, reverse: bool = False) -> Type:
    """Combine each element with all before it along the axis (all after it, if `reverse`)."""
    _combinable("scan", x, axis, kind)
    return x


# The operations allowed in a region besides elementwise ones; called functions end in a `return`.
_ALLOWED = frozenset(
    {
        arith.const,
        arith.poison,
        arith.hint,
        inline_asm,
        control.if_,
        control.call,
        control.yield_,
        control.return_,
    }
)


def first_illegal_op(
    block: Block, functions: Mapping[str, Function] | None = None
) -> Operation | None:
    """Return the first operation that is not allowed in a combine region, or None.

    If `functions` has the functions of the module, called functions are checked as well.
    """
    return next(_intruders(block, functions or {}, set()), None)


def _intruders(
    block: Block, functions: Mapping[str, Function], seen: set[str]
) -> Iterator[Operation]:
    for inner in block.walk():
        on_scalars = all(value.type.rank == 0 for value in inner.results)
        pure = not inner.attributes.get("volatile")
        if not (on_scalars and pure and (inner.defn.elementwise or inner.defn in _ALLOWED)):
            yield inner
        elif inner.defn is control.call and inner["callee"] in functions.keys() - seen:
            seen.add(inner["callee"])
            yield from _intruders(functions[inner["callee"]].body, functions, seen)


def illegal_op_message(name: str, inner: Operation) -> str:
    """Return the error message for an `first_illegal_op` in the region of operation `name`."""
    return (
        f"{name} combines by arithmetic, comparison, selection and `if` of scalars; "
        f"`{inner.name}` is not allowed there"
    )


def _combined(name: str, xs: Sequence[Type], axis: int, combine: Block) -> None:
    require(len(xs) > 0, f"{name} takes at least one tile")
    for x in xs:
        along(name, x, axis)
        require(isinstance(x.element, Scalar), f"{name} is not defined on {x.element}")
        require(x.shape == xs[0].shape, f"{name} takes tiles of one shape, not {xs[0]} and {x}")
    elements = [x.element for x in xs]
    where = f"the region of {name}"
    control.takes(where, combine, [*elements, *elements])
    yielded = control.ends(where, combine, "yield")
    require(
        yielded == elements,
        f"{where} yields one group, ({listed(elements)}), not ({listed(yielded)})",
    )
    illegal = first_illegal_op(combine)
    require(illegal is None, "" if illegal is None else illegal_op_message(name, illegal))


def _semantics(compute: Callable[..., tuple[Any, ...]]) -> Callable[..., Any]:
    """Return reference semantics that return a single array as itself, several as a tuple."""

    def apply(*xs: Any, combine: semantics.Combine, **attributes: Any) -> Any:
        results = compute(xs, combine, **attributes)
        return results[0] if len(results) == 1 else results

    return apply


@op(
    any_extents=True,
    traits={Trait.COMBINE},
    isolated=True,
    semantics=_semantics(semantics.reduce_region),
    accepts=ALL,
    examples=(
        "%x: tile<4x8xf32> | "
        "%r = reduce_region %x {axis = -1} : tile<4xf32> region combine(%a: f32, %b: f32) {\n"
        "  %c = add %a, %b : f32\n"
        "  yield %c\n"
        "}",
        "%x: tile<8xf32>, %y: tile<8xi32> | "
        "%r, %s = reduce_region %x, %y {axis = -1} : f32, i32 "
        "region combine(%a: f32, %i: i32, %b: f32, %j: i32) {\n"
        "  %less = cmp %a, %b {predicate = lt} : i1\n"
        "  %c = select %less, %a, %b : f32\n"
        "  %k = select %less, %i, %j : i32\n"
        "  yield %c, %k\n"
        "}",
    ),
)
def reduce_region(*xs: Type, axis: int, combine: Block) -> tuple[Type, ...]:
    """Reduce tiles along an axis with a combine region.

    The region must be associative and commutative: a backend chooses the grouping and order. The
    interpreter combines adjacent elements, in order (see `tile/ir/semantics/reduce.py`). An axis of
    extent 1 is dropped without running the region.
    """
    _combined("reduce_region", xs, axis, combine)
    return tuple(with_shape(without(x, axis), x.element) for x in xs)


@op(
    any_extents=True,
    traits={Trait.COMBINE},
    isolated=True,
    semantics=_semantics(semantics.scan_region),
    accepts=ALL,
    examples=(
        "%x: tile<4x8xf32> | "
        "%r = scan_region %x {axis = -1} : tile<4x8xf32> region combine(%a: f32, %b: f32) {\n"
        "  %c = max %a, %b : f32\n"
        "  yield %c\n"
        "}",
        "%x: tile<8xi64> | "
        "%r = scan_region %x {axis = -1, reverse = true} : tile<8xi64> "
        "region combine(%a: i64, %b: i64) {\n"
        "  %c = xor %a, %b : i64\n"
        "  yield %c\n"
        "}",
    ),
)
def scan_region(*xs: Type, axis: int, reverse: bool = False, combine: Block) -> tuple[Type, ...]:
    """Combine each element with all before it along an axis (inclusive scan) with a combine region.

    The region must be associative but need not be commutative: its first group precedes the second
    along the axis. With `reverse` the axis is traversed from its end, so the first group follows
    the second. The grouping of elements is unspecified.
    """
    _combined("scan_region", xs, axis, combine)
    return tuple(xs)
