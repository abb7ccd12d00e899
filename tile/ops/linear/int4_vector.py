"""Weights of 4 bits times one vector, without tensor cores; see int4_matmul.py.

    out[n] = sum over k of scale[n, k // group] * (q[n, k] - 8) * a[k]

Threads multiply the weights that they loaded where they are, and add up in registers: nothing goes
through shared memory but the sums at the end.
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.call import F32, Call, Operand
from tile.ops.core.call_plans import launch
from tile.ops.core.tables import ANY, Table
from tile.ops.linear.int4_weights import weights_of
from tile.ops.linear.splits import add_contiguous_splits, splits_of

# By K. ROWS: of weights, of a program. RESIDENT: programs that a multiprocessor runs at a time.
TABLE = Table({(ANY,): {"ROWS": 64, "RESIDENT": 8, "num_warps": 4}}, {})


@tile.jit
def int4_vector_kernel(
    a_ptr,
    packed_ptr,
    scale_ptr,
    out_ptr,
    N,
    K,
    span,
    WEIGHTS: tl.constexpr,
    ROWS: tl.constexpr,
):
    split = tl.program_id(1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    byte = tl.arange(0, WEIGHTS // 2)
    weights = packed_ptr + (row % N).to(tl.int64)[:, None] * (K // 2) + byte[None, :]
    scales = scale_ptr + (row % N).to(tl.int64) * (K // WEIGHTS)
    total = tl.zeros((ROWS, WEIGHTS // 2), dtype=tl.float32)
    for k in range(split * span, min(K, (split + 1) * span), WEIGHTS):
        scale = tl.load(scales + k // WEIGHTS)[:, None]
        low, high = weights_of(tl.load(weights + k // 2), None, a_ptr.dtype.element_ty)
        a_low = tl.load(a_ptr + k + byte).to(tl.float32)[None, :]
        a_high = tl.load(a_ptr + k + WEIGHTS // 2 + byte).to(tl.float32)[None, :]
        total += (low.to(tl.float32) * a_low + high.to(tl.float32) * a_high) * scale
    sums = tl.sum(total, axis=1)
    out = out_ptr + split.to(tl.int64) * N + row
    tl.store(out, sums.to(out_ptr.dtype.element_ty), mask=row < N)


def int4_vector(
    call: Call, a: Operand, packed: Operand, scales: Operand, result: Operand, splits: int | None
) -> None:
    """Write packed weights times `a`, 1 x K, to `result`."""
    k, n = a.shape[1], packed.shape[0]
    config = dict(TABLE.select(call.backend, k))
    programs, groups = tile.cdiv(n, config["ROWS"]), scales.shape[1]
    splits = splits_of(call, splits, tile.cdiv(programs, config.pop("RESIDENT")), groups)
    span = tile.cdiv(groups, splits) * (k // groups)
    parts = result if splits == 1 else call.new((splits, 1, n), F32)
    launch(int4_vector_kernel, (programs, splits))(
        *(a.value, packed.value, scales.value, parts.value, n, k, span),
        WEIGHTS=k // groups,
        **config,
    )
    if splits > 1:
        add_contiguous_splits(parts, result)
