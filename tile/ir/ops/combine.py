"""Reductions and scans along one axis that combine elements by a region.

The region takes two groups of n scalars, one scalar of each of n tiles, and yields such a group. It
is a function of its arguments alone (`isolated`) and computes by pure operations on scalars: a
backend may run it at any time, on any lanes, as often as it likes. `if` and calls of functions that
keep to the same are allowed; since nothing in them has an effect, both arms may be computed and one
selected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tile.ir import numerics
from tile.ir.core import Block, Function, Operation
from tile.ir.opdef import op
from tile.ir.ops import arith, control
from tile.ir.ops.shape import along, without
from tile.ir.types import ALL, Scalar, Type, require, with_shape

# What a region may hold besides elementwise operations; functions that it calls end in a `return`.
_ALLOWED = frozenset(
    {
        arith.const,
        arith.poison,
        arith.hint,
        control.if_,
        control.call,
        control.yield_,
        control.return_,
    }
)


def intruder(block: Block, functions: Mapping[str, Function] | None = None) -> Operation | None:
    """The first operation that is more than pure computation on scalars, or None.

    With the functions of the module, those that are called are looked at, too.
    """
    return next(_intruders(block, functions or {}, set()), None)


def _intruders(
    block: Block, functions: Mapping[str, Function], seen: set[str]
) -> Iterator[Operation]:
    for inner in block.walk():
        on_scalars = all(value.type.rank == 0 for value in inner.results)
        if not (on_scalars and (inner.defn.elementwise or inner.defn in _ALLOWED)):
            yield inner
        elif inner.defn is control.call and inner["callee"] in functions.keys() - seen:
            seen.add(inner["callee"])
            yield from _intruders(functions[inner["callee"]].body, functions, seen)


def refusal(name: str, inner: Operation) -> str:
    """What to say of an `intruder` in the region of operation `name`."""
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
    given = control.ends(where, combine, "yield")
    require(
        given == elements,
        f"{where} yields one group, ({_list(elements)}), not ({_list(given)})",
    )
    found = intruder(combine)
    require(found is None, "" if found is None else refusal(name, found))


def _list(types: Sequence[Type]) -> str:
    return ", ".join(map(str, types))


def _meaning(compute: Callable[..., tuple[Any, ...]]) -> Callable[..., Any]:
    """A meaning that gives one array as itself, several as a tuple."""

    def meaning(*xs: Any, combine: numerics.Combine, **attributes: Any) -> Any:
        results = compute(xs, combine, **attributes)
        return results[0] if len(results) == 1 else results

    return meaning


@op(
    isolated=True,
    meaning=_meaning(numerics.reduce_by),
    accepts=ALL,
    examples=(
        "%x: tile<4x8xf32> | "
        "%r = reduce_by %x {axis = -1} : tile<4xf32> region combine(%a: f32, %b: f32) {\n"
        "  %c = add %a, %b : f32\n"
        "  yield %c\n"
        "}",
        "%x: tile<8xf32>, %y: tile<8xi32> | "
        "%r, %s = reduce_by %x, %y {axis = -1} : f32, i32 "
        "region combine(%a: f32, %i: i32, %b: f32, %j: i32) {\n"
        "  %less = cmp %a, %b {predicate = lt} : i1\n"
        "  %c = select %less, %a, %b : f32\n"
        "  %k = select %less, %i, %j : i32\n"
        "  yield %c, %k\n"
        "}",
    ),
)
def reduce_by(*xs: Type, axis: int, combine: Block) -> tuple[Type, ...]:
    """Combine the elements of tiles along an axis, by a region, to one group.

    The region must be associative and commutative: backends group and order elements as they like.
    The interpreter combines neighbours, in order (see `tile/ir/numerics/combine.py`). An axis of
    extent 1 is dropped without combining anything.
    """
    _combined("reduce_by", xs, axis, combine)
    return tuple(with_shape(without(x, axis), x.element) for x in xs)


@op(
    isolated=True,
    meaning=_meaning(numerics.scan_by),
    accepts=ALL,
    examples=(
        "%x: tile<4x8xf32> | "
        "%r = scan_by %x {axis = -1} : tile<4x8xf32> region combine(%a: f32, %b: f32) {\n"
        "  %c = max %a, %b : f32\n"
        "  yield %c\n"
        "}",
        "%x: tile<8xi64> | "
        "%r = scan_by %x {axis = -1, reverse = true} : tile<8xi64> "
        "region combine(%a: i64, %b: i64) {\n"
        "  %c = xor %a, %b : i64\n"
        "  yield %c\n"
        "}",
    ),
)
def scan_by(*xs: Type, axis: int, reverse: bool = False, combine: Block) -> tuple[Type, ...]:
    """Combine each element with all before it along an axis, by a region.

    The region must be associative, and need not be commutative: what stands before is the first
    group. With `reverse` the axis is read from its end, so that the first group stands behind.
    How elements are grouped is not promised.
    """
    _combined("scan_by", xs, axis, combine)
    return tuple(xs)
