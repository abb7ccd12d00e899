"""One side of `libraries.py`: a process in which `import triton` is Triton, or is tile.

It answers requests of the process that compares: tuples of a method of `Worker` and its arguments,
each with the result or an `Error`.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import torch
from library_cases import Data, Problem, by_key
from torch.utils._pytree import tree_leaves

from tests.libraries.autotuners import limit_configs

REPLAYS = 5  # of a graph in a sample, whose median counts
GRAPH_SECONDS = 2e-3  # least time of a graph: the clock of events ticks every 0.5 us
MOST_CALLS = 50  # in a graph
HOST_CALLS = 20  # in a sample of the host's time: less than the queue of launches holds
COLD_CALLS = 3  # before these, as the host has waited for the GPU
SLEEP_CYCLES = 40_000_000  # about 20 ms, in which the host enqueues calls
FATAL = ("CUDA error", "CUDA_ERROR", "illegal memory", "device-side assert", "launch failure")


@dataclass(frozen=True)
class Error:
    """An exception's type and first line; after a fatal one no kernel runs in the process."""

    text: str
    fatal: bool


@dataclass(frozen=True)
class First:
    """A first call: seconds until its result is there, and the error of the result."""

    seconds: float
    error: float
    tolerance: float

    @property
    def right(self) -> bool:
        """Return True if the error is within the tolerance; that of a NaN is not."""
        return self.error <= self.tolerance


@dataclass(frozen=True)
class Sample:
    """Seconds of a call: on the GPU, and until the host can go on."""

    gpu: float
    host: float


class Worker:
    """Runs one case at a time."""

    def __init__(self, data: Data, configs: int) -> None:
        self.data = data
        self.configs = configs
        self.problem: Problem | None = None
        self.replay: Callable[[], object] | None = None
        self.calls = 1  # of the operator in a replay

    def hello(self) -> dict[str, Any]:
        """Return the versions, and the compiler that `import triton` gives."""
        import triton

        compiler = "tile" if triton.JITFunction.__module__.startswith("tile.") else "triton"
        device = torch.cuda.get_device_name() if self.on_gpu else "CPU"
        return {
            "compiler": compiler,
            "triton": triton.__version__,
            "torch": torch.__version__,
            "device": device,
        }

    @property
    def on_gpu(self) -> bool:
        """Return True unless cases run on the CPU, as a trial of this program."""
        return self.data.device == "cuda"

    def warm_up(self) -> float:
        """Return the seconds of the first call of a kernel in this process."""
        from liger_kernel.ops.softmax import LigerSoftmaxFunction

        x = torch.zeros(16, 128, device=self.data.device)
        self.synchronize()
        start = time.perf_counter()
        LigerSoftmaxFunction.apply(x)
        self.synchronize()
        return time.perf_counter() - start

    def first(self, key: str, check: bool) -> First:
        """Make a case, and call it for the first time; `check` compares with the reference."""
        self.close()
        torch.manual_seed(0)
        self.problem = by_key()[key].make(self.data)
        limit_configs(self.configs)
        expected = tree_leaves(self.problem.reference()) if check else []
        self.synchronize()
        start = time.perf_counter()
        actual = self.problem.call()
        self.synchronize()
        seconds = time.perf_counter() - start
        error = greatest_error(tree_leaves(actual), expected) if check else 0.0
        return First(seconds, error, self.problem.tolerance)

    def prepare(self) -> str:
        """Prepare samples of the current case; return the method by which the GPU is timed."""
        assert self.problem is not None
        for _ in range(3):
            self.problem.call()
        self.synchronize()
        start = time.perf_counter()
        for _ in range(5):
            self.problem.call()
        self.synchronize()
        seconds = (time.perf_counter() - start) / 5
        self.calls = max(1, min(MOST_CALLS, round(GRAPH_SECONDS / seconds)))
        if not self.on_gpu:
            return "clock"
        try:
            self.replay = captured(self.problem.call, self.calls)
        except RuntimeError as error:  # the operator synchronizes, for example
            if is_fatal(error):
                raise
            torch.cuda.synchronize()
            end_capture_of_random_numbers()
            return "events"
        return "graph"

    def sample(self) -> Sample:
        """Time the current case once."""
        return Sample(self.gpu_seconds(), self.host_seconds())

    def gpu_seconds(self) -> float:
        """Return the seconds of a call on the GPU; on a CPU, by the clock."""
        assert self.problem is not None
        if not self.on_gpu:
            start = time.perf_counter()
            self.problem.call()
            return time.perf_counter() - start
        if self.replay is not None:
            return statistics.median(timed(self.replay) for _ in range(REPLAYS)) / self.calls
        call, count = self.problem.call, self.calls
        return timed(lambda: [call() for _ in range(count)], SLEEP_CYCLES) / count

    def host_seconds(self) -> float:
        """Return the seconds until a call returns, while the GPU may still run."""
        assert self.problem is not None
        cold, count = (COLD_CALLS, HOST_CALLS) if self.on_gpu else (0, 1)
        self.synchronize()
        times = [self.clock(self.problem.call) for _ in range(cold + count)]
        self.synchronize()
        return statistics.median(times[cold:])

    @staticmethod
    def clock(call: Callable[[], object]) -> float:
        """Return the seconds until a call returns."""
        start = time.perf_counter()
        call()
        return time.perf_counter() - start

    def synchronize(self) -> None:
        """Wait for the GPU."""
        if self.on_gpu:
            torch.cuda.synchronize()

    def close(self) -> None:
        """Free what the current case holds."""
        self.problem = self.replay = None
        gc.collect()
        if self.on_gpu:
            torch.cuda.empty_cache()


