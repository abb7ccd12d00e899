"""Rules that keep index arithmetic affine.

A rule returns None if it does not apply, and the operation's semantics run instead. Results are
exact: a rule for integers proves with the bounds it tracks that nothing wraps.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tile.backends.interp.values import Affine, Array, RunValue
from tile.ir import numerics
from tile.ir.core import Operation
from tile.ir.opdef import OpDef
from tile.ir.ops import arith, memory, shape
from tile.ir.ops.arith import Predicate
from tile.ir.types import I64, Scalar

Rule = Callable[..., RunValue | None]
AFFINE: dict[OpDef, Rule] = {}

ADDRESS = np.dtype(np.int64)
_MOST = I64.max_value


def rule(*defns: OpDef) -> Callable[[Rule], Rule]:
    """Declare the rule of an operation; it is called when some operand is an `Affine`."""

    def declare(function: Rule) -> Rule:
        for defn in defns:
            AFFINE[defn] = function
        return function

    return declare


def _fits(number: int) -> bool:
    return -_MOST <= number <= _MOST


def counting(op: Operation) -> Affine:
    """Return the value of an `arange`."""
    start, end = op["start"], op["end"]
    base = np.full((1, 1), start, np.int64)
    return Affine(base, (1,), (end - start,), np.dtype(np.int32), start, end - 1)


def _bounds(value: RunValue) -> tuple[int, int]:
    if isinstance(value, Affine):
        return value.low, value.high
    if value.size == 1:
        number = int(value.flat[0])
        return number, number
    return int(value.min()), int(value.max())


def _parts(value: RunValue, rank: int) -> tuple[Array, tuple[int, ...]]:
    """Return the base and the steps of any integer value."""
    if isinstance(value, Affine):
        return value.base, value.steps
    return value.astype(np.int64, copy=False), (0,) * rank


def _fits_base(value: RunValue) -> bool:
    """Return True if a value is affine, or small enough to become a base."""
    return isinstance(value, Affine) or value.size <= value.shape[0] * 4096


def _integer(op: Operation) -> Scalar | None:
    element = op.results[0].type.element
    return element if isinstance(element, Scalar) and element.bits >= 8 else None


def _make_affine(
    base: Array, steps: tuple[int, ...], op: Operation, low: int, high: int
) -> RunValue | None:
    """Return an affine integer if its bounds prove that it fits the result's type, else None.

    Bases and steps are int64; values that need more bits, as large u64 do, give None.
    """
    element = _integer(op)
    if element is None or low < element.min_value or high > element.max_value:
        return None
    if high > _MOST or high - low > _MOST or not all(map(_fits, steps)):
        return None
    dtype = numerics.numpy_dtype(element)
    return Affine(base, steps, op.results[0].type.shape, dtype, low, high).folded()


@rule(arith.add)
def add(op: Operation, x: RunValue, y: RunValue) -> RunValue | None:
    if not (_fits_base(x) and _fits_base(y)):
        return None
    (a, b), (c, d) = _bounds(x), _bounds(y)
    rank = op.results[0].type.rank
    (base_x, steps_x), (base_y, steps_y) = _parts(x, rank), _parts(y, rank)
    steps = tuple(map(int.__add__, steps_x, steps_y))
    return _make_affine(base_x + base_y, steps, op, a + c, b + d)


@rule(arith.sub)
def sub(op: Operation, x: RunValue, y: RunValue) -> RunValue | None:
    if not (_fits_base(x) and _fits_base(y)):
        return None
    (a, b), (c, d) = _bounds(x), _bounds(y)
    rank = op.results[0].type.rank
    (base_x, steps_x), (base_y, steps_y) = _parts(x, rank), _parts(y, rank)
    steps = tuple(map(int.__sub__, steps_x, steps_y))
    return _make_affine(base_x - base_y, steps, op, a - d, b - c)


@rule(arith.mul)
def mul(op: Operation, x: RunValue, y: RunValue) -> RunValue | None:
    if not isinstance(x, Affine):
        x, y = y, x
    if not isinstance(x, Affine) or isinstance(y, Affine) or y.size != 1:
        return None
    scale = int(y.flat[0])
    if not _fits(scale):
        return None
    low, high = sorted((x.low * scale, x.high * scale))
    return _make_affine(x.base * scale, tuple(s * scale for s in x.steps), op, low, high)


@rule(arith.rem)
def rem(op: Operation, x: RunValue, y: RunValue) -> RunValue | None:
    if isinstance(x, Affine) and x.low >= 0 and x.high < _bounds(y)[0]:
        return x
    return None


@rule(arith.cast)
def cast(op: Operation, x: Affine) -> RunValue | None:
    to = _integer(op)
    if to is None or not to.is_int():
        return None
    return _make_affine(x.base, x.steps, op, x.low, x.high)


@rule(arith.cmp)
def cmp(op: Operation, x: RunValue, y: RunValue) -> RunValue | None:
    if not isinstance(op.inputs[0].type.element, Scalar):
        return None
    (a, b), (c, d) = _bounds(x), _bounds(y)
    always, never = _DECIDED[op["predicate"]](a, b, c, d)
    if always or never:
        return np.full((1,) * (1 + op.results[0].type.rank), always)
    return None


# For x in [a, b] and y in [c, d]: (True if the comparison always holds, True if it never does).
_DECIDED: dict[Predicate, Callable[[int, int, int, int], tuple[bool, bool]]] = {
    Predicate.LT: lambda a, b, c, d: (b < c, a >= d),
    Predicate.LE: lambda a, b, c, d: (b <= c, a > d),
    Predicate.GT: lambda a, b, c, d: (a > d, b <= c),
    Predicate.GE: lambda a, b, c, d: (a >= d, b < c),
    Predicate.EQ: lambda a, b, c, d: (a == b == c == d, b < c or d < a),
    Predicate.NE: lambda a, b, c, d: (b < c or d < a, a == b == c == d),
}


@rule(memory.addptr)
def addptr(op: Operation, ptr: RunValue, offset: RunValue) -> RunValue | None:
    if not (_fits_base(ptr) and _fits_base(offset)):
        return None
    result = op.results[0].type
    base_p, steps_p = _parts(ptr, result.rank)
    base_o, steps_o = _parts(offset, result.rank)
    stride = op["stride"]
    steps = tuple(p + o * stride for p, o in zip(steps_p, steps_o, strict=True))
    if not all(map(_fits, steps)):
        return None
    return Affine(base_p + base_o * stride, steps, result.shape, ADDRESS).folded()


@rule(shape.expand_dims)
def expand_dims(op: Operation, x: Affine) -> RunValue | None:
    axis = op["axis"] + len(x.shape) + 1
    steps = (*x.steps[:axis], 0, *x.steps[axis:])
    base = np.expand_dims(x.base, axis + 1)
    return Affine(base, steps, op.results[0].type.shape, x.dtype, x.low, x.high)


@rule(shape.broadcast)
def broadcast(op: Operation, x: Affine) -> RunValue | None:
    steps = tuple(step if n > 1 else 0 for step, n in zip(x.steps, x.shape, strict=True))
    return Affine(x.base, steps, op.results[0].type.shape, x.dtype, x.low, x.high)


@rule(shape.trans)
def trans(op: Operation, x: Affine) -> RunValue | None:
    order = op["order"]
    base = x.base.transpose((0, *(axis + 1 for axis in order)))
    steps = tuple(x.steps[axis] for axis in order)
    return Affine(base, steps, op.results[0].type.shape, x.dtype, x.low, x.high)


@rule(arith.hint)
def hint(op: Operation, x: Affine) -> RunValue | None:
    return x


@rule(arith.bitcast)
def bitcast(op: Operation, x: Affine) -> RunValue | None:
    same = x.dtype == ADDRESS and op.results[0].type.element.is_ptr()
    return Affine(x.base, x.steps, x.shape, ADDRESS) if same else None


def unit_and(x: Array, y: Array) -> Array:
    """Return `x & y` of masks, at no cost if one of them is known to be true everywhere."""
    if x.size == 1 and x.flat[0]:
        return y
    if y.size == 1 and y.flat[0]:
        return x
    return np.logical_and(x, y)
