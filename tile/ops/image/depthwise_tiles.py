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
# Elements of a tile of such windows. H200, float16, 2026-11-30: tiles of 2048 take 37.9 us for 32 x
# 256 channels of 56 x 56 and 3 x 3, those of 1024 42.3; but 28.0 for 256 of 28 x 28 and windows of
# 5 x 5 (24.4).
LARGE = 2 * ELEMENTS
# Windows of few rows are unrolled, which takes 28 % fewer instructions, in tiles of so many
# elements: few channels, and rows that share rows of the image, of groups of 8 adjacent pixels.
# H200, float16, 3 x 3, 32 images, 2026-11-30, us, in brackets row by row: 64 channels of 112 x 112
# 37.7 (45.1), 144 of 56 x 56 27.1 (33.0), by steps of two 14.0 (29.3), 96 of 112 x 112 by steps of
# two 27.3 (34.1); 8 images of 96 of 56 x 56 and 7 x 7 18.3 (26.3). Of multiples of 256 channels, no
# lane is idle row by row: 256 of 56 x 56 38.3 (37.0), 28 x 28 and 5 x 5 24.9 (24.3); but by steps
# of two 7.4 (10.8).
MOST_UNROLLED = 49
UNROLLED_ELEMENTS, UNROLLED_ADJACENT = 512, 8
# Channels of these tiles, without idle lanes if possible. In images of many rows 128: 384 of 28 x
# 28 18.0 us, 64 18.9; but of 14 x 14 7.3, 7.0. Larger windows hold more filters: 384 of 14 x 14, 7
# x 7, 8 images, 32 8.2, 64 9.5.
UNROLLED_BLOCKS, MANY_ROWS = (128, 64, 32), 16
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


def unrolled_groups(
    image: Image, windows: Windows, height: int, width: int
) -> tuple[int, int, int]:
    """Return the adjacent pixels of a group, and the groups in a row and channels of a tile.

    height, width: of the result.
    """
    few, step = windows.count[0] * windows.count[1] <= FEW, windows.step[1]
    many_rows, channels = step == 1 and height > MANY_ROWS, image.shape[3]
    most = UNROLLED_BLOCKS[(0 if many_rows else 1) if few else 2]
    whole = tile.next_power_of_2(channels)
    blocks = [min(each, whole) for each in UNROLLED_BLOCKS if each <= most]
    block = min(blocks, key=lambda each: tile.cdiv(channels, each) * each)
    if step == 1 or not few:
        return UNROLLED_ADJACENT, 1, block
    groups = tile.cdiv(width, ADJACENT)
    return ADJACENT, COLUMNS if groups % COLUMNS == 0 else 1, block


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
        window, planes = windows.count[0] * windows.count[1], image.strides[3] != 1
        whole = image.shape[3] % CHANNELS == 0 and windows.step[1] == 1
        unrolled = window <= MOST_UNROLLED and not planes and not whole
        if unrolled:
            adjacent, columns, block = unrolled_groups(image, windows, height, width)
            groups = UNROLLED_ELEMENTS // block
        else:
            adjacent, groups, block = groups_of(
                image, LARGE if window <= FEW else ELEMENTS, CHANNELS
            )
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
