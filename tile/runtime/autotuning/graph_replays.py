"""Times of short calls by CUDA graphs, which PyTorch captures and replays.

A launch takes the host some microseconds, and an event half a microsecond of the device's time. A
graph of many calls runs without the host, so the time of each is that of the device alone. Its
calls find in the L2 cache what those before left there.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from typing import Any

from tile.runtime.autotuning.trial import Trial
from tile.tracebacks import warn

SHORT = 0.02  # ms of a call that is timed by graphs
REPLAYS = 10  # of a graph, each with a time
MOST_CALLS = 1000  # of a graph
ESTIMATE_CALLS = 5


def can_capture() -> bool:
    """Return True if PyTorch is imported and uses a GPU."""
    torch = imported_torch()
    return torch is not None and bool(torch.cuda.is_initialized())


def imported_torch() -> Any:
    """Return PyTorch; None if it is not imported."""
    return sys.modules.get("torch")


def graph_times(
    fn: Callable[[], object], rep: float, before: Callable[[], object] | None = None
) -> list[float]:
    """Return times of a call in ms, from `REPLAYS` replays of a graph of about `rep` ms in all.

    `fn` and `before` launch on PyTorch's current stream, as kernels on its tensors do. The graph
    has a call of `before` in front of each, whose time, from a graph of its own, is subtracted.
    Raises PyTorch's error for calls that cannot be captured.
    """

    def both() -> None:
        if before is not None:
            before()
        fn()

    both()  # the first call may compile
    estimate = _milliseconds(both, ESTIMATE_CALLS) / ESTIMATE_CALLS
    calls = min(MOST_CALLS, max(1, int(rep / REPLAYS / max(estimate, 1e-6))))
    times = _replayed(both, calls)
    if before is None:
        return times
    rest = statistics.median(_replayed(before, calls))
    return [max(0.0, time - rest) for time in times]


def replayed(trial: Trial, times: list[float], rep: float) -> list[float]:
    """Return the times of a trial by graphs, in place of `times` of single runs, if it is short.

    There are no graphs if the user has hooks, which would run only when a graph is captured, and,
    with a warning, if PyTorch cannot capture one.
    """
    tuner = trial.tuner
    has_hooks = tuner.user_defined_pre_hook or tuner.user_defined_post_hook
    if has_hooks or statistics.median(times) >= SHORT or not can_capture():
        return times
    try:
        return graph_times(trial.launch, rep, trial.before)
    except RuntimeError as error:  # PyTorch's
        reason = str(error).partition("\n")[0]
        warn(f"{tuner.__name__} is timed without CUDA graphs, with {trial.config}: {reason}")
        return times


def _replayed(fn: Callable[[], object], calls: int) -> list[float]:
    """Capture a graph of calls, replay it, and return the time of a call in each replay."""
    torch = imported_torch()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            fn()
    _milliseconds(graph.replay, 1)  # the first replay uploads the graph
    return [_milliseconds(graph.replay, 1) / calls for _ in range(REPLAYS)]


def _milliseconds(fn: Callable[[], object], calls: int) -> float:
    """Return the time of some calls, by events."""
    torch = imported_torch()
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    for _ in range(calls):
        fn()
    stop.record()
    stop.synchronize()
    return float(start.elapsed_time(stop))
