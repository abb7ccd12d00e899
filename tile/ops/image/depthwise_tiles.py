"""Tiles of depthwise convolutions: groups of adjacent pixels, and channels.

Lanes lie along the axis that is contiguous in memory: channels, or rows of planes.
"""

from __future__ import annotations

from dataclasses import dataclass

import tile
from tile.ops.core.tables import ANY, Configuration, Table
from tile.ops.image.images import Image
from tile.ops.image.pixels import ELEMENTS
from tile.ops.image.windows import Windows

CHANNELS = 256  # of a program's tile at most, where they are contiguous
ADJACENT, COLUMNS = 4, 2  # pixels of a group, groups in a row of a tile
FEW = 9  # elements of a window of few
# Elements of a tile of such windows that have more than half as many channels as above. H200,
# float16, 2026-11-30: tiles of 2048 take 37.9 us for 32 x 256 channels of 56 x 56 and 3 x 3,
# those of 1024 42.3; but 28.0 for 256 of 28 x 28 and windows of 5 x 5 (24.4).
LARGE = 2 * ELEMENTS
# Others that move by one pixel are unrolled, which takes 28 % fewer instructions. Elements of
# their tiles, pixels of a group, groups in a row. H200, float16, 3 x 3, 2026-11-30, in brackets
# row by row: 32 x 64 channels of 112 x 112 37.7 us (45.1), 128 of 56 x 56 20.9 (24.7); but 256 of
# 56 x 56 48, and windows of 5 x 5 29.2 (26.3).
UNROLLED_ELEMENTS, UNROLLED_ADJACENT, UNROLLED_COLUMNS = 512, 8, 1
UNROLLED = Table({(ANY,): {}}, {"nvptx": {(ANY,): {"maxnreg": 128}}})  # four programs


def groups_of(image: Image, elements: int, channels: int) -> tuple[int, int, int]:
    """Return the adjacent pixels of a group, and the groups and channels of a program's tile.

    elements, channels: of a tile at most, where channels are contiguous. H200, float16, 3 x 3, 32 x
    256 channels of 56 x 56, 2026-11-26; planes are not measured.
    """
    if image.strides[3] != 1:
        return 1, ELEMENTS // 2, 2
    block = min(channels, tile.next_power_of_2(image.shape[3]))
    return ADJACENT, elements // block, block


@dataclass(frozen=True)
class PixelTile:
    """Groups of `adjacent` pixels in rows and columns, and a block of channels.

    unrolled: True if the rows of the window are.
    """

    adjacent: int
    rows: int
    columns: int
    block: int
    planes: bool
    unrolled: bool

    @classmethod
    def of(cls, image: Image, windows: Windows, height: int, width: int) -> PixelTile:
        """Return a program's tile of a result of this height and width."""
        few, planes = windows.count[0] * windows.count[1] <= FEW, image.strides[3] != 1
        many = image.shape[3] > CHANNELS // 2
        unrolled = few and not planes and not many and windows.step[1] == 1
        if unrolled:
            adjacent, columns = UNROLLED_ADJACENT, UNROLLED_COLUMNS
            _, groups, block = groups_of(image, UNROLLED_ELEMENTS, CHANNELS)
        else:
            elements = LARGE if few and many else ELEMENTS
            adjacent, groups, block = groups_of(image, elements, CHANNELS)
            columns = groups if planes else COLUMNS
        columns = min(columns, tile.next_power_of_2(tile.cdiv(width, adjacent)))
        rows = min(groups // columns, tile.next_power_of_2(height))
        return cls(adjacent, rows, columns, block, planes, unrolled)

    def count(self, height: int, width: int) -> int:
        """Return the number of tiles of an image."""
        return tile.cdiv(height, self.rows) * tile.cdiv(width, self.adjacent * self.columns)

    def options(self, backend: str) -> Configuration:
        """Return the options of a launch."""
        return UNROLLED.select(backend, self.block) if self.unrolled else {}
