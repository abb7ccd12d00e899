"""Elements with their indices as integers in the order of the elements, for `sort` and `topk`.

The high half of an integer orders like the number, and the low half is the index, so that equal
elements stay in order. It has 32 bits for numbers and indices of 16, and 64 for others. The bits of
a nonnegative float order like integers; those of a negative one do with all but the sign flipped.
For a descending order the whole high half is flipped. NaN is the greatest.
"""

from __future__ import annotations

import numpy as np

import tile
import tile.language as tl
from tile.ops.core.call import BF16, F16, F32, I32
from tile.ops.core.reference import Array
from tile.ops.core.tables import ANY, Table

KEYS = (F16, BF16, F32, I32)  # types whose order 32 bits hold
# By the elements of a tile: 16 for each thread of long rows. Threads with 32 wait for instructions,
# which are too many for the caches and repeat in no loop. H200, float16 and float32, rows of 4096,
# 2026-11-29; others are not measured.
WARPS = Table(
    {(ANY,): {}},
    {
        "nvptx": {
            (512,): {"num_warps": 1},
            (1024,): {"num_warps": 2},
            (2048,): {"num_warps": 4},
            (4096,): {"num_warps": 8},
            (8192,): {"num_warps": 16},
            (ANY,): {"num_warps": 32},
        }
    },
)


@tile.jit
def order_bits(x):
    """Return signed integers in the order of `x`: zeros are equal, and all NaN the greatest."""
    if not x.dtype.is_floating():
        return x
    WIDTH: tl.constexpr = x.dtype.primitive_bitwidth
    GREATEST: tl.constexpr = (1 << (WIDTH - 1)) - 1
    kind: tl.constexpr = tl.int16 if WIDTH == 16 else tl.int32 if WIDTH == 32 else tl.int64
    bits = x.to(kind, bitcast=True)
    bits = tl.where(x == 0, 0, bits ^ ((bits >> (WIDTH - 1)) & GREATEST))
    return tl.where(x != x, GREATEST, bits)


@tile.jit
def greatest_key(WIDTH: tl.constexpr, NARROW: tl.constexpr):
    """Return the greatest key of elements of `WIDTH` bits."""
    element: tl.constexpr = (1 << (WIDTH - 1)) - 1
    return (element << 16) | 0xFFFF if NARROW else (element << 32) | 0xFFFFFFFF


@tile.jit
def sort_keys(x, index, inside, DESCENDING: tl.constexpr, NARROW: tl.constexpr):
    """Return keys that ascend in the order of `x`, then of `index`; outside, the greatest."""
    bits = order_bits(x).to(tl.int32)
    if DESCENDING:
        bits = ~bits
    key = (bits << 16) | index if NARROW else (bits.to(tl.int64) << 32) | index.to(tl.int64)
    return tl.where(inside, key, greatest_key(x.dtype.primitive_bitwidth, NARROW))


@tile.jit
def index_of(key, NARROW: tl.constexpr):
    """Return the index of a key."""
    return key & (0xFFFF if NARROW else 0xFFFFFFFF)


def order_of(x: Array, descending: bool) -> Array:
    """Return the indices of a stable sort of each row, NaN as the greatest, for references."""
    if x.dtype.kind == "i":
        return np.argsort(~x if descending else x, axis=-1, kind="stable")
    number = x.astype(np.float64)
    missing = np.isnan(number)
    number = np.where(missing, 0.0, number)
    result: Array = np.lexsort((-number, ~missing) if descending else (number, missing), axis=-1)
    return result
