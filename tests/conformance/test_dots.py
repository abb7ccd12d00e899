"""Dots with several batch axes, and the errors of f32 operands as sums of terms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile.language as tl
from tests.conformance.running import Device
from tests.frontend.building import module_of, refusal
from tile.ir import semantics
from tile.ir.types import BF16, F8E4M3, F16, F32, F64, I8, I32, Pointer, Scalar
from tile.language.base.compile_options import default_dot_input_precision

B, C, M, K, N = (tl.constexpr(n) for n in (2, 4, 16, 32, 16))


def batched(x, y, z, out):
    b, c = tl.arange(0, B)[:, None, None, None], tl.arange(0, C)[None, :, None, None]
    m, n = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    row, column = tl.arange(0, K)[:, None], tl.arange(0, K)[None, :]
    matrix = b * C + c
    a = tl.load(x + matrix * (M * K) + m * K + column)
    right = tl.load(y + matrix * (K * N) + row * N + n)
    acc = tl.load(z + matrix * (M * N) + m * N + n)
    for _ in range(2):
        acc = tl.dot(a, right, acc)
    tl.store(out + matrix * (M * N) + m * N + n, acc)


@pytest.mark.parametrize(
    ("element", "accumulator"),
    [(F16, F32), (BF16, F32), (F32, F32), (F64, F64), (I8, I32)],
    ids=str,
)
def test_two_batch_axes(device: Device, element: Scalar, accumulator: Scalar) -> None:
    rng = np.random.default_rng(0)

    def numbers(ty: Scalar, *shape: int) -> Any:
        return rng.integers(-4, 5, (2, 4, *shape)).astype(semantics.numpy_dtype(ty))

    a, b, c = numbers(element, 16, 32), numbers(element, 32, 16), numbers(accumulator, 16, 16)
    out = np.zeros_like(c)
    module = module_of(batched, *[Pointer(element)] * 2, *[Pointer(accumulator)] * 2)
    device.run(module, (1, 1, 1), [x.reshape(-1) for x in (a, b, c, out)])
    wanted = 2 * (a.astype(np.float64) @ b.astype(np.float64)) + c.astype(np.float64)
    np.testing.assert_array_equal(out.astype(np.float64), wanted)


# The errors of dots of f32 in terms, of the sum of magnitudes: what is left out, and sums of f32.
BOUNDS = {"tf32": -9, "tf32x3": -20, "bf16x3": -14, "bf16x6": -20, "ieee": -20}


@pytest.mark.parametrize("by_default", [False, True], ids=["stated", "default"])
@pytest.mark.parametrize("precision", BOUNDS)
def test_the_error_of_terms(device: Device, precision: str, by_default: bool) -> None:
    depth, name = tl.constexpr(64), tl.constexpr(None if by_default else precision)

    def product(x, y, out):
        m, n, k = tl.arange(0, 16), tl.arange(0, 16), tl.arange(0, depth)
        a = tl.load(x + m[:, None] * depth + k[None, :])
        b = tl.load(y + k[:, None] * 16 + n[None, :])
        tl.store(out + m[:, None] * 16 + n[None, :], tl.dot(a, b, input_precision=name))

    rng = np.random.default_rng(1)
    a, b = (
        (rng.standard_normal(shape) * np.exp2(rng.integers(-8, 9, shape))).astype(np.float32)
        for shape in ((16, 64), (64, 16))
    )
    a[3, 5] = np.inf
    a[4, 6] = np.nan
    out = np.zeros((16, 16), np.float32)
    with default_dot_input_precision.scope(precision):
        module = module_of(product, *[Pointer(F32)] * 3)
    device.run(
        module,
        (1, 1, 1),
        [a.reshape(-1), b.reshape(-1), out.reshape(-1)],
    )
    x, y = a.astype(np.float64), b.astype(np.float64)
    assert np.array_equal(out[3], np.inf * np.sign(b[5]))
    assert np.isnan(out[4]).all()
    rows = np.isfinite(a).all(1)
    errors = np.abs(out[rows] - x[rows] @ y) / (np.abs(x[rows]) @ np.abs(y))
    assert errors.max() < 2.0 ** BOUNDS[precision]


@pytest.mark.parametrize("precision", ["tf32", "tf32x3", "bf16x6", "ieee"])
@pytest.mark.parametrize(
    ("left", "right"), [(F16, F16), (BF16, BF16), (F8E4M3, BF16), (F16, I8), (F16, BF16)], ids=str
)
def test_widened_operands(device: Device, left: Scalar, right: Scalar, precision: str) -> None:
    """Narrow numbers are multiplied exactly, whatever the precision of f32 operands."""
    name = tl.constexpr(precision)

    def product(x, y, out):
        m, n, k = tl.arange(0, 64), tl.arange(0, 16), tl.arange(0, 32)
        a = tl.load(x + m[:, None] * 32 + k[None, :]).to(tl.float32)
        b = tl.load(y + n[:, None] * 32 + k[None, :]).to(tl.float32)
        acc = tl.zeros((64, 16), tl.float32)
        for _ in range(2):
            acc = tl.dot(a, b.T, acc, input_precision=name)
        tl.store(out + m[:, None] * 16 + n[None, :], acc)

    rng = np.random.default_rng(2)
    a, b = (
        (rng.standard_normal(shape) * 16).astype(semantics.numpy_dtype(ty))
        for shape, ty in (((64, 32), left), ((16, 32), right))
    )
    out = np.zeros((64, 16), np.float32)
    module = module_of(product, Pointer(left), Pointer(right), Pointer(F32))
    device.run(module, (1, 1, 1), [a.reshape(-1), b.reshape(-1), out.reshape(-1)])
    x, y = a.astype(np.float64), b.astype(np.float64).T
    errors = np.abs(out - 2 * (x @ y)) / (2 * np.abs(x) @ np.abs(y))
    # Where a 16-bit type has all numbers of both operands, they are not split into terms.
    assert errors.max() < 2.0**-20


def test_batches_that_are_refused() -> None:
    def kernel(x):
        a = tl.zeros((2, 2, 16, 16), tl.float16)
        tl.store(x, tl.sum(tl.dot(a, tl.zeros((2, 4, 16, 16), tl.float16))))

    def accumulator(x):
        a = tl.zeros((2, 2, 16, 16), tl.float16)
        tl.store(x, tl.sum(tl.dot(a, a, acc=tl.zeros((2, 2, 16, 32), tl.float32))))

    message = refusal(accumulator, Pointer(F32)).message
    assert message == "the acc of tl.dot has shape [2, 2, 16, 16], not [2, 2, 16, 32]"
    message = refusal(kernel, Pointer(F32)).message
    assert message == (
        "tl.dot takes a ...xMxK and a ...xKxN tile with the same axes in front; [2, 2, 16, 16] and "
        "[2, 4, 16, 16] do not fit"
    )
