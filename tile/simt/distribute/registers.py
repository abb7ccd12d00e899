"""Tables of registers: linear maps of register numbers, tabulated.

A register number is a vector of bits, so the images of the bits determine the map. The tables are
as long as fragments, 1 to 256, and are made by doubling.

    >>> sums([1, 4, 2])                            # swap bits 1 and 2
    (0, 1, 4, 5, 2, 3, 6, 7)
    >>> inverse((2, 0, 1))                         # the position of each number
    (1, 2, 0)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tile.simt.layouts.dims import REGISTER, axis_name, places
from tile.simt.layouts.layout import LinearLayout

Registers = tuple[int, ...]


def sums(columns: Iterable[int]) -> Registers:
    """Return the images of 0, 1, 2 and so on under the map in which the bits have these images."""
    table = [0]
    for column in columns:
        table += [column ^ other for other in table]
    return tuple(table)


def inverse(registers: Sequence[int]) -> Registers:
    """Return the position of each number in a permutation."""
    positions = [0] * len(registers)
    for position, register in enumerate(registers):
        positions[register] = position
    return tuple(positions)


def axis_mask(layout: LinearLayout, axis: int) -> int:
    """Return the mask of an axis's coordinate in an image; `axis` counts from either end."""
    axis %= len(layout.outs)
    bits = layout.outs[axis][1]
    return (1 << bits) - 1 << places(layout.outs)[axis_name(axis)]


def along_axis(layout: LinearLayout, name: str, axis: int) -> list[tuple[int, int]]:
    """Return the bits of an input that move along this axis alone: (bit, coordinate it adds)."""
    mask = axis_mask(layout, axis)
    lowest = mask & -mask
    return [
        (bit, column // lowest)
        for bit, column in enumerate(layout.images(name))
        if column and not column & ~mask
    ]


def register_bits(layout: LinearLayout) -> int:
    """Return the number of bits of a layout's register numbers."""
    return layout.in_bits(REGISTER)
