"""A number that k integers of a tile are less than, found digit by digit.

From the highest digit of 8 bits on, the digits of those integers are counted that have the digits
of the k-th least one so far; the sums of the counts tell its next digit. Of equal elements, whose
digits do not tell them apart, the index is searched bit by bit.
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.selection.radix_rows import BINS, BITS


@tile.jit
def search(least, values, k, bits):
    """Return a number that k values are less than, or the k-th least one, and if it is the first.

    least: the k-th least one with its low `bits` bits 0.
    """
    bound, exact = least, False
    while bits > 0 and not exact:
        bits -= 1
        candidate = least + (tl.full((), 1, least.dtype) << bits)
        count = tl.sum((values < candidate).to(tl.int32), axis=0)
        least = tl.where(count < k, candidate, least)
        exact = count == k
        bound = tl.where(exact, candidate, least)
    return bound, exact


@tile.jit
def bound_of(keys, k, index_bits, NARROW: tl.constexpr):
    """Return a number that k keys are less than; indices of keys have `index_bits` bits."""
    INDEX: tl.constexpr = 16 if NARROW else 32
    bins = tl.arange(0, BINS)
    least, left, count = tl.full((), 0, tl.int32), k, 0
    for shift in tl.static_range(INDEX - BITS, -1, -BITS):
        high = (keys >> (INDEX + shift)).to(tl.int32)
        digit = high & (BINS - 1)
        if shift + BITS == INDEX:
            counts = tl.histogram(digit ^ (BINS // 2), BINS)
        else:
            counts = tl.histogram(digit, BINS, mask=(high >> BITS) == least)
        # The digit of the k-th least key, of those whose digits before are the same.
        next_digit = tl.sum((tl.cumsum(counts) < left).to(tl.int32))
        left -= tl.sum(tl.where(bins < next_digit, counts, 0))
        count = tl.sum(tl.where(bins == next_digit, counts, 0))
        least = (least << BITS) + next_digit
        if shift + BITS == INDEX:
            least -= BINS // 2
    bound = least.to(keys.dtype) << INDEX
    if count == left:  # and there are greater keys, so that this is not the greatest number
        bound += tl.full((), 1, keys.dtype) << INDEX
    else:  # the indices of equal elements decide
        bound, exact = search(bound, keys, k, index_bits)
        bound = tl.where(exact, bound, bound + 1)
    return bound
