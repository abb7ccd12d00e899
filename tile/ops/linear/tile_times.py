"""The time that a matmul of 16-bit operands takes by the tile of its programs.

Programs multiply for as long as tensor cores take, load tiles of both operands from the L2 cache,
and the whole reads its operands from memory. These overlap, but not fully. Each program also waits
for its first operands, and stores its tile. TMA takes longer to fill rows that do not exist than
to load others.
"""

from __future__ import annotations

from typing import NamedTuple

from tile.ops.linear.shapes import Shape

# Fitted to 4,800 times of 614 shapes of 96 to 1016 rows, so that the tile of the least estimate is
# a fast one: it takes 1.016 times the least time of those measured (bfloat16, H200, 2026-11-30,
# docs/notes/ops.md, "Tiles by an estimate of their time").
#
# Microseconds: a launch; the first operands of a program, and a sum that it stores; programs in
# clusters; a row that does not exist, by iteration.
LAUNCH, FIRST, STORED, CLUSTERED, ABSENT = 0.716, 1.06, 4.35e-5, 1.5, 2.76e-3
# A multiplication by a multiprocessor; the least columns that take longer to multiply than to read
# from shared memory with 64 rows, as a part of both.
MULTIPLICATION, READ_COLUMNS = 2.72e-7, 0.65
# By microsecond: bytes from the L2 cache, and from memory; bytes of splits that are added up, which
# takes a launch besides.
LOADED_BYTES, MEMORY_BYTES, ADDED_BYTES, ADDING = 17.2e6, 5.03e6, 2.66e6, 0.187
# Bytes of a, compared with those of b: they are few, and read more often. Columns in parts of
# strips, which TMA loads whole; those that two programs of a cluster load for both.
BYTES_OF_A, PARTS_OF_STRIPS, SHARED = 0.689, 1.55, 0.5
# A row of 64 elements that begins within a sector of the L2 cache, by a multiprocessor: 4.4 cycles
# (docs/notes/ops.md, "Rows within sectors").
WITHIN_SECTORS = 2.6e-3
# 1 would add up what overlaps, infinity would take the longest.
OVERLAP = 2.31
STORES_LEFT = 0.3  # the part of the stores of persistent programs that loads do not overlap
STRIP, STEP = 64, 64  # columns, and elements of the inner axis


class TileChoice(NamedTuple):
    """A tile of the result, or of its transpose if `swapped`, and the programs that compute it.

    whole: True if the right operand is contiguous along the inner axis. clustered: True if two
    programs load tiles of b for both.
    """

    rows: int
    columns: int
    splits: int
    swapped: bool
    whole: bool
    persistent: bool = False
    clustered: bool = False

    @property
    def loaded(self) -> int:
        """Return the columns that TMA loads."""
        return self.columns if self.whole else -(-self.columns // STRIP) * STRIP

    def across(self, shape: Shape) -> tuple[int, int]:
        """Return the number of tiles along the rows and columns of the result that is computed."""
        rows, columns = (shape.n, shape.m) if self.swapped else (shape.m, shape.n)
        return -(-rows // self.rows), -(-columns // self.columns)


def microseconds(shape: Shape, choice: TileChoice, programs: int) -> float:
    """Return the time by so many multiprocessors."""
    m, n, k = shape.m, shape.n, shape.k
    rows, columns, splits = choice.rows, choice.columns, choice.splits
    down, along = choice.across(shape)
    count = down * along * splits
    most = -(-count // programs)
    inner = -(-k // (STEP * splits)) * STEP
    multiplied = rows * max(columns, READ_COLUMNS * (64 + columns))
    if choice.swapped:
        of_a, of_b, absent = columns, rows, max(along * columns - m, down * rows - n)
    else:
        of_a, of_b, absent = rows, choice.loaded, max(down * rows - m, along * columns - n)
    in_parts = not choice.whole and columns % STRIP
    parts_of_b = of_b * (SHARED if choice.clustered else PARTS_OF_STRIPS if in_parts else 1.0)
    loaded = 2 * inner * count * (parts_of_b + BYTES_OF_A * of_a)
    within = of_a + of_b * (SHARED if choice.clustered else 1.0) if shape.within_sectors else 0.0
    overlapped: float = (
        (most * inner * multiplied * MULTIPLICATION) ** OVERLAP
        + (loaded / LOADED_BYTES) ** OVERLAP
        + (most * inner / STEP * within * WITHIN_SECTORS) ** OVERLAP
        + (2 * k * (m + n) / MEMORY_BYTES) ** OVERLAP
        + (inner / STEP * absent * ABSENT) ** OVERLAP
    ) ** (1 / OVERLAP)
    stored = STORED * rows * columns
    again = STORES_LEFT * stored if choice.persistent else FIRST + stored
    time = LAUNCH + overlapped + FIRST + stored + again * (most - 1)
    if splits > 1:
        time += ADDING + (4 * splits + 2) * m * n / ADDED_BYTES
    return time + CLUSTERED * choice.clustered