def captured(call: Callable[[], object], count: int) -> Callable[[], object]:
    """Return the replay of a CUDA graph of `count` calls."""
    graph = torch.cuda.CUDAGraph()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        call()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        for _ in range(count):
            call()
    graph.replay()
    torch.cuda.synchronize()
    return graph.replay


def end_capture_of_random_numbers() -> None:
    """Give the generator of random numbers a state that no failed capture of a graph has left."""
    fresh = torch.Generator(device="cuda").graphsafe_get_state()
    torch.cuda.default_generators[torch.cuda.current_device()].graphsafe_set_state(fresh)


def timed(run: Callable[[], object], sleep: int = 0) -> float:
    """Return the seconds that the GPU takes; it sleeps first for so many cycles."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    if sleep:
        torch.cuda._sleep(sleep)
    start.record()
    run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3


def greatest_error(actual: list[Any], expected: list[Any]) -> float:
    """Return the greatest relative error of the results' norms; infinite for another structure."""
    if len(actual) != len(expected) or any(
        a.shape != e.shape for a, e in zip(actual, expected, strict=True)
    ):
        return float("inf")
    errors = [0.0]
    for a, e in zip(actual, expected, strict=True):
        right = e.detach().double()
        size = right.norm().item()
        difference = (a.detach().double() - right).norm().item()
        errors.append(difference / size if size else difference)
    return float("nan") if any(x != x for x in errors) else max(errors)


def is_fatal(error: BaseException) -> bool:
    """Return True after an error of the GPU that ends all work of this process there."""
    text = str(error)
    return any(word in text for word in FATAL) and "captur" not in text


def summary(error: BaseException) -> str:
    """Return an exception's type and first line."""
    lines = [line for line in str(error).splitlines() if line.strip()] or [""]
    return f"{type(error).__name__}: {lines[0]}"[:220]


def serve(connection: Connection, worker: Worker) -> None:
    """Answer requests until the connection ends."""
    while True:
        try:
            method, *arguments = connection.recv()
        except EOFError:
            return
        try:
            answer = getattr(worker, method)(*arguments)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told
            print(f"{method}{tuple(arguments)}:", file=sys.stderr)
            sys.excepthook(type(error), error, error.__traceback__)
            answer = Error(summary(error), is_fatal(error))
            error.__traceback__ = None  # it holds tensors
        connection.send(answer)
