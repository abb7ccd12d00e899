"""Sound kernels that once were taken for faulty, or ended the run."""

from __future__ import annotations

import numpy as np

import tile
import tile.language as tl


@tile.jit
def gather_rows(x_ptr, at_ptr, out_ptr, N: tl.constexpr):
    place = tl.load(at_ptr + tl.arange(0, N))[:, None, None]
    alike = tl.zeros((1, 2, 1), tl.int32)
    x = tl.load(x_ptr + place + alike + tl.arange(0, 2)[None, None, :])
    row = tl.arange(0, N)[:, None, None] * 4 + tl.arange(0, 2)[None, :, None] * 2
    tl.store(out_ptr + row + tl.arange(0, 2)[None, None, :], x)
    tl.store(x_ptr + 100, 1.0, mask=tl.program_id(0) < 0)  # so that reads of x are recorded


def test_elements_that_several_lanes_read() -> None:
    x, at = np.arange(128, dtype=np.float32), np.array([9, 3, 0, 20], np.int32)
    out = np.zeros((4, 2, 2), np.float32)
    with tile.sanitize("all"):
        gather_rows[(1,)](x, at, out, N=4)
    wanted = np.broadcast_to(x[at[:, None] + np.arange(2)][:, None], out.shape)
    np.testing.assert_array_equal(out, wanted)


@tile.jit
def constant_pairs(x_ptr, out_ptr, N: tl.constexpr):
    x = tl.max_constancy(tl.load(x_ptr + tl.arange(0, N)), 2)
    tl.store(out_ptr + tl.arange(0, N), x)


def test_numbers_that_are_none_are_alike() -> None:
    x = np.array([np.nan, np.nan, 1.5, 1.5], np.float32)
    out = np.zeros_like(x)
    with tile.sanitize("all"):
        constant_pairs[(1,)](x, out, N=4)
    np.testing.assert_array_equal(out, x)


def test_a_broken_promise_of_floats_names_them() -> None:
    x = np.array([1.0, 2.5, 1.5, 1.5], np.float32)
    with tile.sanitize(collect=True) as report:
        constant_pairs[(1,)](x, np.zeros_like(x), N=4)
    assert "the value is 2.5, after 1.0 one element before it" in str(report)
