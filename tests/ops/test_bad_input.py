"""A call that an op cannot take raises an error that names the argument, and writes nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tile.ops
from tests.runtime.fake_cuda import CudaArray
from tile.errors import ArgumentError

F32 = np.float32


def ones(*shape: int, dtype: Any = F32) -> np.ndarray:
    return np.ones(shape, dtype)


def read_only(*shape: int) -> np.ndarray:
    array = ones(*shape)
    array.flags.writeable = False
    return array


Wrong = tuple[str, Callable[[np.ndarray], object], str]

# The op, a call with an array for its output (full of sevens), and the error.
ROWWISE: list[Wrong] = [
    ("softmax", lambda out: tile.ops.softmax([1.0], out=out), "`x` of softmax is of type list"),
    ("softmax", lambda out: tile.ops.softmax(3, out=out), "softmax: `x` is 3; it is an array"),
    (
        "softmax",
        lambda out: tile.ops.softmax(ones(4, 8, dtype=np.int32), out=out),
        "softmax: `x` has dtype int32; it takes float16, bfloat16, float32 or float64",
    ),
    (
        "softmax",
        lambda out: tile.ops.softmax(ones(4, 9), out=out),
        "softmax: `out` has shape (4, 8); it must be (4, 9)",
    ),
    (
        "softmax",
        lambda out: tile.ops.softmax(ones(4, 8, dtype=np.float16), out=out),
        "softmax: `out` has dtype float32; it takes float16",
    ),
    (
        "softmax",
        lambda out: tile.ops.softmax(ones(8, 4).T, out=out),
        "`x` has shape (4, 8) and strides (1, 4) in elements; its last axis must be contiguous",
    ),
    (
        "softmax",
        lambda out: tile.ops.softmax(ones()),
        "`x` has shape (); it must have 1 axis or more",
    ),
    (
        "softmax",
        lambda out: tile.ops.softmax(ones(4, 8), out=read_only(4, 8)),
        "softmax: `out` is read-only",
    ),
    (
        "softmax",
        lambda out: tile.ops.softmax(CudaArray(ones(4, 8)), out=out),
        "softmax: `out` is in host memory, and `x` in cuda; the arrays of a call are on one device",
    ),
    (
        "softmax_backward",
        lambda out: tile.ops.softmax_backward(ones(4, 8), ones(4, 7), out=out),
        "softmax_backward: `y` has shape (4, 7); it must be (4, 8)",
    ),
]
CALLS = [*ROWWISE]


@pytest.mark.parametrize(("op", "call", "message"), CALLS)
def test_bad_input(op: str, call: Callable[[np.ndarray], object], message: str) -> None:
    out = np.full((4, 8), 7, F32)
    with pytest.raises(ArgumentError, match=re.escape(message)):
        call(out)
    assert (out == 7).all()


def test_a_library_without_empty() -> None:
    with pytest.raises(ArgumentError, match=r"softmax: tests has no `empty\(shape, dtype\)`"):
        tile.ops.softmax(CudaArray(ones(4, 8)))
