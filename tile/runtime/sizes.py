"""Arithmetic on sizes, for hosts that choose grids and blocks and for constants in kernels."""

from __future__ import annotations

from tile.frontend.static import constexpr_function


@constexpr_function
def cdiv(x: int, y: int) -> int:
    """`x / y`, rounded up: how many blocks of `y` cover `x`."""
    return -(x // -y)


@constexpr_function
def next_power_of_2(n: int) -> int:
    """The least power of two that is not below `n`; 1 for `n` below 1."""
    return 1 << (int(n) - 1).bit_length() if n > 1 else 1
