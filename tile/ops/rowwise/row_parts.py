"""Parts of long rows: each is that of a program, of which a cluster shares a row, as several tiles.

Tiles have powers of two elements: a row of 20000 as one tile of 32768 would leave two fifths of a
program's instructions to elements that do not exist, and as five of 4096 a fiftieth. All but the
last one have no mask. And a row that a program cannot hold is shared by a cluster, whose programs
exchange what they reduce their parts to: other programs load meanwhile.

Where rows of 16-bit elements begin within lines of memory, tiles of layer norm begin at these, so
that a warp accesses no line more than it has elements for.

The compiler keeps the tiles in shared memory if their elements have 16 bits and registers would not
hold them as float32. Threads wait for one after the other, and load weights a few tiles early.
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.call import Call
from tile.ops.core.device_functions import widen
from tile.ops.core.operand import Operand
from tile.ops.core.row_vectors import LINE, vectors_of
from tile.ops.core.tables import ANY, Configuration, Table

VECTOR_BYTES = 16  # of which rows and parts consist, and their starts are multiples
# Of lines or sectors of memory, if all programs have as many tiles so: layer norm of 3584 x 36000,
# float32, 267 us, by vectors 275; RMS norm of 2560 x 45000, float16, 116.6 and 117.6 (H200,
# 2026-11-30).
PART_BYTES = (LINE, 32, VECTOR_BYTES)
SHORT = 16  # times as many bytes as a vector has are the least of a row
# The tiles of rows of softmax that are no whole vectors, where other ones are a tile of a kernel
# without parts, by their length and the bytes of an element. H200, 2026-12-01, us, by loads of
# single elements and so: softmax, float16, 32768 x 1025 65 and 34, 16384 x 2049 67 and 33, x 3001
# 70 and 48, 8192 x 5001 73 and 41, x 7001 85 and 56; float32, 79 and 66, 95 and 95, 111 and 81, 129
# and 113 from 2049 on; gradients, float16, 57 and 48, 64 and 48, 80 and 69, 87 and 58, 104 and 81.
UNALIGNED = Table(
    {(ANY, ANY): {}},
    {
        "nvptx": {
            (511, ANY): {},
            (1280, 2): {"BLOCK": 256, "num_warps": 1},
            (1024, 4): {"BLOCK": 512, "num_warps": 2},
            (4096, 2): {"BLOCK": 1024, "num_warps": 4},
            (4096, 4): {"BLOCK": 1024, "num_warps": 4},
            (6144, 2): {"BLOCK": 2048, "num_warps": 4},
            (6144, 4): {"BLOCK": 2048, "num_warps": 4},
            (8192, 2): {"BLOCK": 1024, "num_warps": 8},
            (8192, 4): {"BLOCK": 1024, "num_warps": 8},
            (8192, ANY): {},
            (16384, 4): {"BLOCK": 2048, "num_warps": 16},
            (ANY, ANY): {},
        }
    },
)


def row_parts(
    call: Call,
    x: Operand,
    tiles: Configuration,
    *strides: int,
    unaligned: Configuration | None = None,
) -> dict[str, Any]:
    """Return the constexprs and options of programs for parts of the rows of `x`; {} for others.

    tiles: BLOCK, the elements of a tile; SIZE, the programs of a cluster, unless it is 1; LINE,
        the bytes at whose multiples rows begin, or else their tiles do at lines, by SHIFT; and
        options; {} for other kernels.
    unaligned: the tiles of rows that are no whole vectors, if the kernel takes these: parts are
        those of VECTOR elements each, which begin at lines of memory unless rows are short.
    """
    length, itemsize = x.shape[-1], x.dtype.itemsize
    whole = not any(number * itemsize % VECTOR_BYTES for number in (length, *strides))
    config = dict(tiles if whole else (len({*strides}) == 1 and unaligned) or {})
    if not config:
        return {}
    size, block = config.setdefault("SIZE", 1), config["BLOCK"]
    line, shift = config.pop("LINE", 0), {}
    if line and size == 1 and len({*strides}) == 1 and strides[0] * itemsize % line:
        elements = LINE // itemsize
        if tile.cdiv(length + elements, block) == tile.cdiv(length, block):
            shift = {"SHIFT": elements}
    if size > 1:
        if not call.has_clusters():
            return {}
        config["num_ctas"] = size
    if whole:
        parts = _parts(length, length, itemsize, size, block)
        return {**parts, **shift, **config} if parts else {}
    for vector in (n // itemsize for n in PART_BYTES if n * SHORT <= length * itemsize):
        least, most = (n // vector * vector for n in (length - vector + 1, length))
        if parts := _parts(least, most, itemsize, size, block):
            return {**parts, "VECTOR": vector, **config}
    return {}


def _parts(least: int, most: int, itemsize: int, size: int, block: int) -> dict[str, int]:
    """Return PART and COUNT, the tiles of each part, of rows of so many elements; or {}."""
    for unit in PART_BYTES if size > 1 else (VECTOR_BYTES,):
        part = tile.cdiv(most * itemsize, size * unit) * unit // itemsize
        count = tile.cdiv(part, block)
        if least - (size - 1) * part > (count - 1) * block:  # the last part has as many tiles
            return {"PART": part, "COUNT": count}
    return {}


@tile.jit
def part_of(length, SIZE: tl.constexpr, PART: tl.constexpr):
    """Return the row of this program, the start of its part, and the elements of that."""
    program = tl.program_id(0)
    row = (program // SIZE).to(tl.int64)
    start = program % SIZE * PART
    return row, start, min(PART, length - start)


@tile.jit
def vectors_of_part(row, start, stride, length, PART: tl.constexpr, VECTOR: tl.constexpr):
    """Return what `vectors_of` does for a part, whose first element is `start` behind the first.

    The part that starts at 0 has the elements that are in no whole vector.
    """
    first, count, place, outside = vectors_of(row, stride, length, VECTOR)
    outside = outside & (start == 0)
    return first, min(PART, count - start), place, outside


@tile.jit
def tile_of(at, count, COUNT: tl.constexpr, BLOCK: tl.constexpr, begin=None):
    """Return the elements of a tile of a part, and which of them exist; None for all.

    begin: of the first tile, if it does not begin with the part; there is a second one then.
    """
    column = at * BLOCK + tl.arange(0, BLOCK)
    if begin is not None and at == 0:
        inside = column >= begin
    elif at < COUNT - 1:
        inside = None
    else:
        inside = column < (count if begin is None else begin + count)
    return column, inside


@tile.jit
def load_tiles(
    x_ptr,
    count,
    COUNT: tl.constexpr,
    BLOCK: tl.constexpr,
    tiles=(),
    CACHE: tl.constexpr = "",
    begin=None,
):
    """Return the tiles of a part, behind others; elements outside of it are 0."""
    for at in tl.static_range(COUNT):
        column, inside = tile_of(at, count, COUNT, BLOCK, begin)
        if inside is None:
            tiles += (tl.load(x_ptr + column, cache_modifier=CACHE),)
        else:
            x = tl.load(x_ptr + column, mask=inside, other=0.0, cache_modifier=CACHE)
            tiles += (x,)
    return tiles


@tile.jit
def less(x, number, past, at, count, COUNT: tl.constexpr, BLOCK: tl.constexpr, begin=None):
    """Return the elements of a tile, widened, less a number, and less `past` outside of the part.

    Masks are alike for the elements of a vector: one selection for each of these.
    """
    _, inside = tile_of(at, count, COUNT, BLOCK, begin)
    return widen(x) - (number if inside is None else tl.where(inside, number, past))


@tile.jit
def widened_again(tiles, number):
    """Return tiles of 16 bits, to be widened anew behind `number`, a scalar of 32 bits.

    The assembler must not know that they are the same: it would hold them as float32 until then.
    """
    same = tiles[:0]
    for at in tl.static_range(len(tiles)):
        same += (tl.extra.cuda.launder(tiles[at], number),)
    return same


@tile.jit
def added(tiles):
    """Return the sum of tiles, a tile."""
    total = tiles[0]
    for at in tl.static_range(1, len(tiles)):
        total += tiles[at]
    return total


@tile.jit
def widened(tiles):
    """Return tiles of the type of the arithmetic."""
    wide = tiles[:0]
    for at in tl.static_range(len(tiles)):
        wide += (widen(tiles[at]),)
    return wide


@tile.jit
def sum_of_tiles(tiles):
    """Return the sum of the elements of tiles, by one exchange."""
    return tl.sum(added(tiles), axis=0)
