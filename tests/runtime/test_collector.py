"""Python's garbage collector does not run while a kernel is compiled, and runs again afterwards."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pytest

import tile
import tile.language as tl
from tile.errors import CompilationError
from tile.runtime.compiler import collector_paused


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """Leave the collector as it was."""
    enabled = gc.isenabled()
    yield
    (gc.enable if enabled else gc.disable)()


@pytest.mark.parametrize("enabled", [True, False])
def test_the_state_is_restored(enabled: bool) -> None:
    (gc.enable if enabled else gc.disable)()
    states = []

    def fail() -> None:
        states.append(gc.isenabled())
        raise KeyError

    with pytest.raises(KeyError), collector_paused():
        fail()
    assert states == [False]
    assert gc.isenabled() == enabled


def test_a_compilation_collects_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the pause a kernel of this size lets the collector run many times."""
    monkeypatch.setenv("TILE_CACHE", "0")

    @tile.jit
    def kernel(x, N: tl.constexpr):
        i = tl.arange(0, 64)
        value = tl.load(x + i)
        for k in tl.static_range(N):
            value = value * 3 + k
        tl.store(x + i, value)

    kernel.warmup(np.float32, N=1)  # loads the compiler
    generations: list[int] = []

    def collected(phase: str, info: dict[str, int]) -> None:
        generations.append(info["generation"])

    gc.enable()
    gc.collect()
    gc.callbacks.append(collected)
    try:
        kernel.warmup(np.float32, N=100)
    finally:
        gc.callbacks.remove(collected)
    assert gc.isenabled() and len(generations) <= 4  # before and after


def test_an_error_lets_it_run_again() -> None:
    @tile.jit
    def wrong(x):
        tl.store(x, nothing)  # noqa: F821 - the error

    gc.enable()
    with pytest.raises(CompilationError):
        wrong.warmup(np.float32)
    assert gc.isenabled()
