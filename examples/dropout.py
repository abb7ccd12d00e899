"""Dropout without a stored mask: a seed reproduces the random numbers whenever they are needed.

python examples/dropout.py --elements 1000000 --p 0.3

Random numbers are a function of a seed and a counter (Philox), here the index of the element. The
backward pass therefore recomputes the mask instead of reading it from memory.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from report import Report, positive

import tile
import tile.language as tl


@tile.jit
def dropout_kernel(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    keep = tl.rand(seed, offsets) > p
    # The remaining elements are scaled up, so that the sum stays about the same.
    tl.store(out_ptr + offsets, tl.where(keep, x / (1 - p), 0.0), mask=inside)


def dropout(x: np.ndarray, p: float, seed: int) -> np.ndarray:
    """Return `x` with elements set to 0 with probability `p`, and the others divided by 1 - p."""
    out = np.empty_like(x)
    dropout_kernel[(tile.cdiv(x.size, 1024),)](x, out, x.size, p, seed, BLOCK=1024)
    return out


def philox(seed: int, counter: np.ndarray) -> np.ndarray:
    """Return the first of the four words of Philox 4x32-10 at (counter, 0, 0, 0), in NumPy."""
    low_word = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    c0 = counter.astype(np.uint64) & low_word
    c1, c2, c3 = (np.zeros_like(c0) for _ in range(3))
    key0, key1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        # The product of two 32-bit words has 64 bits: a high and a low word.
        product0, product1 = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c2 = (
            (product1 >> half) ^ c1 ^ np.uint64(key0),
            (product0 >> half) ^ c3 ^ np.uint64(key1),
        )
        c1, c3 = product1 & low_word, product0 & low_word
        key0, key1 = (key0 + 0x9E3779B9) & 0xFFFFFFFF, (key1 + 0xBB67AE85) & 0xFFFFFFFF
    return c0.astype(np.uint32)


def uniform(words: np.ndarray) -> np.ndarray:
    """Convert random words to float32 numbers from 0 to 1, as `tl.rand` does."""
    signed = words.view(np.int32)
    folded = np.where(signed < 0, ~signed, signed)  # -1 - x, which is 0 or more
    return folded.astype(np.float32) * np.float32(4.6566127342e-10)


def within_chance(share: float, probability: float, n: int) -> bool:
    """Return True if an observed share of `n` is within 5 standard deviations of the expected."""
    return abs(share - probability) <= 5 * (probability * (1 - probability) / n) ** 0.5


def main() -> int:
    parser = argparse.ArgumentParser(description="dropout of random numbers")
    parser.add_argument("--elements", type=positive, default=1_000_000)
    parser.add_argument("--p", type=float, default=0.3, help="the share that is dropped")
    parser.add_argument("--seed", type=positive, default=123)
    options = parser.parse_args()
    n, p, seed = options.elements, options.p, options.seed
    x = np.random.default_rng(0).standard_normal(n, dtype=np.float32)
    x[x == 0] = 1  # a 0 in the result is then a dropped element
    above = uniform(philox(seed, np.arange(n))) > np.float32(p)
    expected = np.where(above, x.astype(np.float64) / (1 - p), 0.0)

    report = Report(f"dropout of {n} float32 numbers with probability {p}")
    # The quotient is rounded; one element with a wrong mask would have a large error.
    allowed = 4 * float(np.finfo(np.float32).eps * np.abs(expected).max())
    results = report.measure(
        "dropout", lambda: {"out": dropout(x, p, seed)}, {"out": expected}, allowed
    )
    print()
    keep = results["out"] != 0
    share = np.mean(keep)
    report.require(within_chance(share, 1 - p, n), f"{share:.4f} are kept; expected {1 - p:.4f}")
    again = dropout(np.ones_like(x), p, seed) != 0
    report.require(np.array_equal(again, keep), "the same seed drops the same of another array")
    agreeing, chance = np.mean((dropout(x, p, seed + 1) != 0) == keep), p**2 + (1 - p) ** 2
    report.require(
        within_chance(agreeing, chance, n),
        f"another seed agrees on {agreeing:.4f} of them; by chance {chance:.4f}",
    )
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
