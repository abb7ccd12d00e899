"""The bounds that a mask sets to the indices of a tile's elements.

and (%row + i2 < %m), (i1 < %k - %c)      // i2 < %m - %row, i1 < %k - %c
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tile.analysis.index_forms import IndexForms, NoFormError, moved_axes
from tile.analysis.polynomial import Polynomial
from tile.ir.core import Operation, Value
from tile.ir.effects import constant_of
from tile.ir.ops import arith
from tile.ir.ops.arith import Predicate

_ONE = Polynomial.constant(1)


@dataclass(frozen=True)
class Bounds:
    """The bounds of a mask by axis: an index is less than `upper`, and at least `lower`.

    Bounds that hold for all elements of the tile are left out.
    """

    upper: dict[int, set[Polynomial]] = field(default_factory=dict)
    lower: dict[int, set[Polynomial]] = field(default_factory=dict)


def index_bounds(forms: IndexForms, mask: Value | None, shape: tuple[int, ...]) -> Bounds:
    """Return the bounds of a mask that is true exactly for the indices within them.

    Raises `NoFormError` for a mask of another kind.
    """
    bounds = Bounds()
    for negative in () if mask is None else _conditions(forms, mask):
        rest, coefficients = forms.by_axis(negative)
        if not coefficients:
            _require_always(forms, rest)
            continue
        if len(coefficients) > 1:
            raise NoFormError("the mask compares the indices of several axes with one bound")
        ((axis, coefficient),) = coefficients.items()
        if coefficient.number == 1:
            if rest.number is None or rest.number + shape[axis] > 0:
                bounds.upper.setdefault(axis, set()).add(-rest)
        elif coefficient.number == -1:
            if rest.number is None or rest.number >= 0:
                bounds.lower.setdefault(axis, set()).add(rest + _ONE)
        else:
            raise NoFormError("the mask compares a multiple of an index")
    return bounds


def _require_always(forms: IndexForms, negative: Polynomial) -> None:
    interval = forms.interval(negative)
    if interval is None or interval.high >= 0:
        raise NoFormError("the mask has a condition on scalars")


def _conditions(forms: IndexForms, mask: Value) -> Iterator[Polynomial]:
    """Yield polynomials that are negative exactly where a mask is true, all of them."""
    op = mask.op
    if constant_of(mask) is True:
        return
    if op is None:
        raise NoFormError("the mask is an argument")
    target = moved_axes(op)
    if op.defn is arith.and_:
        for operand in op.inputs:
            yield from _conditions(forms, operand)
    elif target is not None:
        for condition in _conditions(forms, op.inputs[0]):
            yield forms.with_axes(condition, target)
    elif op.defn is arith.cmp:
        yield _negative(forms, op)
    else:
        raise NoFormError(
            f"the mask is computed by `{op.name}`, not by comparisons joined by `and`"
        )


def _negative(forms: IndexForms, op: Operation) -> Polynomial:
    """Return the polynomial that is negative exactly where a comparison holds."""
    if not op.inputs[0].type.element.is_int_signed():
        raise NoFormError("the mask compares what are no signed integers")
    x, y = map(forms.of, op.inputs)
    if x.wraps or y.wraps:
        raise NoFormError("the mask compares a remainder")
    difference = (x - y).polynomial
    match op["predicate"]:
        case Predicate.LT:
            return difference
        case Predicate.LE:
            return difference - _ONE
        case Predicate.GT:
            return -difference
        case Predicate.GE:
            return -difference - _ONE
        case predicate:
            raise NoFormError(f"the mask compares by `{predicate}`")
