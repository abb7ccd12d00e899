"""Division by a number that all programs share: a multiplication, and a shift.

    n // d = n * ceil(2 ^ (31 + s) / d) // 2 ^ (31 + s)        s = ceil(log2(d)); 0 <= n < 2 ^ 31

GPUs have no instruction that divides integers: `n // d` takes some twenty. The multiplier, which is
below 2 ^ 32, is computed at the launch (Granlund and Montgomery, PLDI 1994).
"""

from __future__ import annotations

import tile
import tile.language as tl


def divisor(number: int) -> int:
    """Return the multiplier and, above its 32 bits, the shift that divide by `number`, 1 or more.

    They are one integer, as fast launches take tuples of integers, but no tuples of tuples.
    """
    shift = (number - 1).bit_length()
    return -(-(1 << (31 + shift)) // number) | shift << 32


@tile.jit
def quotient(n, by):
    """Return n // number for int32 n of 0 or more, where `by` is `divisor(number)`."""
    multiplier, shift = tl.cast(by, tl.uint32), tl.cast(by >> 32, tl.uint32)
    return (tl.umulhi(n.to(tl.uint32) * 2, multiplier) >> shift).to(tl.int32)
