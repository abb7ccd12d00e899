"""Extents of tiles and buffers: powers of two, except those of tiles before `pad-extents`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

from tile.errors import TypeRuleError

MAX_NUMEL = 1 << 20  # of a tile, with its padding


def is_power_of_two(n: int) -> bool:
    """Return True if `n` is 1, 2, 4 and so on."""
    return n > 0 and n & (n - 1) == 0


def padded(extent: int) -> int:
    """Return the least power of two that is at least a positive extent."""
    return 1 << (extent - 1).bit_length()


def unpadded_extent(shape: Iterable[int]) -> int | None:
    """Return the first extent that is not a power of two; None without one."""
    return next((extent for extent in shape if not is_power_of_two(extent)), None)


def refuse_extent(name: str, ty: object, extent: int, *remedies: str) -> NoReturn:
    """Raise the `TypeRuleError` of an operation that an extent of a type does not fit.

    remedies: what to do instead, besides masks.
    """
    raise TypeRuleError(
        f"{name} takes extents that are powers of two, and {ty} has an extent of {extent}",
        notes=[
            *remedies,
            f"{'or ' * bool(remedies)}take {padded(extent)} elements and mask the rest: "
            f"at = tl.arange(0, {padded(extent)}), with mask=at < {extent} in loads and stores and "
            f"tl.where(at < {extent}, x, 0) in sums",
        ],
    )


def check_extent(extent: int, subject: str = "the extents of a buffer are") -> None:
    """Raise `TypeRuleError` for an extent that is not a power of two."""
    if not is_power_of_two(extent):
        below = 1 << max(0, extent.bit_length() - 1) if extent > 0 else 1
        near = f"{below} or {below * 2}" if extent > 0 else "1"
        raise TypeRuleError(f"{subject} powers of two, and {extent} is not; the nearest are {near}")
