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
from tile.ops.core.tables import Configuration

VECTOR_BYTES = 16  # of which rows and parts consist, and their starts are multiples
# Of lines or sectors of memory, if all programs have as many tiles so: layer norm of 3584 x 36000,
# float32, 267 us, by vectors 275; RMS norm of 2560 x 45000, float16, 116.6 and 117.6 (H200,
# 2026-11-30).
PART_BYTES = (128, 32, VECTOR_BYTES)


def row_parts(call: Call, x: Operand, tiles: Configuration, *strides: int) -> dict[str, Any]:
    """Return the constexprs and options of programs for parts of the rows of `x`; {} for others.

    tiles: BLOCK, the elements of a tile; SIZE, the programs of a cluster, unless it is 1; LINE,
        the bytes at whose multiples rows begin, or else their tiles do at lines, by SHIFT; and
        options; {} for other kernels.
    """
    length, itemsize, config = x.shape[-1], x.dtype.itemsize, dict(tiles)
    if not config or any(number * itemsize % VECTOR_BYTES for number in (length, *strides)):
        return {}
    size, block = config.setdefault("SIZE", 1), config["BLOCK"]
    line, unaligned = config.pop("LINE", 0), {}
    if line and size == 1 and len({*strides}) == 1 and strides[0] * itemsize % line:
        elements = PART_BYTES[0] // itemsize
        if tile.cdiv(length + elements, block) == tile.cdiv(length, block):
            unaligned = {"SHIFT": elements}
    if size > 1:
        if not call.has_clusters():
            return {}
        config["num_ctas"] = size
    for unit in PART_BYTES if size > 1 else (VECTOR_BYTES,):
        part = tile.cdiv(length * itemsize, size * unit) * unit // itemsize
        count = tile.cdiv(part, block)
        if length - (size - 1) * part > (count - 1) * block:  # the last part has as many tiles
            return {"PART": part, "COUNT": count, **unaligned, **config}
    return {}


@tile.jit
def part_of(length, SIZE: tl.constexpr, PART: tl.constexpr):
    """Return the row of this program, the start of its part, and the elements of that."""
    program = tl.program_id(0)
    row = (program // SIZE).to(tl.int64)
    start = program % SIZE * PART
    return row, start, min(PART, length - start)


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
