"""Gradients of attention by the kernels of machines with TMA, on the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile
import tile.ops
from tile.ops.sequence.attention import attention_reference
from tile.ops.sequence.attention_backward import attention_backward_reference
from tile.runtime.jit import JITFunction


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the kernels that are launched."""
    names: list[str] = []
    select = JITFunction.__getitem__

    def recording(kernel: JITFunction[..., Any], grid: Any) -> Any:
        names.append(kernel.__name__)
        return select(kernel, grid)

    monkeypatch.setattr(JITFunction, "__getitem__", recording)
    return names


def heads(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


def problem(queries: int, keys: int, size: int, causal: bool) -> list[np.ndarray]:
    """The gradient, q, k, v, the result and the sums; two heads of queries share one of keys."""
    q, k, v = heads(2, 2, queries, size), *(heads(2, 1, keys, size, seed=n) for n in (1, 2))
    result, sums = attention_reference(q, k, v, causal, log_sums=True)
    done = result.astype(np.float16), sums.astype(np.float32)
    return [heads(2, 2, queries, size, seed=3), q, k, v, *done]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("queries", "keys", "size"), [(64, 128, 64), (32, 64, 128), (77, 150, 64), (70, 70, 128)]
)
def test_results(queries: int, keys: int, size: int, causal: bool, launched: list[str]) -> None:
    """Queries and keys are no multiples of a block, nor are heads."""
    arrays = problem(queries, keys, size, causal)
    with tile.backend("interp:wgmma"):
        gradients = tile.ops.attention_backward(*arrays, causal=causal)
    assert launched == ["descriptor_q_kernel", "descriptor_kv_kernel"]
    expected = attention_backward_reference(*arrays, causal=causal)
    for result, wanted in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(result.astype(np.float64), wanted, atol=8e-3)


@pytest.mark.parametrize("scale", [0.0, -0.1])
def test_scales_that_are_not_positive(scale: float) -> None:
    arrays = problem(40, 70, 64, True)
    arrays[4:] = [
        x.astype(t)
        for x, t in zip(
            attention_reference(*arrays[1:4], True, scale, log_sums=True),
            (np.float16, np.float32),
            strict=True,
        )
    ]
    with tile.backend("interp:wgmma"):
        gradients = tile.ops.attention_backward(*arrays, causal=True, scale=scale)
    expected = attention_backward_reference(*arrays, causal=True, scale=scale)
    for result, wanted in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(result.astype(np.float64), wanted, atol=8e-3)


@pytest.mark.parametrize(
    ("size", "options"),
    [(64, {"window": 20}), (48, {}), (64, {"bias": heads(1, 1, 40, 70)})],
)
def test_what_is_loaded_by_pointers(
    size: int, options: dict[str, Any], launched: list[str]
) -> None:
    arrays = problem(40, 70, size, False)
    with tile.backend("interp:wgmma"):
        tile.ops.attention_backward(*arrays, **options)
    assert launched == ["delta_kernel", "gradient_kv_kernel", "gradient_q_kernel"]


def test_heads_of_their_own_keys() -> None:
    arrays = problem(128, 128, 64, True)
    arrays = [np.ascontiguousarray(x[:, :1]) for x in arrays]
    with tile.backend("interp:wgmma"):
        gradients = tile.ops.attention_backward(*arrays, causal=True)
    expected = attention_backward_reference(*arrays, causal=True)
    for result, wanted in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(result.astype(np.float64), wanted, atol=8e-3)
