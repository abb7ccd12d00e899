"""Dropout without a stored mask: a seed reproduces the random numbers whenever they are needed.

    y[i] = x[i] / (1 - p) if u[i] > p else 0        u[i] uniform in [0, 1), from Philox

A random number is a function of the seed and of the element's index (Salmon et al., 2011), so
the same seed drops the same elements on every backend and in every run, and the gradient is the
dropout of dy by the same seed: nothing is kept between both passes. Four consecutive elements share
an evaluation of Philox, which gives four words.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.errors import ArgumentValueError
from tile.ops.core.autograd import differentiable
from tile.ops.core.call import Call
from tile.ops.core.call_plans import Varying, launch, planned
from tile.ops.core.device_functions import widen
from tile.ops.core.reference import Array

BLOCK = 1024  # elements of a program
INDEX_BITS = 31  # an element's index is an int32


@tile.jit
def dropout_kernel(
    x_ptr,
    y_ptr,
    n,
    seed: tl.uint64,
    SCALE: tl.constexpr,
    FIRST: tl.constexpr,
    COUNT: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Scale elements whose random word is one of COUNT from FIRST on, and drop the others."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = widen(tl.load(x_ptr + at, mask=at < n, other=0.0))
    four = tl.program_id(0) * (BLOCK // 4) + tl.arange(0, BLOCK // 4)
    u0, u1, u2, u3 = tl.randint4x(seed, four)
    drawn = tl.interleave(tl.interleave(u0, u2), tl.interleave(u1, u3))
    tl.store(y_ptr + at, tl.where(drawn - FIRST < COUNT, x * SCALE, 0.0), mask=at < n)


def words_above(p: float) -> tuple[int, int]:
    """Return the first of the random words whose number (`uniform`) is above p, and their count.

    Numbers grow with the words up to the middle, from where they shrink as they grew.
    """
    low, high = 0, 2**31
    while low < high:
        middle = (low + high) // 2
        above = uniform(np.array([middle], np.uint32))[0] > np.float32(p)
        low, high = (low, middle) if above else (middle + 1, high)
    return low, 2**32 - 2 * low


def is_seed(seed: Any) -> bool:
    """Return True for an integer from 0 to 2 ** 64 - 1."""
    return type(seed) is int and 0 <= seed < 2**64


def _gradients(step: Any) -> dict[str, Any]:
    return {"x": dropout(step.grads[0], **step.options("p", "seed"))}


@differentiable(_gradients)
@planned(seed=is_seed)
def dropout(x: Any, p: float, seed: int, *, out: Any = None) -> Any:
    """Return `x` with elements dropped with probability `p`, and the others divided by 1 - p.

    x: contiguous. p: 0 or more, below 1. seed: an integer from 0 to 2 ** 64 - 1. The gradient is
    `dropout(dy, p, seed)`.
    """
    call = Call("dropout")
    source = call.array("x", x).contiguous()
    p = call.number("p", p, low=0, high=np.nextafter(1.0, 0.0))
    if not is_seed(seed):
        raise ArgumentValueError(f"dropout: `seed` is {seed!r}; it is an integer of 64 bits")
    if source.size >= 2**INDEX_BITS:
        raise ArgumentValueError(
            f"dropout: `x` has {source.size} elements; at most 2 ** {INDEX_BITS} - 1 have an index"
        )
    result = call.output("out", out, source.shape, source.dtype, in_place=("x",)).contiguous()
    if result.size:
        first, count = words_above(p)
        launch(dropout_kernel, (tile.cdiv(result.size, BLOCK),))(
            *(x, result.value, result.size, Varying("seed", seed, int)),
            SCALE=1.0 / (1.0 - p),
            FIRST=first,
            COUNT=count,
            BLOCK=BLOCK,
        )
    return result.value


def philox(seed: int, counter: Array) -> Array:
    """Return the four words of Philox 4x32-10 at (counter, 0, 0, 0), along a new last axis."""
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    c0 = counter.astype(np.uint64) & mask
    c1, c2, c3 = (np.zeros_like(c0) for _ in range(3))
    key0, key1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        first, second = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c2 = (
            (second >> half) ^ c1 ^ np.uint64(key0),
            (first >> half) ^ c3 ^ np.uint64(key1),
        )
        c1, c3 = second & mask, first & mask
        key0, key1 = (key0 + 0x9E3779B9) & 0xFFFFFFFF, (key1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3], axis=-1).astype(np.uint32)


def uniform(words: Array) -> Array:
    """Return random words as float32 numbers in [0, 1), as `tl.rand` makes them."""
    signed = words.view(np.int32)
    return np.where(signed < 0, ~signed, signed).astype(np.float32) * np.float32(4.6566127342e-10)


def dropout_reference(x: Array, p: float, seed: int) -> Array:
    """Return the result in float64, of the same random numbers."""
    words = philox(seed, np.arange(-(-x.size // 4))).reshape(-1)
    drawn = uniform(words[: x.size]).reshape(x.shape)
    result: Array = np.where(drawn > np.float32(p), x / (1 - p), 0.0)
    return result
