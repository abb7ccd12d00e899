"""The keys that queries of attention see: up to their own position, within a window, or all."""

from __future__ import annotations

import tile
import tile.language as tl


@tile.jit
def is_seen(position, key, keys, window, CAUSAL: tl.constexpr, ANY_END: tl.constexpr = False):
    """Return which keys queries at `position` see; one of both is a row, the other a column.

    ANY_END: causal queries behind the last one, at `keys - 1`, may see keys that do not exist.
    """
    seen = key < keys
    if CAUSAL:
        seen = key <= position if ANY_END else seen & (key <= position)
    if window is not None:
        seen = seen & (key > position - window)
        if not CAUSAL:
            seen = seen & (key < position + window)
    return seen


@tile.jit
def seen_range(first, keys, window, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr):
    """Return the first key that a block of queries sees, and the end of these keys.

    first: the position of the first query of the block.
    """
    begin, end = 0, keys
    if CAUSAL:
        end = min(keys, first + BLOCK_M)
    elif window is not None:
        end = min(keys, first + BLOCK_M - 1 + window)
    if window is not None:
        begin = max(0, first - window + 1)
    return begin, end


@tile.jit
def seen_blocks(
    first,
    keys,
    window,
    CAUSAL: tl.constexpr,
    SEQUENCE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Return `begin`, `middle`, `whole` and `end` of the keys that a block of queries sees.

    From `middle` to `whole` are blocks of keys of which each query sees all. first: the position of
    the first query. SEQUENCE: it may be less than 0.
    """
    begin, end = seen_range(first, keys, window, CAUSAL, BLOCK_M)
    whole = keys
    if CAUSAL:
        whole = min(keys, first + 1)
    elif window is not None:
        whole = min(keys, first + window)
    if SEQUENCE:
        whole = max(whole, 0)
    whole = whole // BLOCK_N * BLOCK_N
    middle = 0
    if window is not None:
        begin = begin // BLOCK_N * BLOCK_N
        whole = max(whole, begin)
        middle = tl.cdiv(max(0, first + BLOCK_M - window), BLOCK_N) * BLOCK_N
        middle = min(max(middle, begin), whole)
    return begin, middle, whole, end
