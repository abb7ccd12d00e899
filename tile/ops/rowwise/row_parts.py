"""Parts of long rows: each is that of a program, of which a cluster shares a row, as two tiles.

Tiles have powers of two elements. A row of 20000 is one of 16384 elements, and one of 4096 that has
a mask: as one of 32768 it would leave two fifths of a program's instructions to elements that do
not exist. And a row that registers do not hold is shared by a cluster, whose programs exchange what
they reduce their parts to: other programs load meanwhile.
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.call import Call
from tile.ops.core.operand import Operand
from tile.ops.core.tables import Configuration

VECTOR_BYTES = 16  # of which rows and parts consist, and their starts are multiples


def row_parts(call: Call, x: Operand, tiles: Configuration, *strides: int) -> dict[str, Any]:
    """Return the constexprs and options of programs for parts of the rows of `x`; {} for others.

    tiles: SIZE, the programs of a cluster, unless it is 1, and options; {} for other kernels.
    """
    length, itemsize, config = x.shape[-1], x.dtype.itemsize, dict(tiles)
    if not config or any(number * itemsize % VECTOR_BYTES for number in (length, *strides)):
        return {}
    size = config.setdefault("SIZE", 1)
    if size > 1:
        if not call.has_clusters():
            return {}
        config["num_ctas"] = size
    part = tile.cdiv(length * itemsize, size * VECTOR_BYTES) * VECTOR_BYTES // itemsize
    head = tile.next_power_of_2(part) // 2
    last = length - (size - 1) * part
    if last < head:
        return {}
    return {"PART": part, "HEAD": head, "TAIL": tile.next_power_of_2(part - head), **config}


@tile.jit
def part_of(length, SIZE: tl.constexpr, PART: tl.constexpr, HEAD: tl.constexpr, TAIL: tl.constexpr):
    """Return the row of this program, the start of its part, and its elements.

    And the elements of both tiles, from that start, and which of the second one exist.
    """
    program = tl.program_id(0)
    row = (program // SIZE).to(tl.int64)
    start = program % SIZE * PART
    count = min(PART, length - start)
    second = HEAD + tl.arange(0, TAIL)
    return row, start, count, tl.arange(0, HEAD), second, second < count
