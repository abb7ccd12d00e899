"""Attention of one query a head, as in decoding, with the keys split among programs.

    out = softmax(q @ k.T * scale) @ v        over the first lengths[b] keys of sequence b

Decoding reads all keys and values once, and computes little: the limit is memory, and one program a
head could not use all of it. Programs therefore each take a part of the keys (Flash-Decoding), and
write their maximum, their sum of powers, and their weighted values; a second kernel scales all
parts to the greatest maximum and adds them up, in a fixed order (decode_kernels.py).

With a table of pages (PagedAttention, arXiv:2309.06180) the keys of a sequence are in pages of
equal size anywhere in the arrays: key i is in page table[b, i // page size].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tile.errors import ArgumentValueError
from tile.ops.core.call import I32, Call
from tile.ops.core.call_plans import planned
from tile.ops.core.reference import Array
from tile.ops.sequence.attention import attention_reference
from tile.ops.sequence.decode_launches import launch_by_keys


@planned()
def decode_attention(
    q: Any,
    k: Any,
    v: Any,
    lengths: Any,
    scale: float | None = None,
    table: Any = None,
    *,
    out: Any = None,
) -> Any:
    """Return the attention of one query a head to the first keys of each sequence.

    q: batch x heads x size, contiguous; k and v: batch x key heads x keys x size, where heads is a
    multiple of key heads, with a contiguous last axis. lengths: int32, the number of keys of each
    sequence, 1 or more. scale: of the scores (None: size ** -0.5). table: int32, batch x most pages
    of a sequence, the pages that have its keys; then k and v are pages x key heads x page size x
    size.
    """
    call = Call("decode_attention")
    source = call.array("q", q, rank=3).contiguous()
    key, value = (
        call.array(name, array, dtypes=(source.dtype,), rank=4).last_contiguous()
        for name, array in (("k", k), ("v", v))
    )
    (batches, heads, size), (pages, key_heads, keys, _) = source.shape, key.shape
    shape = (batches if table is None else pages, key_heads, keys, size)
    if key.shape != shape or value.shape != shape or key_heads == 0 or heads % key_heads:
        raise ArgumentValueError(
            f"decode_attention: `q` has shape {source.shape}, `k` {key.shape} and `v` "
            f"{value.shape}; they must be batch x heads x size, and twice batch, or pages, x key "
            "heads x keys x size, where heads is a multiple of key heads"
        )
    page_size, table_row = keys, 0
    if table is not None:
        numbers = call.array("table", table, dtypes=(I32,), rank=2).last_contiguous()
        call.array("table", table, dtypes=(I32,), shape=(batches, numbers.shape[1]))
        numbers.within(0, pages)
        keys, table_row = page_size * numbers.shape[1], numbers.strides[0]
    counts = call.array("lengths", lengths, dtypes=(I32,), rank=1, shape=(batches,))
    counts.contiguous().within(1, keys + 1)
    scale = size**-0.5 if scale is None else call.number("scale", scale)
    result = call.output("out", out, source.shape, source.dtype).contiguous()
    if not result.size:
        return result.value
    launch_by_keys(
        *(call, (q, key, value), lengths, table, result.value, (batches, heads, key_heads, keys)),
        *(scale, (table_row, page_size)),
    )
    return result.value


def decode_attention_reference(
    q: Array,
    k: Array,
    v: Array,
    lengths: Array,
    scale: float | None = None,
    table: Array | None = None,
) -> Array:
    """Return the result in float64."""
    if table is not None:
        k, v = (np.concatenate(array[table.T], axis=2) for array in (k, v))
    rows = [
        attention_reference(
            q[i : i + 1, :, None], k[i : i + 1, :, :n], v[i : i + 1, :, :n], scale=scale
        )
        for i, n in enumerate(lengths)
    ]
    return np.concatenate(rows)[:, :, 0] if rows else np.zeros(q.shape)
