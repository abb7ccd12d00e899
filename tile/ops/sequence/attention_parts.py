"""Attention of few queries: programs share the keys, and a second kernel adds up their results.

    out = sum of 2^(l - L) o        L = log2(sum of 2^l)        over the parts of the keys

A part has the result o of its keys, and l, the logarithm of the sum of powers of their scores.
Otherwise a few programs would go over all keys one after the other, and most multiprocessors idle.
"""

from __future__ import annotations

import math
from typing import Any

import tile
import tile.language as tl
from tile.ops.core.call import Operand
from tile.ops.core.call_plans import launch
from tile.ops.core.new_arrays import Shape
from tile.ops.core.tables import Configuration

MULTIPROCESSORS = {"nvptx": 132}
SHARED_BYTES = 227 << 10  # of a multiprocessor
LEAST_KEYS = 512  # of a part: others take less time than its beginning and end, and adding up
KEYS_OF_QUERY = 8  # at least: 1024 queries of as many keys take 26.6 us in two parts, else 17.3
ROWS = 16  # of a program that adds up


def at_once(backend: str, shape: Shape, config: Configuration) -> int:
    """Return how many programs run at once: at most two on a multiprocessor, as their tiles fit.

    It is 0 for backends that run programs one after the other.

    shape: heads of all batches, queries, keys, size of a head and bytes of an element.
    """
    rows = config["BLOCK_M"] + 2 * config.get("num_stages", 1) * config["BLOCK_N"]
    fitting = SHARED_BYTES // (rows * tile.next_power_of_2(shape[3]) * shape[4])
    return MULTIPROCESSORS.get(backend, 0) * min(2, max(1, int(fitting)))


def parts_of(backend: str, programs: int, shape: Shape, config: Configuration) -> int:
    """Return into how many parts keys are split for so many programs without parts.

    That is one unless keys are many more than queries: each part writes and reads results of all.
    """
    _, queries, keys, *_ = shape
    if keys < KEYS_OF_QUERY * queries:
        return 1
    return max(1, min(at_once(backend, shape, config) // programs, keys // LEAST_KEYS))


def add_parts(
    values: Operand, logs: Operand, out: Any, log_sums: Any, parts: int, size: int
) -> None:
    """Write `out` and, unless None, `log_sums` from those of all parts; all are contiguous.

    values: parts x .. x size. logs: parts x ..
    """
    rows = math.prod(logs.shape) // parts
    launch(add_parts_kernel, (tile.cdiv(rows, ROWS),))(
        *(values.value, logs.value, out, log_sums, rows, parts, size),
        ROWS=ROWS,
        PARTS=tile.next_power_of_2(parts),
        HEAD=max(16, tile.next_power_of_2(size)),
    )


@tile.jit
def add_parts_kernel(
    values_ptr,
    logs_ptr,
    out_ptr,
    log_sums_ptr,
    rows,
    parts,
    size,
    ROWS: tl.constexpr,
    PARTS: tl.constexpr,
    HEAD: tl.constexpr,
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    part = tl.arange(0, PARTS)[:, None]
    exist = (part < parts) & (row < rows)[None, :]
    logs = tl.load(logs_ptr + (part * rows + row[None, :]), mask=exist, other=-float("inf"))
    highest = tl.max(logs, axis=0)
    origin = tl.where(highest == -float("inf"), 0.0, highest)
    log_sum = origin + tl.log2(tl.sum(tl.exp2(logs - origin[None, :]), axis=0))
    feature = tl.arange(0, HEAD)[None, :]
    inside = (row < rows)[:, None] & (feature < size)
    at = row.to(tl.int64)[:, None] * size + feature
    total = tl.zeros((ROWS, HEAD), values_ptr.dtype.element_ty)
    for number in range(parts):
        log = tl.load(logs_ptr + number * rows + row, mask=row < rows, other=0.0)
        weight = tl.exp2(log - tl.where(highest == -float("inf"), 0.0, log_sum))
        step = tl.cast(number, tl.int64) * rows * size
        total += tl.load(values_ptr + step + at, mask=inside, other=0.0) * weight[:, None]
    tl.store(out_ptr + at, total.to(out_ptr.dtype.element_ty), mask=inside)
    if log_sums_ptr is not None:
        tl.store(log_sums_ptr + row, log_sum, mask=row < rows)
