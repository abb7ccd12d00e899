"""The kernels of attention of one query a head: of a part of the keys, and of the sum of all parts.

    m = max s        w = sum 2^(s - m)        o = sum 2^(s - m) v        over the keys of a part
    out = sum of 2^(m - M) o / sum of 2^(m - M) w                        over the parts, M = max m

The query heads that share a head of keys are rows of one tile, so keys are read once for all of
them.
"""

from __future__ import annotations

import tile
import tile.language as tl


@tile.jit
def decode_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    lengths_ptr,
    table_ptr,
    out_ptr,
    highest_ptr,
    weights_ptr,
    k_strides,
    v_strides,
    table_row,
    page_size,
    key_heads,
    group,
    keys,
    span,
    size,
    SCALE: tl.constexpr,
    SUMS: tl.constexpr,
    BLOCK_G: tl.constexpr,
    BLOCK_N: tl.constexpr,
    HEAD: tl.constexpr,
):
    """Write the sums of a part to `out_ptr`; without `highest_ptr`, all keys are one part."""
    batch = (tl.program_id(0) // key_heads).to(tl.int64)
    key_head = (tl.program_id(0) % key_heads).to(tl.int64)
    part = tl.program_id(1)
    feature = tl.arange(0, HEAD)[None, :]
    member = tl.arange(0, BLOCK_G)
    head = tl.program_id(0).to(tl.int64) * group + member
    mine = member < group
    q = tl.load(
        q_ptr + head[:, None] * size + feature, mask=mine[:, None] & (feature < size), other=0.0
    )
    k_ptr += key_head * k_strides[1]
    v_ptr += key_head * v_strides[1]
    if table_ptr is None:
        k_ptr += batch * k_strides[0]
        v_ptr += batch * v_strides[0]
    within = tl.arange(0, BLOCK_N)[:, None]
    k_tile = k_ptr + (within * k_strides[2] + feature)
    v_tile = v_ptr + (within * v_strides[2] + feature)
    highest = tl.full((BLOCK_G,), -float("inf"), dtype=SUMS)
    weights = tl.zeros((BLOCK_G,), dtype=SUMS)
    total = tl.zeros((BLOCK_G, HEAD), dtype=SUMS)
    length = keys
    if lengths_ptr is not None:
        length = tl.load(lengths_ptr + batch)
        tl.device_assert((length >= 1) & (length <= keys), "lengths are numbers of keys")
    end = min(length, (part + 1) * span)
    for start in range(part * span, end, BLOCK_N):
        key = start + tl.arange(0, BLOCK_N)
        inside = (key < end)[:, None] & (feature < size)
        if table_ptr is None:
            first = tl.cast(start, tl.int64)
            k_at, v_at = k_tile + first * k_strides[2], v_tile + first * v_strides[2]
        else:
            number = table_ptr + batch * table_row + key // page_size
            page = tl.load(number, mask=key < end, other=0).to(tl.int64)[:, None]
            row = (key % page_size)[:, None]
            k_at = k_ptr + (page * k_strides[0] + row * k_strides[2] + feature)
            v_at = v_ptr + (page * v_strides[0] + row * v_strides[2] + feature)
        k = tl.load(k_at, mask=inside, other=0.0)
        scores = tl.dot(q, tl.trans(k), out_dtype=SUMS) * SCALE
        scores = tl.where((key < end)[None, :], scores, -float("inf"))
        higher = tl.maximum(highest, tl.max(scores, axis=1))
        shrink = tl.exp2(highest - higher)
        powers = tl.exp2(scores - higher[:, None])
        weights = weights * shrink + tl.sum(powers, axis=1)
        v = tl.load(v_at, mask=inside, other=0.0)
        total = tl.dot(powers.to(v.dtype), v, total * shrink[:, None], out_dtype=SUMS)
        highest = higher
    at = head * tl.num_programs(1) + part
    if highest_ptr is None:
        total *= (1.0 / weights)[:, None]
    else:
        tl.store(highest_ptr + at, highest, mask=mine)
        tl.store(weights_ptr + at, weights, mask=mine)
    out = out_ptr + at[:, None] * size + feature
    tl.store(out, total.to(out_ptr.dtype.element_ty), mask=mine[:, None] & (feature < size))


@tile.jit
def add_parts_kernel(
    parts_ptr,
    highest_ptr,
    weights_ptr,
    out_ptr,
    parts,
    size,
    PARTS: tl.constexpr,
    HEAD: tl.constexpr,
):
    head = tl.program_id(0).to(tl.int64)
    part = tl.arange(0, PARTS)
    feature = tl.arange(0, HEAD)
    at = head * parts + part
    highest = tl.load(highest_ptr + at, mask=part < parts, other=-float("inf"))
    weights = tl.load(weights_ptr + at, mask=part < parts, other=0.0)
    # Parts past the end of a sequence have -inf, so that they count 0; no sequence is empty.
    shrink = tl.exp2(highest - tl.max(highest, axis=0))
    inside = (part < parts)[:, None] & (feature < size)[None, :]
    values = tl.load(parts_ptr + at[:, None] * size + feature[None, :], mask=inside, other=0.0)
    total = tl.sum(values * shrink[:, None], axis=0) / tl.sum(weights * shrink, axis=0)
    tl.store(out_ptr + head * size + feature, total, mask=feature < size)
