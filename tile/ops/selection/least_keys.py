"""Which keys of a tile are the `k` least ones, found digit by digit.

From the highest digit of 8 bits on, the digits of those elements are counted that have the digits
of the k-th least one so far; the sums of the counts tell its next digit. Of equal elements, whose
digits do not tell them apart, the first ones are taken.
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.selection.radix_rows import BINS, BITS


@tile.jit
def are_least(keys, k, WIDTH: tl.constexpr, NARROW: tl.constexpr):
    """Return a mask of the `k` least keys, of elements of `WIDTH` bits.

    Those of equal elements are in the order of their indices.
    """
    elements = (keys >> (16 if NARROW else 32)).to(tl.int32)
    bins = tl.arange(0, BINS)
    least, left, count = tl.full((), 0, tl.int32), k, 0
    for shift in tl.static_range(WIDTH - BITS, -1, -BITS):
        high = elements >> shift
        digit = high & (BINS - 1)
        if shift + BITS == WIDTH:
            counts = tl.histogram(digit ^ (BINS // 2), BINS)
        else:
            counts = tl.histogram(digit, BINS, mask=(high >> BITS) == least)
        # The digit of the k-th least key, of those whose digits before are the same.
        next_digit = tl.sum((tl.cumsum(counts) < left).to(tl.int32))
        left -= tl.sum(tl.where(bins < next_digit, counts, 0))
        count = tl.sum(tl.where(bins == next_digit, counts, 0))
        least = (least << BITS) + next_digit
        if shift + BITS == WIDTH:
            least -= BINS // 2
    selected = elements <= least
    if count > left:  # elements of the k-th least key are too many
        equal = elements == least
        rank = tl.cumsum(equal.to(tl.int32), axis=0)
        selected = selected & ((elements < least) | (rank <= left))
    return selected
