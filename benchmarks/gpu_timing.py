"""Samples of a call's time on a GPU, for `gpu.py` and `compare_versions.py`.

A timer is a function that takes one sample, in seconds. `Events` times single calls, each after
the L2 cache is cleared. `Graph` replays a CUDA graph of calls on several copies of a problem, which
together do not fit in the L2 cache: the time of a launch by the host, which is longer than a short
kernel, is not in the sample.
"""

from __future__ import annotations

import functools
import math
import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from intervals import interval, ratios

Run = Callable[[], Any]
Timer = Callable[[], float]
SHORT = 20e-6  # seconds; a graph times shorter calls
CALLS_PER_GRAPH = 40
FLUSH_BYTES = 1 << 28
MOST_CALLS = 60  # of a sample by events: each has two events


@functools.cache
def flush() -> Callable[[], Any]:
    """Return a function that clears the L2 cache, by writing more than it holds."""
    return torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda").zero_


def elapsed(pairs: Sequence[tuple[Any, Any]]) -> list[float]:
    """Return the seconds between the events of each pair."""
    torch.cuda.synchronize()
    return [start.elapsed_time(end) / 1e3 for start, end in pairs]


def events() -> tuple[Any, Any]:
    return torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)


class Events:
    """The median of single calls, repeated for some milliseconds."""

    def __init__(self, run: Run, milliseconds: float) -> None:
        self._run = run
        run()
        estimate = statistics.median(self._sample(3))
        self._calls = min(MOST_CALLS, max(3, int(milliseconds / 1e3 / estimate)))

    def _sample(self, calls: int) -> list[float]:
        clear = flush()
        pairs = [events() for _ in range(calls)]
        for start, end in pairs:
            clear()
            start.record()
            self._run()
            end.record()
        return elapsed(pairs)

    def __call__(self) -> float:
        self._run()
        return statistics.median(self._sample(self._calls))


class Graph:
    """The mean of calls in a CUDA graph, which calls the functions `runs` in turn."""

    def __init__(self, runs: Sequence[Run], milliseconds: float) -> None:
        for run in runs:
            run()
        torch.cuda.synchronize()
        rounds = math.ceil(CALLS_PER_GRAPH / len(runs))
        self._calls = rounds * len(runs)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            # Results are kept until the end, so that no two calls write the same memory.
            results = [run() for _ in range(rounds) for run in runs]
        del results
        self._replays = 1
        self._replays = max(1, round(milliseconds / 1e3 / (self() * self._calls)))

    def __call__(self) -> float:
        self._graph.replay()
        start, end = events()
        start.record()
        for _ in range(self._replays):
            self._graph.replay()
        end.record()
        return elapsed([(start, end)])[0] / self._replays / self._calls


def copies_needed(size: int) -> int:
    """Return the number of copies of a problem of `size` bytes that thrice exceed the L2 cache."""
    cache: int = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
    return min(64, math.ceil(3 * cache / max(size, 1)))


def bench(run: Run, milliseconds: int = 100) -> float:
    """Return the median seconds of single calls, repeated for some milliseconds."""
    return Events(run, milliseconds)()


def take(timers: Sequence[Timer], samples: list[list[float]], rest: float = 0.0) -> None:
    """Add a sample of each timer, in random order, each after `rest` idle seconds."""
    for index in random.sample(range(len(timers)), len(timers)):
        time.sleep(rest)
        samples[index].append(timers[index]())


def fastest(timers: Sequence[Timer]) -> int:
    """Return the index of the fastest timer. Those that are behind after some samples drop out."""
    samples: list[list[float]] = [[] for _ in timers]
    indices = list(range(len(timers)))
    for rounds, behind in ((2, 1.15), (3, 1.04), (4, 1.0)):
        for _ in range(rounds):
            take([timers[i] for i in indices], [samples[i] for i in indices])
        means = {index: statistics.fmean(samples[index]) for index in indices}
        least = min(means.values())
        indices = [index for index in indices if means[index] <= behind * least]
        if len(indices) == 1:
            break
    return indices[0]


def sampled(
    timers: Sequence[Timer], least: int, most: int, width: float, rest: float = 0.0
) -> list[list[float]]:
    """Return interleaved samples of the timers, each taken after `rest` idle seconds.

    From `least` samples on, no more are taken once the intervals of the ratios to the first timer
    are narrower than `width`.
    """
    samples: list[list[float]] = [[] for _ in timers]
    for count in range(1, most + 1):
        take(timers, samples, rest)
        if count >= least and all(
            high - low <= width
            for low, high in (interval(ratios(samples[0], its)) for its in samples[1:])
        ):
            break
    return samples
