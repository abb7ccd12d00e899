"""Rows of the gradients of norms that TMA copies to shared memory, some iterations early.

They take no registers then, and no instructions but those of one thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tile.ops.core.call import Call
from tile.ops.core.operand import Operand
from tile.ops.core.tables import ANY, Table
from tile.ops.rowwise.row_parts import VECTOR_BYTES

# STAGES of their buffers, and programs at most. By CENTERED, whether statistics are given, the
# length and the bytes of an element; an empty entry is for other rows. H200, 2026-11-30, us, by
# copies of threads and so: RMS norm of 8192 x 16384 210.5 and 197.9, of 8192 x 8192 102.4 and
# 100.5, of 4096 x 4096 29.7 and 28.7; layer norm of 4096 x 4096 30.6 and 29.3, of 8192 x 8192 107.6
# and 103.4; float32, 4096 x 8192, 110.2 and 107.3, 108.1 and 102.9. A cluster of SIZE programs
# shares rows that leave no registers to the sums of columns: float32, layer norm of 4096 x 16384
# 285 and 202, of 2048 x 32768 908 and 197, RMS norm 580 and 195; float16, layer norm of 4096 x
# 32768 1461 and 240, RMS norm 1034 and 200; given statistics, layer norm of 8192 x 16384 205 and
# 193. Four stages of 4096 x 16384 take 100 in place of 103, but with the forward pass in front 178
# in place of 172, whose programs leave less shared memory. 31 clusters of four are not resident at
# a time: 124 programs take 456, 120 240.
DESCRIBED = Table(
    {(ANY, ANY, ANY, ANY): {}},
    {
        "nvptx": {
            (ANY, ANY, 2048, ANY): {},
            (0, ANY, 4096, 2): {"STAGES": 3, "programs": 256},
            (0, 0, 8192, 2): {"STAGES": 3, "programs": 128},
            (0, ANY, 8192, 2): {},
            (0, ANY, 16384, 2): {"STAGES": 2, "programs": 132},
            (ANY, ANY, 4096, 2): {"STAGES": 3, "programs": 256},
            (ANY, 0, 8192, 2): {"STAGES": 3, "programs": 128},
            (ANY, ANY, 8192, 2): {},
            (ANY, 0, 16384, 2): {},
            (ANY, ANY, 16384, 2): {"STAGES": 3, "programs": 132, "SIZE": 2},
            (ANY, ANY, 4096, 4): {"STAGES": 2, "programs": 256},
            (ANY, ANY, 8192, 4): {"STAGES": 2, "programs": 128},
            (ANY, ANY, 16384, 4): {"STAGES": 2, "programs": 128, "SIZE": 2},
            (0, ANY, 32768, 2): {"STAGES": 2, "programs": 132, "SIZE": 2},
            (ANY, 0, 32768, 2): {"STAGES": 3, "programs": 120, "SIZE": 4},
            (ANY, ANY, 32768, 2): {"STAGES": 4, "programs": 120, "SIZE": 4},
            (ANY, ANY, 32768, 4): {"STAGES": 2, "programs": 120, "SIZE": 4},
            (ANY, ANY, ANY, ANY): {},
        }
    },
)


def described_rows(
    call: Call, x: Operand, dy: Operand, *, centered: bool, has_statistics: bool
) -> Mapping[str, Any]:
    """Return STAGES and programs for rows that TMA copies; {} for others."""
    key = int(centered), int(has_statistics), x.shape[-1], x.dtype.itemsize
    tiles = DESCRIBED.select(call.backend, *key)
    return tiles if tiles and call.describes(x, dy) else {}


# STAGES, SIZE and programs of clusters that share rows of other lengths, by the same numbers. H200,
# 2026-11-30, us, by one program a row and so: float32, layer norm of 4096 x 12288 332 and 149,
# given statistics 250 and 152, RMS norm 172 and 152; float16, layer norm of 4096 x 20480 1284 and
# 218, given statistics 1226 and 157; but of 8192 x 12288 201 and 214, 156 and 173.
SHARED = Table(
    {(ANY, ANY, ANY, ANY): {}},
    {
        "nvptx": {
            (ANY, ANY, 8192, ANY): {},
            (ANY, ANY, 16384, 2): {},
            (ANY, ANY, 16384, 4): {"STAGES": 2, "programs": 128, "SIZE": 2},
            (ANY, ANY, 32768, 2): {"STAGES": 2, "programs": 132, "SIZE": 2},
            (ANY, ANY, ANY, ANY): {},
        }
    },
)


def shared_rows(
    call: Call, x: Operand, dy: Operand, *, centered: bool, has_statistics: bool
) -> Mapping[str, Any]:
    """Return STAGES, SIZE and programs for rows that clusters share equally; {} for others."""
    length, itemsize = x.shape[-1], x.dtype.itemsize
    tiles = SHARED.select(call.backend, int(centered), int(has_statistics), length, itemsize)
    if not tiles or length * itemsize % (tiles["SIZE"] * VECTOR_BYTES) or not call.has_clusters():
        return {}
    return tiles
