"""The gradients of keys and values of attention by descriptors: TMA copies blocks of queries.

As in attention_kv_gradient.py, a program has a block of keys. Together with those of queries, the
gradients take 10 dots of blocks instead of 14: each program adds to sums of dq, by TMA. In what
order, and so how they are rounded, differs from run to run.
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.batched_grid import place
from tile.ops.core.tables import ANY, Table
from tile.ops.sequence.descriptor_gradient_loop import accumulate_kv

_SQUARE = {"BLOCK_M": 64, "BLOCK_N": 64}
_FOUR = {"num_warps": 4, "num_stages": 2}
_ALONE = {**_SQUARE, **_FOUR, "warp_specialize": False}
_DELTA_LAST = {"DELTA_LAST": True}
# By the size of a head, and whether attention is causal. H200, float16, 4 x 32 x 4096, 2026-11-26,
# heads of 256 elements, 4 x 16 x 4096, 2026-11-29, and of 32 to 128, 2026-11-30
# (docs/notes/ops.md).
KEY_TILES = Table(
    {(ANY, ANY): {"BLOCK_M": 32, "BLOCK_N": 32}},
    {
        "nvptx": {
            (32, ANY): _ALONE,
            (64, ANY): {**_ALONE, "maxnreg": 168, **_DELTA_LAST},  # three on a multiprocessor
            (128, 0): _ALONE,
            (128, 1): {**_ALONE, **_DELTA_LAST},
            (ANY, ANY): {**_SQUARE, "warp_specialize": True, "num_warps": 8, "num_stages": 2},
        }
    },
)
# With sums of dq, by the size of a head and the number of keys, where that is faster. H200,
# float16, 4 x 32 x 4096 and as many of 1024 to 16384, 2026-11-30 (docs/notes/ops.md).
SUM_TILES = Table(
    {(ANY, ANY): {"BLOCK_M": 32, "BLOCK_N": 32, "tma": "reduce"}},
    {
        "nvptx": {
            (64, ANY): {},
            (128, 2047): {},
            (128, ANY): {
                "BLOCK_M": 64,
                "BLOCK_N": 128,
                "num_warps": 8,
                "num_stages": 2,
                "warp_specialize": True,
                "tma": "reduce",
            },
            (ANY, ANY): {},
        }
    },
)


def is_of_size(size: int) -> bool:
    """Return True if there are tiles for heads of this size.

    Heads of 32 elements take 1305 us, by pointers 1505 (H200, 4 x 16 x 4096, 2026-11-29); smaller
    ones are not measured, and tiles of larger ones exceed shared memory.
    """
    return 16 < size <= 256


@tile.jit
def descriptor_kv_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    dout_ptr,
    log_sum_ptr,
    delta_ptr,
    dq_ptr,
    dk_ptr,
    dv_ptr,
    batches,
    heads,
    key_heads,
    queries,
    keys,
    SCALE: tl.constexpr,
    LOG2_SCALE: tl.constexpr,
    SIZE: tl.constexpr,
    HEAD: tl.constexpr,
    GROUPED: tl.constexpr,
    CAUSAL: tl.constexpr,
    RAGGED: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BATCH_AXIS: tl.constexpr = 1,
    DELTA_LAST: tl.constexpr = False,
):
    rows = batches * heads * queries
    if RAGGED:
        shape, block = [batches, heads, queries, SIZE], [1, 1, BLOCK_M, HEAD]
        strides = [heads * queries * SIZE, queries * SIZE, SIZE, 1]
    else:  # no block crosses the end of a head: fewer indices, which take registers
        shape, block, strides = [rows, SIZE], [BLOCK_M, HEAD], [SIZE, 1]
    q_source = tl.make_tensor_descriptor(q_ptr, shape, strides, block)
    dout_source = tl.make_tensor_descriptor(dout_ptr, shape, strides, block)
    dq_sums = None
    if dq_ptr is not None:
        dq_sums = tl.make_tensor_descriptor(dq_ptr, shape, strides, block)
    # A block that crosses an end of a head has sums of another one, which are masked.
    log_sums = tl.make_tensor_descriptor(log_sum_ptr, [rows], [1], [BLOCK_M])
    deltas = tl.make_tensor_descriptor(delta_ptr, [rows], [1], [BLOCK_M])
    rank, number = place(BATCH_AXIS)
    batch, key_head = number // key_heads, number % key_heads
    first = rank * BLOCK_N
    key = first + tl.arange(0, BLOCK_N)
    base = number.to(tl.int64) * (keys * SIZE)
    feature = tl.arange(0, HEAD)[None, :]
    at = key[:, None] * SIZE + feature
    masked: tl.constexpr = RAGGED or SIZE < HEAD
    inside = (key < keys)[:, None] & (feature < SIZE) if masked else None
    zero = 0.0 if masked else None
    k = tl.load(k_ptr + base + at, mask=inside, other=zero)
    v = tl.load(v_ptr + base + at, mask=inside, other=zero)
    dk = tl.zeros((BLOCK_N, HEAD), tl.float32)
    dv = tl.zeros((BLOCK_N, HEAD), tl.float32)
    begin = 0
    if CAUSAL:
        begin = max(first - (keys - queries), 0) // BLOCK_M * BLOCK_M
    sources = q_source, dout_source, dq_sums, log_sums, deltas
    keys_of_block = begin, queries, keys, k, v, first
    options = LOG2_SCALE, HEAD, CAUSAL, RAGGED, BLOCK_M, BLOCK_N, DELTA_LAST
    if GROUPED:
        group = heads // key_heads
        for head in range(key_head * group, (key_head + 1) * group):
            row = (batch * heads + head) * queries
            dk, dv = accumulate_kv(*sources, batch, head, row, *keys_of_block, dk, dv, *options)
    else:
        row = number * queries
        dk, dv = accumulate_kv(*sources, batch, key_head, row, *keys_of_block, dk, dv, *options)
    dk = (dk * SCALE).to(dk_ptr.dtype.element_ty)
    dv = dv.to(dv_ptr.dtype.element_ty)
    if RAGGED:
        tl.store(dk_ptr + base + at, dk, mask=inside)
        tl.store(dv_ptr + base + at, dv, mask=inside)
    else:
        shape, block = [batches * key_heads * keys, SIZE], [BLOCK_N, HEAD]
        row = number * keys + first
        tl.make_tensor_descriptor(dk_ptr, shape, [SIZE, 1], block).store([row, 0], dk)
        tl.make_tensor_descriptor(dv_ptr, shape, [SIZE, 1], block).store([row, 0], dv)
