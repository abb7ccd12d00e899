"""Arithmetic on sizes, for grids and blocks on the host and for constants in kernels."""

from __future__ import annotations

from tile.frontend.static import constexpr_function


@constexpr_function
def cdiv(x: int, y: int) -> int:
    """Return `x / y` rounded up: the number of blocks of `y` that cover `x`."""
    return -(x // -y)


@constexpr_function
def next_power_of_2(n: int) -> int:
    """Return the least power of two that is at least `n`; 1 for `n` below 1."""
    return 1 << (int(n) - 1).bit_length() if n > 1 else 1
