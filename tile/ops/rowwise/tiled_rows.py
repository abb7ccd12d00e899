"""Rows of the gradients of norms as several tiles, if their length is no power of two.

As one tile of 8192 elements, rows of 5120 would leave three eighths of a program's instructions and
registers to elements that do not exist; five tiles of 1024 leave none.
"""

from __future__ import annotations

from typing import Any

import tile
from tile.ops.core.call import Call
from tile.ops.core.operand import Operand
from tile.ops.core.tables import ANY, Table
from tile.ops.rowwise.row_parts import VECTOR_BYTES

# Longer rows have no registers for what cannot be copied to shared memory: layer norm of 4096 x
# 16001, float16, takes 454 us by four tiles, by one 319; of 10001 164 and 264 (H200, 2026-11-30).
COPIED = 14336
MASKED = 8193  # elements of rows at least whose last tile may lack some


def _tiles(
    count: int,
    num_warps: int,
    programs: int,
    *,
    shared: bool = False,
    tma: bool = False,
    sampled: bool = False,
) -> dict[str, Any]:
    """Return an entry: rows of so many tiles, shared by so many programs at most.

    shared: multiprocessors, by programs of 128 registers a thread. tma: it copies rows, one stage
    more. sampled: sums are of distances to the mean of a sample (row_sums.py).
    """
    options = {"maxnreg": 128} if shared else {}
    kind = {"STAGES": 3 if tma else 2, "DESCRIBED": tma, "SAMPLED": sampled}
    return {"TILES": count, "num_warps": num_warps, "programs": programs, **kind, **options}


# By CENTERED, whether statistics are given, the length and the bytes of an element; an empty entry
# is for rows of one tile. H200, 2026-11-30, us, 8192 rows, before and so, layer norm; RMS norm:
# bfloat16, of 1536 29.4 and 26.1; 25.6 and 23.8, of 2560 44.1 and 37.2; 40.9 and 34.7, of 3072 47.8
# and 42.7; 45.9 and 39.7, of 5120 101 and 67.3; 77.0 and 63.6, of 6144 102 and 81.1; 87 and 78, of
# 10240 198 and 128; 147 and 125, of 14336 204 and 174, of 16384 220 and 206; float16, of 12288 203
# and 149; 163 and 153, of 16384 213 and 206. Float32, 4096 rows: of 3072 43.2 and 40.7; 40.1 and
# 39.4, of 5120 67.2 and 64.0; 64.5 and 63.8, of 6144 79.9 and 76.6; 76.9 and 75.6. Layer norm given
# statistics, bfloat16, by the entries of those that compute them, and so: 3072 46.2 and 41.9, 5120
# 75.6 and 65.4, 6144 78.6 and 76.8, float16, 4096 x 8192 by one tile and four stages 53.0, with the
# forward pass 93, so 53.5 and 89.8. They are the best behind the forward pass: 3072 by four warps
# and 256 programs takes 40.6 after another gradient, but 54 there, as multiprocessors that are free
# early run three of them.
TILED = Table(
    {(ANY, ANY, ANY, ANY): {}},
    {
        "nvptx": {
            (ANY, ANY, 1024, ANY): {},
            (0, ANY, 1536, 2): _tiles(3, 4, 512, shared=True, tma=True),
            (ANY, 0, 1536, 2): _tiles(3, 4, 512, shared=True, sampled=True),
            (ANY, ANY, 1536, 2): _tiles(3, 4, 512, shared=True, tma=True),
            (ANY, ANY, 2048, ANY): {},
            (0, ANY, 2560, 2): _tiles(5, 4, 512, shared=True),
            (ANY, 0, 2560, 2): _tiles(5, 2, 512, tma=True, sampled=True),
            (ANY, ANY, 2560, 2): _tiles(5, 4, 512, shared=True, tma=True),
            (ANY, ANY, 2560, ANY): {},
            (0, ANY, 3072, 2): _tiles(3, 4, 256, tma=True),
            (ANY, 0, 3072, 2): _tiles(3, 4, 384, tma=True, sampled=True),
            (ANY, ANY, 3072, 2): _tiles(3, 8, 264, shared=True, tma=True),
            (ANY, ANY, 3072, 4): _tiles(3, 8, 256, shared=True),
            (ANY, ANY, 4096, ANY): {},
            (0, ANY, 5120, 2): _tiles(5, 8, 256, shared=True),
            (ANY, 0, 5120, 2): _tiles(5, 4, 256, tma=True, sampled=True),
            (ANY, ANY, 5120, 2): _tiles(5, 8, 256, shared=True, tma=True),
            (ANY, ANY, 5120, 4): _tiles(5, 16, 128),
            (0, ANY, 6144, 2): _tiles(3, 8, 256, shared=True, tma=True),
            (ANY, 0, 6144, 2): _tiles(3, 8, 256, shared=True, tma=True, sampled=True),
            (ANY, ANY, 6144, 2): _tiles(3, 4, 256),
            (ANY, ANY, 6144, 4): _tiles(3, 16, 128),
            (0, ANY, 8192, ANY): {},
            (ANY, 0, 8192, ANY): {},
            (ANY, ANY, 8192, 2): _tiles(2, 8, 132, tma=True),
            (ANY, ANY, 8192, ANY): {},
            (0, ANY, 10240, 2): _tiles(5, 16, 128),
            (ANY, ANY, 10240, 2): _tiles(5, 8, 128, sampled=True),
            (ANY, ANY, 12288, 2): _tiles(3, 16, 128, sampled=True),
            (0, ANY, 16384, 2): {},
            (ANY, ANY, 14336, 2): _tiles(7, 16, 128, sampled=True),
            (ANY, ANY, 16384, 2): _tiles(4, 16, 128),
            (ANY, ANY, ANY, ANY): {},
        }
    },
)


def tiled_rows(
    call: Call, x: Operand, dy: Operand, *, centered: bool, has_statistics: bool
) -> dict[str, Any]:
    """Return the constants and options of programs for rows of several tiles; {} for others."""
    length = x.shape[-1]
    key = int(centered), int(has_statistics), length, x.dtype.itemsize
    config = dict(TILED.select(call.backend, *key))
    if not config:
        return {}
    block = tile.next_power_of_2(tile.cdiv(length, config["TILES"]))
    missing = config["TILES"] * block - length
    if missing >= block or (missing and (length < MASKED or config["DESCRIBED"])):
        return {}
    numbers = length, x.rows().stride, dy.rows().stride
    if length > COPIED and any(number * x.dtype.itemsize % VECTOR_BYTES for number in numbers):
        return {}
    if config["DESCRIBED"] and not call.describes(x, dy):
        return {}
    return {"ROWS": 1, "BLOCK": block, **config}
