"""Sizes of tiles, grids and loops of random kernels."""

from __future__ import annotations

from dataclasses import dataclass

Shape = tuple[int, ...]

WITNESSES = 6  # values stored in the end, so that little of what was computed goes unseen
TILES = 4  # places that a program has to store tiles in


@dataclass(frozen=True)
class Sizes:
    """Sizes; those of arrays are powers of two."""

    shapes: tuple[Shape, ...]  # of values
    elements: int  # of every array that is only read, and of every tile
    largest: int  # elements of a tile of `shapes`, and of the tiles stored in the end
    longer: tuple[int, ...]  # axes that are taken away again
    inner: tuple[int, ...]  # of dots
    counted: tuple[Shape, ...]  # tiles of which there are histograms
    most: int  # elements of any tile

    @property
    def region(self) -> int:
        """Elements of an array that one program owns."""
        return TILES * self.elements + WITNESSES * self.largest


SMALL = Sizes(
    shapes=(
        *((), (1,), (4,), (8,), (16,), (1, 4), (4, 1), (2, 8), (8, 2), (4, 4)),
        *((2, 1, 4), (2, 2, 2), (1, 1), (4, 2, 1)),
    ),
    elements=64,
    largest=16,
    longer=(1, 2, 4),
    inner=(1, 2, 4),
    counted=((1,), (8,), (16,)),
    most=64,
)
# Tiles that several warps share.
LARGE = Sizes(
    shapes=(
        *((), (512,), (256,), (1024,), (16, 32), (64, 8), (32, 32), (4, 8, 16), (8, 1, 64)),
        *((1,), (64,), (1, 256), (512, 1), (2, 16, 16)),
    ),
    elements=1024,
    largest=1024,
    longer=(2, 8, 64),
    inner=(16, 32),
    counted=((256,), (512,)),
    most=2048,
)
# Extents that are no powers of two, and some that are.
UNPADDED = Sizes(
    shapes=(
        *((), (3,), (5,), (13,), (12,), (16,), (1, 5), (3, 1), (3, 4), (5, 3), (2, 6), (4, 3)),
        *((3, 2, 2), (2, 1, 7), (2, 2, 3), (1, 1)),
    ),
    elements=64,
    largest=16,
    longer=(1, 2, 3, 4),
    inner=(1, 3, 4, 7),
    counted=((1,), (7,), (12,)),
    most=64,
)
UNPADDED_LARGE = Sizes(
    shapes=(
        *((), (500,), (300,), (1000,), (12, 30), (60, 8), (30, 32), (4, 7, 16), (8, 1, 50)),
        *((1,), (63,), (1, 200), (300, 1), (2, 16, 15)),
    ),
    elements=1024,
    largest=1024,
    longer=(2, 7, 33),
    inner=(16, 24, 5),
    counted=((200,), (512,)),
    most=2048,
)
BUDGET = 150  # operations of a function, after which no more is made than is needed
GRIDS = ((1, 1, 1), (2, 1, 1), (5, 1, 1), (2, 2, 1), (1, 3, 1), (2, 1, 2), (3, 2, 1))
SHARED = 16  # elements of an array that all programs update
MOST_STATEMENTS = 3  # in a nested block
