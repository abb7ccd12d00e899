"""Tables of registers: a linear map of register numbers, written out.

A register number is a vector of bits, so where the bits go says where all go. The tables are as
long as fragments, 1 to 256, and are made by doubling.

    >>> sums([1, 4, 2])                            # bits 1 and 2 trade places
    (0, 1, 4, 5, 2, 3, 6, 7)
    >>> inverse((2, 0, 1))                         # where each number stands
    (1, 2, 0)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tile.simt.layouts.dims import REGISTER, axis_name, places
from tile.simt.layouts.layout import LinearLayout

Registers = tuple[int, ...]


def sums(columns: Iterable[int]) -> Registers:
    """The images of 0, 1, 2 and so on under the map whose bits have these images."""
    table = [0]
    for column in columns:
        table += [column ^ other for other in table]
    return tuple(table)


def inverse(registers: Sequence[int]) -> Registers:
    """The place of each number in a permutation."""
    found = [0] * len(registers)
    for place, register in enumerate(registers):
        found[register] = place
    return tuple(found)


def axis_mask(layout: LinearLayout, axis: int) -> int:
    """The bits of an image that are an axis's coordinate; `axis` counts from either end."""
    axis %= len(layout.outs)
    bits = layout.outs[axis][1]
    return (1 << bits) - 1 << places(layout.outs)[axis_name(axis)]


def along_axis(layout: LinearLayout, name: str, axis: int) -> list[tuple[int, int]]:
    """The bits of an input that move along this axis alone: (bit, image as a coordinate of it)."""
    mask = axis_mask(layout, axis)
    lowest = mask & -mask
    return [
        (bit, column // lowest)
        for bit, column in enumerate(layout.images(name))
        if column and not column & ~mask
    ]


def register_bits(layout: LinearLayout) -> int:
    """How many bits number the registers of a layout."""
    return layout.in_bits(REGISTER)
