"""Normalize the grid of a launch to three extents.

`cdiv` and `next_power_of_2` compute sizes, for grids and blocks on the host and for constants in
kernels.
"""

from __future__ import annotations

import operator
from typing import Any

from tile.backends.base import Grid
from tile.errors import ArgumentTypeError, ArgumentValueError
from tile.frontend.python.constexpr_function import constexpr_function
from tile.short_repr import short_repr

# The most programs along each axis: CUDA's limits, so that grids are portable between backends.
LIMITS = ((1 << 31) - 1, 65535, 65535)


def normalize_grid(grid: Any) -> Grid:
    """Return `grid` as three extents; missing axes have extent 1.

    `grid` is an integer or a tuple of one to three integers, Python's or NumPy's. An extent of 0
    makes a grid without programs. Raises `ArgumentTypeError` for anything else,
    `ArgumentValueError` for extents below 0 or over a limit.
    """
    if type(grid) is tuple and 1 <= len(grid) <= 3:  # fast path for nearly all grids
        x, y, z = (*grid, 1, 1)[:3]
        within = type(x) is type(y) is type(z) is int and 1 <= x <= LIMITS[0]
        if within and 1 <= y <= LIMITS[1] and 1 <= z <= LIMITS[2]:
            return x, y, z
    axes = tuple(grid) if isinstance(grid, tuple | list) else (grid,)
    if not 1 <= len(axes) <= len(LIMITS):
        raise ArgumentValueError(f"a grid has one to three axes; {_show(grid)} has {len(axes)}")
    x, y, z = axes + (1,) * (len(LIMITS) - len(axes))
    return _extent(grid, 0, x), _extent(grid, 1, y), _extent(grid, 2, z)


def _extent(grid: Any, axis: int, value: Any) -> int:
    if type(value) is not int:
        value = _integer(grid, axis, value)
    if not 0 <= value <= LIMITS[axis]:
        problem = "at least 0" if value < 0 else f"at most {LIMITS[axis]} on this axis"
        raise ArgumentValueError(
            f"the grid {_show(grid)} has {short_repr(value)} programs along axis {axis}; "
            f"it takes {problem}"
        )
    return int(value)


def _integer(grid: Any, axis: int, value: Any) -> int:
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        hint = "; use tile.cdiv(n, block) or // to divide" if isinstance(value, float) else ""
        raise ArgumentTypeError(
            f"a grid is made of integers; axis {axis} of {_show(grid)} is a "
            f"{type(value).__name__}{hint}"
        ) from None


def _show(grid: Any) -> str:
    return short_repr(grid, 80)


@constexpr_function
def cdiv(x: int, y: int) -> int:
    """Return `x / y` rounded up: the number of blocks of `y` that cover `x`."""
    return -(x // -y)


@constexpr_function
def next_power_of_2(n: int) -> int:
    """Return the least power of two that is at least `n`; 1 for `n` below 1."""
    return 1 << (int(n) - 1).bit_length() if n > 1 else 1
