"""Tiles of depthwise convolutions: groups of adjacent pixels, and channels.

Lanes lie along the axis that is contiguous in memory: channels, or rows of planes.
"""

from __future__ import annotations

from dataclasses import dataclass

import tile
from tile.ops.image.images import Image
from tile.ops.image.pixels import ELEMENTS
from tile.ops.image.windows import Windows

CHANNELS = 256  # of a program's tile at most, where they are contiguous
# Elements of a window whose tiles are twice as large, if channels are more than half of those.
# H200, float16, 2026-11-30: tiles of 2048 take 37.9 us for 32 x 256 channels of 56 x 56 and 3 x 3,
# those of 1024 42.3; but 61 for 64 channels of 112 x 112 (50), and 28.0 for 256 of 28 x 28 and
# windows of 5 x 5 (24.4).
FEW = 9
ADJACENT, COLUMNS = 4, 2  # pixels of a group, groups in a row of a tile
# The same by the channels of a tile, of such windows that move by a pixel. H200, float16, 3 x 3,
# 2026-11-30: 32 x 64 channels of 112 x 112 44.7 us (two groups of four pixels 49.7), 128 of 56 x 56
# 25.1 (27.4), 32 of 112 x 112 24.6 (27.1).
LONG_GROUPS = {32: (8, 2), 64: (8, 2), 128: (8, 1)}


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
    """Groups of `adjacent` pixels in rows and columns, and a block of channels."""

    adjacent: int
    rows: int
    columns: int
    block: int
    planes: bool

    @classmethod
    def of(cls, image: Image, windows: Windows, height: int, width: int) -> PixelTile:
        """Return a program's tile of a result of this height and width."""
        few, planes = windows.count[0] * windows.count[1] <= FEW, image.strides[3] != 1
        large = few and image.shape[3] > CHANNELS // 2
        adjacent, groups, block = groups_of(image, 2 * ELEMENTS if large else ELEMENTS, CHANNELS)
        columns = groups if planes else COLUMNS
        if few and not planes and windows.step[1] == 1:
            adjacent, columns = LONG_GROUPS.get(block, (adjacent, columns))
        columns = min(columns, tile.next_power_of_2(tile.cdiv(width, adjacent)))
        rows = min(groups // columns, tile.next_power_of_2(height))
        return cls(adjacent, rows, columns, block, planes)

    def count(self, height: int, width: int) -> int:
        """Return the number of tiles of an image."""
        return tile.cdiv(height, self.rows) * tile.cdiv(width, self.adjacent * self.columns)
