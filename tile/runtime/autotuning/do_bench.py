"""`do_bench`: measure the time of a call, by the clock of the host or of the device.

It is in `runtime` instead of `tile.testing`, which exports it, because the autotuner uses it.

**Graphs.** CUDA graphs, which PyTorch captures and replays, time short calls. A launch takes the
host some microseconds, and an event half a microsecond of the device's time. A graph of many calls
runs without the host, so the time of each is that of the device alone. Its calls find in the L2
cache what those before left there.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tile import backends
from tile.backends.capabilities import Timed, Timer
from tile.errors import ArgumentTypeError, ArgumentValueError
from tile.runtime.autotuning.trial import Trial
from tile.runtime.callbacks import recorded_launches
from tile.runtime.target_selection import BACKEND_OF_DEVICE
from tile.tracebacks import public_function, warn

RETURN_MODES: dict[str, Callable[[list[float]], Any]] = {
    "min": min,
    "max": max,
    "mean": lambda times: float(np.mean(times)),
    "median": lambda times: float(np.median(times)),
    "all": list,
}
ESTIMATE_RUNS = 5
QUANTILES = (0.5, 0.2, 0.8)  # of a configuration's times in a tuning run, the median first


class HostTimer:
    """The host's clock, for calls that return only when their work is done."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._started = 0

    def start(self) -> None:
        """Record the start of a call."""
        self._started = time.perf_counter_ns()

    def stop(self) -> None:
        """Record the end of a call."""
        self._times.append((time.perf_counter_ns() - self._started) / 1e6)

    def elapsed(self) -> list[float]:
        """Return the milliseconds of each start-stop pair since the last `elapsed`."""
        times, self._times = self._times, []
        return times


def _nothing() -> None:
    return None


def measure(
    fn: Callable[[], object],
    *,
    warmup: float,
    rep: float,
    before: Callable[[], object] = _nothing,
    after: Callable[[], object] = _nothing,
    timer: Timer | None = None,
) -> list[float]:
    """Return the times of single calls of `fn` in ms, at least one, without `before` and `after`.

    The first call is not timed, since it may compile; without a `timer`, the device on which it
    launched decides the clock. A few calls then estimate how many fit into `warmup` and `rep`
    milliseconds, including `before` and `after`. If these calls already took that long, their times
    are the result.
    """
    before()
    clock = _clock_of(fn) if timer is None else _started(fn, timer)
    after()

    def timed() -> None:
        before()
        _timed(fn, clock)
        after()

    estimates: list[float] = []
    spent = 0.0
    while len(estimates) < ESTIMATE_RUNS and spent < warmup + rep:
        started = time.perf_counter_ns()
        timed()
        estimates += clock.elapsed()
        spent += max(estimates[-1], (time.perf_counter_ns() - started) / 1e6)
    if estimates and spent >= warmup + rep:
        return estimates
    # Bound the number of calls if a call takes less than the clock's resolution.
    each = max(spent / max(len(estimates), 1), 1e-4)
    for _ in range(int(warmup / each) - len(estimates)):
        timed()
    clock.elapsed()
    for _ in range(max(1, int(rep / each))):
        timed()
    return clock.elapsed()


def _clock_of(fn: Callable[[], object]) -> Timer:
    """Call `fn`, and return the clock of the device on which it launched last, else the host's.

    What launched none of our kernels may have launched others: with PyTorch on a GPU, it is the
    GPU's clock, which shows the host's time too, as the end is recorded when `fn` returns.
    """
    with recorded_launches() as launched:
        fn()
    others: Sequence[object] = ()
    if not launched and _torch_uses_gpu():
        others = [backends.get(BACKEND_OF_DEVICE["cuda"])]
    with_clocks = [each for each in (*others, *launched) if isinstance(each, Timed)]
    return with_clocks[-1].timer() if with_clocks else HostTimer()


def _torch_uses_gpu() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_initialized()


def _started(fn: Callable[[], object], timer: Timer) -> Timer:
    """Call `fn` once under a timer, discard the time, and return the timer."""
    _timed(fn, timer)
    timer.elapsed()
    return timer


def _timed(fn: Callable[[], object], timer: Timer) -> None:
    timer.start()
    try:
        fn()
    finally:
        timer.stop()


def quantiles_of(times: Sequence[float], quantiles: Sequence[float]) -> list[float]:
    """Return quantiles (0 to 1) of `times`, with linear interpolation."""
    return [float(value) for value in np.quantile(times, list(quantiles))]


def check_summary(quantiles: Sequence[float] | None, return_mode: str) -> None:
    """Raise `ArgumentValueError` for what `summarized` does not take."""
    if return_mode not in RETURN_MODES:
        raise ArgumentValueError(
            f"return_mode is {return_mode!r}; there are {', '.join(map(repr, RETURN_MODES))}"
        )
    if quantiles is not None and (not quantiles or not all(0 <= q <= 1 for q in quantiles)):
        raise ArgumentValueError(f"quantiles are fractions from 0 to 1, not {list(quantiles)}")


def summarized(times: list[float], quantiles: Sequence[float] | None, return_mode: str) -> Any:
    """Return quantiles of times, one as a float, or what `return_mode` selects."""
    if quantiles is None:
        return RETURN_MODES[return_mode](times)
    values = quantiles_of(times, quantiles)
    return values[0] if len(values) == 1 else values


@public_function
def do_bench(
    fn: Callable[[], object],
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Sequence[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
    timer: Timer | None = None,
) -> Any:
    """Return the time of a call of `fn` in ms.

    `fn` is called for about `warmup` ms untimed and then for about `rep` ms, each call timed.
    Before each call `.grad` of every tensor in `grad_to_none` is set to None. With `quantiles`
    (from 0 to 1) the result is a list with a float for each, or a float for a list of one.
    Otherwise `return_mode` selects it: "min", "max", "mean", "median" (a float), or "all" (the list
    of times). The clock is that of the device on which the first call launched, if it has one; if
    it launched no kernel of ours, the GPU's where PyTorch uses one, else the host's. `timer`
    replaces it. On NVIDIA GPUs the L2 cache is cleared before each call. Raises
    `ArgumentTypeError` or `ArgumentValueError`.
    """
    if not callable(fn):
        raise ArgumentTypeError(
            f"do_bench takes a function to call, not {type(fn).__name__}: "
            "do_bench(lambda: kernel[grid](x))"
        )
    check_summary(quantiles, return_mode)
    if not (warmup >= 0 and rep >= 0):
        raise ArgumentValueError(
            f"warmup={warmup} and rep={rep} are times in milliseconds: zero or more"
        )

    def drop_gradients() -> None:
        for tensor in grad_to_none or ():
            tensor.grad = None

    times = measure(fn, warmup=warmup, rep=rep, before=drop_gradients, timer=timer)
    return summarized(times, quantiles, return_mode)


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
