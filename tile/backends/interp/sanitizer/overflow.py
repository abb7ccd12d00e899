"""Sources of WRAPPED: signed arithmetic of up to 32 bits that overflows.

Each source compares the result of an instruction with exact arithmetic, unless the minimum and
maximum of its operands prove that everything fits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tile.backends.interp.bytecode import Run
from tile.backends.interp.sanitizer.poison import Cause, PoisonKind, add_poison
from tile.backends.interp.values import Affine, Array, RegisterValue, RunValue, array_of, full
from tile.ir.core import Operation
from tile.ir.ops import arith, dot
from tile.ir.ops import reduce as reductions
from tile.ir.ops.reduce import ReduceKind
from tile.ir.overflow import EXACT_FUNCTIONS, narrow_signed
from tile.ir.types import number_of

Source = Callable[[Operation, Run], Run]

_SYMBOLS = {arith.add: "+", arith.sub: "-", arith.mul: "*", arith.div: "/", arith.shl: "<<"}
_NAMES = {ReduceKind.SUM: "sum", ReduceKind.PROD: "product"}
_CAST = "cast an operand to tl.int64 before that operation, as in `x.to(tl.int64) * stride`"
_CAST_TILE = "cast the tile to tl.int64 before that operation, as in `tl.sum(x.to(tl.int64))`"
_SPLIT = "add up fewer products in int32, and their sums in tl.int64"


def _outside(op: Operation, exact: Array) -> Array:
    element = number_of(op.results[0].type)
    return (exact < element.min_value) | (exact > element.max_value)


def _fits(op: Operation, least: float, most: float) -> bool:
    element = number_of(op.results[0].type)
    return element.min_value <= least and most <= element.max_value


def _min_max(array: Array) -> Array:
    """Return the least and the greatest element, as i64."""
    if array.size == 1:
        return array.reshape(1).astype(np.int64)
    return np.array([array.min(), array.max()], np.int64)


def _poison_wrapped(
    op: Operation, result: RunValue, exact: Array, expression: str, advice: str
) -> RegisterValue:
    """Poison elements of the result whose exact value its type cannot represent."""
    wrong = _outside(op, exact)
    if not wrong.any():
        return result
    number = exact[np.unravel_index(int(wrong.argmax()), wrong.shape)]
    shown = f"{int(number)}" if abs(number) < 1 << 62 else f"{number:.3g}"
    text = f"{expression} is {shown}, which {op.results[0].type.element} does not hold"
    return add_poison(result, PoisonKind.WRAPPED, wrong, Cause(op.loc, text, advice))


# -- element by element


def _is_elementwise(op: Operation) -> bool:
    return op.defn in EXACT_FUNCTIONS and narrow_signed(op) is not None


def elementwise(op: Operation, run: Run) -> Run:
    """Elementwise arithmetic; except for division, extreme operands give the extreme results."""
    exactly = EXACT_FUNCTIONS[op.defn]
    divides = op.defn is arith.div

    def instruction(batch: Any, *values: RunValue) -> Any:
        result = run(batch, *values)
        if type(result) is Affine:  # its rule proved that nothing wrapped
            return result
        arrays = [array_of(value) for value in values]
        if divides:  # the least number divided by -1 is the only quotient that does not fit
            if _fits(op, 0, -int(arrays[0].min())):
                return result
        else:
            extremes = exactly(*np.ix_(*map(_min_max, arrays)))
            if _fits(op, extremes.min(), extremes.max()):
                return result
        exact = exactly(*(array.astype(np.int64) for array in arrays))
        return _poison_wrapped(op, result, exact, _expression_text(op, arrays, exact), _CAST)

    return instruction


def _expression_text(op: Operation, arrays: Sequence[Array], exact: Array) -> str:
    """Return the expression of the first element that wrapped."""
    index = np.unravel_index(int(_outside(op, exact).argmax()), exact.shape)
    numbers = [int(np.broadcast_to(array, exact.shape)[index]) for array in arrays]
    if len(numbers) == 2:
        return f"{numbers[0]} {_SYMBOLS[op.defn]} {numbers[1]}"
    return f"-({numbers[0]})" if op.defn is arith.neg else f"abs({numbers[0]})"


# -- along an axis


def _accumulates(op: Operation) -> bool:
    reduces = op.defn in (reductions.reduce, reductions.scan)
    return reduces and op["kind"] in _NAMES and narrow_signed(op) is not None


def accumulating(op: Operation, run: Run) -> Run:
    """Sums and products of all elements (reduce), or of each with those before it (scan).

    The order of a reduction is unspecified, so partial results are not checked, only final ones.
    """
    axis, kind, shape = op["axis"], op["kind"], op.inputs[0].type.shape
    total = _total if kind is ReduceKind.SUM else _product
    bound = _sum_bound if kind is ReduceKind.SUM else _product_bound
    expression = f"the {_NAMES[kind]} of {shape[axis]} elements"
    if op.defn is reductions.scan:
        expression = f"a running {_NAMES[kind]}"

    def instruction(batch: Any, value: RunValue) -> Any:
        result = run(batch, value)
        array = array_of(value)
        magnitude = int(np.abs(_min_max(array)).max())
        most = bound(magnitude, shape[axis])
        if _fits(op, -most, most):
            return result
        whole = full(value, shape)
        if op.defn is reductions.reduce:
            exact = total(whole, axis)
        elif op["reverse"]:
            exact = np.flip(total(np.flip(whole, axis), axis, "accumulate"), axis)
        else:
            exact = total(whole, axis, "accumulate")
        return _poison_wrapped(op, result, exact, expression, _CAST_TILE)

    return instruction


def _sum_bound(magnitude: int, count: int) -> float:
    return magnitude * count


def _product_bound(magnitude: int, count: int) -> float:
    return float(magnitude) ** min(count, 32) if magnitude > 1 else 1


def _total(array: Array, axis: int, method: str = "reduce") -> Array:
    exact: Array = getattr(np.add, method)(array, axis, np.int64)
    return exact


def _product(array: Array, axis: int, method: str = "reduce") -> Array:
    """Multiply along an axis in f64: exact up to 2^53; more stays too large, unless times 0."""
    exact: Array = getattr(np.multiply, method)(array, axis, np.float64)
    return np.nan_to_num(exact, nan=0.0)  # infinity times zero


# -- dots


def _is_integer_dot(op: Operation) -> bool:
    return op.defn is dot.dot and narrow_signed(op) is not None


def multiplying(op: Operation, run: Run) -> Run:
    """Dots of 8-bit integers that overflow their accumulator; f64 represents them exactly."""
    depth = op.inputs[0].type.shape[-1]

    def instruction(batch: Any, *values: RunValue) -> Any:
        result = run(batch, *values)
        arrays = [array_of(value) for value in values]
        a, b, acc = (int(np.abs(_min_max(array)).max()) for array in arrays)
        most = a * b * depth + acc
        if _fits(op, -most, most):
            return result
        x, y, start = (
            full(value, operand.type.shape).astype(np.float64)
            for value, operand in zip(values, op.inputs, strict=True)
        )
        return _poison_wrapped(op, result, np.matmul(x, y) + start, "an element of the dot", _SPLIT)

    return instruction


SOURCES: tuple[tuple[Callable[[Operation], bool], Source], ...] = (
    (_is_elementwise, elementwise),
    (_accumulates, accumulating),
    (_is_integer_dot, multiplying),
)
