"""Conversions that are too large for shared memory are done in parts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.simt.kernels import KERNELS, numbers
from tile.backends.interp.simulator.thread_kernel import run_threads
from tile.simt.layouts.blocked import blocked
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.memory.allocate_shared import shared_bytes
from tile.simt.memory.expose_shared import find_split
from tile.simt.pass_pipeline import lower
from tile.simt.target import GENERIC


def test_a_large_result_fits() -> None:
    """64 KiB of a dot, which the generic machine has not, go to rows for the store in parts."""
    large = replace(KERNELS["matmul_f32"], constants={"BM": 128, "BN": 128, "BK": 16})
    module = large.compile("interp").artifact.module.clone()
    lower(module, GENERIC, num_warps=8, num_stages=2)
    assert 0 < shared_bytes(module) <= GENERIC.shared_bytes
    m, n, k = 128, 128, 32
    a, b, c = numbers(m, k), numbers(k, n, seed=1), np.zeros((m, n), np.float32)
    sizes = [np.int32(size) for size in (m, n, k)]
    run_threads(module, GENERIC, 8, (1, 1, 1), [a, b, c, *sizes])
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)


def test_what_registers_do_not_share_is_not_cut() -> None:
    rows = blocked([64, 64], [1, 4], [2, 16], [4, 1])
    columns = blocked([64, 64], [1, 8], [4, 8], [4, 1])
    alone = LinearLayout.of({"register": [[1]], "lane": [[2], [4]], "warp": []}, [8])
    other = LinearLayout.of({"register": [[4]], "lane": [[1], [2]], "warp": []}, [8])
    assert find_split(alone, other) is None
    cut = find_split(rows, columns)
    assert cut is not None
    assert cut.half.rank() == rows.rank() - 1
