"""Kernels of the language on the SIMT simulator: how it is selected, and its results."""

from __future__ import annotations

import numpy as np
import pytest

import tile
import tile.language as tl
from tile import backends
from tile.backends.base import Options, Target
from tile.backends.interp.simulator.counters import Counters
from tile.config import config
from tile.errors import ArgumentValueError, BackendError, OutOfBoundsError
from tile.runtime.target_selection import target_text


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("TILE_BACKEND", "TILE_INTERP_LEVEL", "TILE_INTERP_TARGET"):
        monkeypatch.delenv(variable, raising=False)


@tile.jit
def softmax(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + i, mask=i < n, other=-float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(o_ptr + row * n + i, e / tl.sum(e, 0), mask=i < n)


@tile.jit
def overrun(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), 1.0)


def rows() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((5, 100)).astype(np.float32)


@pytest.mark.parametrize("target", ["plain", "generic", "cp_async", "mma", "wgmma", "warp64"])
def test_kernel_on_every_target(target: str) -> None:
    x = rows()
    o = np.zeros_like(x)
    with tile.backend(f"interp:{target}"):
        kernel = softmax[(5,)](x, o, 100, BLOCK=128)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(o, e / e.sum(1, keepdims=True), rtol=1e-5)
    assert kernel.target == Target("interp", target)
    assert list(kernel.asm) == ["source", "tile", "tile-optimized", "thread"]
    assert "thread_id" in kernel.asm["thread"] or "layout_index" in kernel.asm["thread"]


@pytest.mark.parametrize("target", ["interp", "interp:generic"])
def test_code_is_not_translated_again(target: str) -> None:
    signature = {"x_ptr": "*fp32", "o_ptr": "*fp32", "n": "i32"}
    artifact = tile.compile(softmax, signature, {"BLOCK": 128}, target=target).artifact
    backend = backends.get("interp")
    assert backend.load(artifact).code is backend.load(artifact).code is artifact.code
    if target == "interp":  # translated at the first launch without checks
        assert artifact.code() is artifact.code()


def test_settings_choose_the_level_and_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    x = rows()
    o = np.zeros_like(x)
    launches = [softmax[(5,)](x, o, 100, BLOCK=128)]
    monkeypatch.setenv("TILE_INTERP_LEVEL", "thread")
    launches.append(softmax[(5,)](x, o, 100, BLOCK=128))
    monkeypatch.setenv("TILE_INTERP_TARGET", "warp64")
    launches.append(softmax[(5,)](x, o, 100, BLOCK=128))
    monkeypatch.setenv("TILE_INTERP_LEVEL", "tile")
    with pytest.warns(
        RuntimeWarning, match="TILE_INTERP_TARGET has no effect on launches on interp"
    ):
        launches.append(softmax[(5,)](x, o, 100, BLOCK=128))
    assert [str(k.target) for k in launches] == [
        "interp",
        "interp:generic",
        "interp:warp64",
        "interp",
    ]
    assert launches[0] is launches[3]
    with config.scope(interp_level="thread"):
        assert target_text([]) == "interp:warp64"
        ahead = tile.compile(
            softmax, {"x_ptr": "*fp32", "o_ptr": "*fp32", "n": "i32"}, {"BLOCK": 8}
        )
        assert str(ahead.target) == "interp:warp64"
    assert target_text([]) == "interp"


def test_unknown_levels_and_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.zeros(8, np.float32)
    monkeypatch.setenv("TILE_INTERP_LEVEL", "threads")
    with pytest.raises(ArgumentValueError, match="expected one of tile, thread"):
        overrun[(1,)](x, BLOCK=8)
    monkeypatch.setenv("TILE_INTERP_LEVEL", "thread")
    monkeypatch.setenv("TILE_INTERP_TARGET", "sm_90")
    with pytest.raises(BackendError, match="no target is named 'sm_90'; there are plain, generic"):
        overrun[(1,)](x, BLOCK=8)


def test_options_reach_the_passes() -> None:
    x = np.zeros(64, np.float32)
    with tile.backend("interp:generic"):
        kernel = overrun[(1,)](x, BLOCK=64, num_warps=2, num_stages=1)
    assert kernel.artifact.options == Options(num_warps=2, num_stages=1)
    assert kernel.executable.code.threads == 64
    assert np.all(x == 1)


def test_a_fault_names_the_line_of_the_kernel_and_the_thread() -> None:
    with tile.backend("interp:generic"), pytest.raises(OutOfBoundsError) as caught:
        overrun[(1,)](np.zeros(100, np.float32), BLOCK=128)
    text = str(caught.value)
    assert "`overrun` writes `x_ptr` at element 100, 1 past its end" in text
    assert "tl.store(x_ptr + tl.arange(0, BLOCK), 1.0)" in text
    assert "in program (0, 0, 0) of grid (1, 1, 1), thread" in text


def test_counters_of_a_compiled_kernel() -> None:
    with tile.backend("interp:generic"):
        kernel = overrun.warmup(np.zeros(1024, np.float32), BLOCK=1024)
    counters = Counters()
    kernel.executable.count((1, 1, 1), [np.zeros(1024, np.float32)], counters)
    assert counters.global_total().sectors == 128
    assert counters.global_total().efficiency == 1
