"""The two-second check that the whole thing stands: one kernel, compiled and run."""

from __future__ import annotations

import numpy as np

import tile
import tile.language as tl


@tile.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    total = tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, total, mask=mask)


def test_vector_add() -> None:
    random = np.random.default_rng(0)
    x, y = random.standard_normal((2, 98432)).astype(np.float32)
    out = np.full_like(x, np.nan)
    with tile.backend("interp"):
        add[lambda meta: (tile.cdiv(x.size, meta["BLOCK"]),)](x, y, out, x.size, BLOCK=1024)
    np.testing.assert_array_equal(out, x + y)
