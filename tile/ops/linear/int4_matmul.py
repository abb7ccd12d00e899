"""Matrix multiplication by weights of 4 bits, which are converted in registers.

    w[n, k] = (q[n, k] - 8) * scale[n, k // group]        out = a @ w.T

With few rows of a, as in decoding, the limit is reading the weights: with 4 bits each they take a
quarter of the time of 16 (int4_weights.py has their form). They stay in registers (int4_rows.py).
With more rows, programs convert tiles of them (int4_tiles.py). With many, each weight would be
converted by many programs, so that a kernel of its own does it once (int4_expanded.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tile.errors import ArgumentValueError
from tile.ops.core.call import F32, Call
from tile.ops.core.call_plans import planned
from tile.ops.core.reference import Array
from tile.ops.linear.int4_expanded import matmul_by_expansion
from tile.ops.linear.int4_rows import int4_rows
from tile.ops.linear.int4_tile_sizes import runs_at_once
from tile.ops.linear.int4_tiles import int4_tiles
from tile.ops.linear.int4_weights import FLOATS, GROUPS, U8, by_groups
from tile.ops.linear.splits import check_splits

# Rows from which on weights are expanded first, by backend, for 16-bit types, and those for results
# whose tiles all run at once: 768 rows by 8192 x 8192 take 185 us in tiles and 178 expanded, 1024
# rows by 5120 x 5120 120 and 92, but by 4096 x 14336 187 and 219 (H200, float16, 2026-11-30).
EXPANDED_ROWS = {"nvptx": 769}
EXPANDED_AT_ONCE = 1025
# Rows of 16-bit types up to which weights stay in registers, by backend.
REGISTER_ROWS = {"nvptx": 16}


@planned()
def int4_matmul(
    a: Any, packed: Any, scales: Any, *, splits: int | None = None, out: Any = None
) -> Any:
    """Return the matmul of `a` and the transpose of packed weights, in the type of `a`.

    a: M x K, float16, bfloat16 or float32, with contiguous rows. packed, scales: results of
    `pack_int4`; packed may also be N x K / 2, contiguous, and other strides of its first two axes
    and of scales are slower. splits: as in `matmul`.
    """
    call = Call("int4_matmul")
    left = call.array("a", a, dtypes=FLOATS, rank=2)
    left.rows()
    m, k = left.shape
    weights = call.array("packed", packed, dtypes=(U8,))
    n = weights.shape[0]
    scaling = call.array("scales", scales, dtypes=(F32,), rank=2)
    groups = scaling.shape[1]
    group = k // max(1, groups)
    if scaling.shape[0] != n or groups * group != k or (k and group not in GROUPS):
        raise ArgumentValueError(
            f"int4_matmul: `scales` has shape {scaling.shape}; it must be {n} x K / group, where K "
            f"is {k} and group 32, 64, 128 or 256"
        )
    weights = by_groups(weights, k, groups)
    check_splits(call, splits)
    result = call.output("out", out, (m, n), left.dtype).contiguous()
    many = m >= EXPANDED_ROWS.get(call.backend, m + 1) and splits is None
    if many and m < EXPANDED_AT_ONCE:
        many = not runs_at_once(call.backend, m, n)
    if result.size and many and k and left.dtype != F32:
        matmul_by_expansion(call, left, weights, scaling, result)
    elif result.size and m <= REGISTER_ROWS.get(call.backend, 0) and k and left.dtype != F32:
        int4_rows(call, left, weights, scaling, result, splits)
    elif result.size:
        int4_tiles(call, left, weights, scaling, result, splits)
    return result.value


def int4_matmul_reference(a: Array, packed: Array, scales: Array) -> Array:
    """Return the result in float64."""
    n, k = packed.shape[0], a.shape[1]
    groups = packed.reshape(n, scales.shape[1], 1, k // 2 // max(1, scales.shape[1]))
    q = np.concatenate([groups & 15, groups >> 4], axis=2).reshape(n, k).astype(np.float64) - 8
    w = q * np.repeat(scales, k // max(1, scales.shape[1]), axis=1)
    result: Array = a @ w.T
    return result
