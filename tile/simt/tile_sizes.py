"""Sizes of single tiles of a kernel below the program's: micro-tiles and nano-tiles.

    dot0:2x8@4+dot1:4x4+load2:4

A dot is written as the rows and columns that a thread computes (its nano-tile, where the target has
no mma instruction for it) and, after `@`, the number of warps along its rows (the micro-tile); each
of the two may be left out. A load or store has the most contiguous elements that a thread accesses.
Tiles are named by kind and number, in the order of the TILE IR (`named_tiles`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tile.errors import ArgumentValueError
from tile.short_repr import short_repr

_DOT = re.compile(r"(dot\d+):(?:(\d+)x(\d+))?(?:@(\d+))?")
_ACCESS = re.compile(r"((?:load|store)\d+):(\d+)")
_MOST = 16  # rows and columns of a thread


@dataclass(frozen=True)
class TileSize:
    """The sizes of one tile; 0 leaves a size to the compiler.

    rows, columns: of a thread's part of a dot; for an access `columns` is the contiguous elements.
    warp_rows: warps along the rows of a dot.
    """

    rows: int = 0
    columns: int = 0
    warp_rows: int = 0


@dataclass(frozen=True)
class TileSizes:
    """The sizes of some tiles of a kernel, by name."""

    sizes: tuple[tuple[str, TileSize], ...] = ()

    @classmethod
    def parse(cls, text: str) -> TileSizes:
        """Return the sizes in a text. Raises `ArgumentValueError` for a text of another form."""
        parts = [part for part in text.split("+") if part]
        sizes = tuple(_parsed(part) for part in parts)
        if len(dict(sizes)) < len(sizes):
            raise ArgumentValueError(f"tile_sizes names a tile twice: {short_repr(text)}")
        return cls(sizes)

    def of(self, name: str) -> TileSize | None:
        """Return the sizes of a tile; None if it has none."""
        return dict(self.sizes).get(name)

    def __str__(self) -> str:
        return "+".join(_spelled(name, size) for name, size in self.sizes)


NO_SIZES = TileSizes()


def parse_tile_sizes(text: str) -> TileSizes:
    """Return the sizes in a text. Raises `ArgumentValueError` for a text of another form."""
    return TileSizes.parse(text)


def _parsed(text: str) -> tuple[str, TileSize]:
    access, dot = _ACCESS.fullmatch(text), _DOT.fullmatch(text)
    numbers: list[int] = []
    if access is not None:
        numbers = [int(access[2])]
        size = TileSize(columns=numbers[0])
    elif dot is not None and (dot[2] or dot[4]):
        numbers = [int(group) for group in dot.groups()[1:] if group]
        size = TileSize(*(int(group or 0) for group in dot.groups()[1:]))
    if not numbers or any(n < 1 or n & (n - 1) or n > _MOST for n in numbers):
        raise ArgumentValueError(
            f"tile_sizes has {short_repr(text)}; a dot is written dot0:2x8@4, the rows and columns "
            f"of a thread and the warps along the rows, an access load1:4: powers of two up to "
            f"{_MOST}, and + joins them"
        )
    match = access or dot
    assert match is not None
    return match[1], size


def _spelled(name: str, size: TileSize) -> str:
    if not name.startswith("dot"):
        return f"{name}:{size.columns}"
    part = f"{size.rows}x{size.columns}" if size.rows else ""
    return f"{name}:{part}" + (f"@{size.warp_rows}" if size.warp_rows else "")
