"""Times by CUDA graphs, on a PyTorch that only counts."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tile.compat.testing import do_bench_cudagraph
from tile.errors import ArgumentValueError
from tile.runtime.autotuning import do_bench
from tile.runtime.autotuning.do_bench import REPLAYS, graph_times

LAUNCH, REPLAY = 0.005, 0.010  # ms: of the host, and of a graph


class Gpu:
    """A clock that calls advance: `work` by its time and the host's, a replay by all that it has."""

    def __init__(self) -> None:
        self.now = 0.0
        self.captured: list[float] | None = None
        self.graphs: list[int] = []

    def work(self, milliseconds: float) -> None:
        if self.captured is None:
            self.now += milliseconds + LAUNCH
        else:
            self.captured.append(milliseconds)

    def torch(self) -> Any:
        """A module with the names of PyTorch that are used."""
        gpu = self

        class Graph:
            times: list[float]

            def replay(self) -> None:
                gpu.now += sum(self.times) + REPLAY

        class Event:
            def __init__(self, enable_timing: bool) -> None:
                assert enable_timing

            def record(self) -> None:
                self.at = gpu.now

            def synchronize(self) -> None: ...

            def elapsed_time(self, other: Any) -> float:
                return float(other.at - self.at)

        @contextmanager
        def graph(captured: Graph) -> Iterator[None]:
            gpu.captured = captured.times = []
            yield
            gpu.graphs.append(len(captured.times))
            gpu.captured = None

        cuda = types.SimpleNamespace(
            is_initialized=lambda: True, synchronize=lambda: None, CUDAGraph=Graph, Event=Event,
            graph=graph, current_stream=lambda: None,
        )  # fmt: skip
        return types.SimpleNamespace(cuda=cuda)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    made = Gpu()
    torch = made.torch()
    monkeypatch.setattr(do_bench, "imported_torch", lambda: torch)
    return made


def test_times_are_those_of_the_device(gpu: Gpu) -> None:
    """The time of a call without a launch; that of the replay is shared by all calls."""
    times = graph_times(lambda: gpu.work(0.003), rep=20)
    assert len(times) == REPLAYS
    assert gpu.graphs == [int(20 / REPLAYS / (0.003 + LAUNCH))]
    assert times == pytest.approx([0.003] * REPLAYS, abs=1e-4)


def test_what_comes_before_a_call_is_subtracted(gpu: Gpu) -> None:
    times = graph_times(lambda: gpu.work(0.003), 20, lambda: gpu.work(0.004))
    assert times == pytest.approx([0.003] * REPLAYS, abs=1e-4)
    assert gpu.graphs[0] == 2 * gpu.graphs[1]


def test_do_bench_cudagraph(gpu: Gpu) -> None:
    tensor = types.SimpleNamespace(grad=1)
    time = do_bench_cudagraph(lambda: gpu.work(0.003), grad_to_none=[tensor])
    assert time == pytest.approx(0.003, abs=1e-4) and tensor.grad is None
    low, high = do_bench_cudagraph(lambda: gpu.work(0.003), quantiles=[0.1, 0.9])
    assert low == pytest.approx(high)
    with pytest.raises(ArgumentValueError, match="return_mode is 'most'"):
        do_bench_cudagraph(lambda: None, return_mode="most")


@tile.jit
def increment(x_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x_ptr + i, tl.load(x_ptr + i, mask=i < n) + 1, mask=i < n)


def tuner(gpu: Gpu, times: dict[int, float], **options: Any) -> Any:
    """A tuner whose launches take times by the block size."""
    made: Any = tile.autotune(
        [tile.Config({"B": size}) for size in times], key=["n"], rep=20, warmup=0,
        **{"use_cuda_graph": True, **options},
    )(increment)  # fmt: skip
    launch: Callable[..., Any] = made.launch

    def counted(call: Any, config: Any, *, warmup: bool = False) -> Any:
        if not warmup:
            gpu.work(times[config.kwargs["B"]])
        return launch(call, config, warmup=warmup)

    made.launch = counted
    return made


def timed(made: Any) -> dict[int, float]:
    x = np.zeros(64, np.float32)
    made[lambda meta: (tile.cdiv(64, meta["B"]),)](x, 64)
    np.testing.assert_array_equal(x, 1)
    return {config.kwargs["B"]: times[0] for config, times in made.configs_timings.items()}


def test_a_tuner_times_short_runs_by_graphs(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(do_bench, "SHORT", 1e6)  # the interpreter takes longer than a GPU
    found = timed(tuner(gpu, {16: 0.004, 32: 0.003}))
    assert found == pytest.approx({16: 0.004, 32: 0.003}, abs=1e-4)
    graphs = len(gpu.graphs)
    assert graphs == 4
    timed(tuner(gpu, {16: 0.004, 32: 0.003}, use_cuda_graph=False))
    timed(tuner(gpu, {16: 0.004, 32: 0.003}, post_hook=lambda arguments, exception: None))
    assert len(gpu.graphs) == graphs


def test_longer_runs_are_timed_one_by_one(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(do_bench, "SHORT", 0.0)
    timed(tuner(gpu, {16: 0.004, 32: 0.003}))
    assert gpu.graphs == []


def test_runs_that_cannot_be_captured(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(do_bench, "SHORT", 1e6)

    def refuse(graph: Any) -> Any:
        raise RuntimeError("operation not permitted when stream is capturing\nand more")

    monkeypatch.setattr(do_bench.imported_torch().cuda, "graph", refuse)
    text = "increment is timed without CUDA graphs, with B: (16|32).*: operation not permitted.*capturing"
    with pytest.warns(RuntimeWarning, match=text):
        found = timed(tuner(gpu, {16: 0.004, 32: 0.003}))
    assert set(found) == {16, 32}
