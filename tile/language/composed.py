"""Library functions composed of other functions of the language."""

from __future__ import annotations

from typing import Any

import tile.language.math as math
from tile.ir.builder import Builder
from tile.language.base.builtin import builtin, member
from tile.language.base.promotion import Operand, to_tensor
from tile.language.base.tensor import Tensor
from tile.language.operators import binary, logical, unary
from tile.language.reductions import max, sum
from tile.language.selection import minimum


@builtin
def add(build: Builder, x: Operand, y: Operand, sanitize_overflow: bool = True) -> Any:
    """The sum `x + y`. Integers wrap; `sanitize_overflow` is accepted and has no effect."""
    return binary(build, "+", x, y)


@builtin
def sub(build: Builder, x: Operand, y: Operand, sanitize_overflow: bool = True) -> Any:
    """The difference `x - y`; for `sanitize_overflow` see `tl.add`."""
    return binary(build, "-", x, y)


@builtin
def mul(build: Builder, x: Operand, y: Operand, sanitize_overflow: bool = True) -> Any:
    """The product `x * y`; for `sanitize_overflow` see `tl.add`."""
    return binary(build, "*", x, y)


@member
def cdiv(build: Builder, x: Operand, div: Operand) -> Any:
    """The ceiling division of `x` by `div`, for `x >= 0` and `div > 0`.

    The result of compile-time integers is a compile-time integer.
    """
    above = binary(build, "-", binary(build, "+", x, div), 1)
    return binary(build, "//", above, div)


@member
def logical_and_(build: Builder, x: Operand, other: Operand) -> Any:
    """The elementwise `x != 0 and other != 0`, of `tl.int1`."""
    return logical(build, "and", x, to_tensor(build, other))


@member
def logical_or_(build: Builder, x: Operand, other: Operand) -> Any:
    """The elementwise `x != 0 or other != 0`, of `tl.int1`."""
    return logical(build, "or", x, to_tensor(build, other))


@member
def sigmoid(build: Builder, x: Operand) -> Any:
    """The sigmoid function `1 / (1 + exp(-x))` of float32 or float64."""
    e = math.exp.emit(build, unary(build, "-", x))
    return binary(build, "/", 1, binary(build, "+", 1, e))


@member
def softmax(
    build: Builder,
    x: Tensor,
    dim: Any = None,
    keep_dims: bool = False,
    ieee_rounding: bool = False,
) -> Any:
    """The softmax along axis `dim` (None: the first), of float32 or float64.

    The greatest element is subtracted first, so nothing overflows. The result has the shape of `x`
    whatever `keep_dims` is; `ieee_rounding` selects a division rounded to nearest.
    """
    axis = 0 if dim is None else dim
    above = binary(build, "-", x, max.emit(build, x, axis, keep_dims=True))
    powers = math.exp.emit(build, above)
    total = sum.emit(build, powers, axis, keep_dims=True)
    return math.fdiv.emit(build, powers, total, ieee_rounding)


@builtin
def swizzle2d(
    build: Builder, i: Operand, j: Operand, size_i: Operand, size_j: Operand, size_g: Operand
) -> tuple[Any, Any]:
    """Map cell (`i`, `j`) of a grid of `size_i` by `size_j` cells to its swizzled position.

    Row-major order becomes column-major order within each group of `size_g` rows, so that
    concurrent programs share more of their data. The last group may have fewer rows.
    """

    def calc(op: str, a: Any, b: Any) -> Any:
        return binary(build, op, a, b)

    linear = calc("+", calc("*", i, size_j), j)
    per_group = calc("*", size_g, size_j)
    first_row = calc("*", calc("//", linear, per_group), size_g)
    rows = minimum.emit(build, calc("-", size_i, first_row), size_g)
    within = calc("%", linear, per_group)
    return calc("+", first_row, calc("%", within, rows)), calc("//", within, rows)
