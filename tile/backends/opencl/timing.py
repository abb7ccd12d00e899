"""The device's own clock, for `do_bench` and for tuning."""

from __future__ import annotations

import time
from contextvars import ContextVar, Token
from typing import Any

import pyopencl as cl

from tile.backends.base import Timer
from tile.backends.opencl import devices

_LAUNCHED: ContextVar[list[tuple[Any, Any]] | None] = ContextVar("launches", default=None)


def launched(queue: Any, event: Any) -> None:
    """Tell the timer that is running, if there is one, of a kernel on a queue."""
    found = _LAUNCHED.get()
    if found is not None:
        found.append((queue, event))


class EventTimer:
    """How long kernels ran on a queue, by the device's clock.

    It is a `tile.testing.Timer`: `do_bench(call, timer=EventTimer())` gives the time on the device
    from the start of a call's first kernel to the end of its last one, without what the host did
    before; of a call without kernels of this project, that between marks around it. `queue` is one
    with profiling on whose arrays the call has; without it, calls are timed whose arrays are
    NumPy's.
    """

    def __init__(self, queue: Any = None) -> None:
        self._queue = devices.chosen().queue if queue is None else queue
        self._calls: list[list[Any]] = []  # of each: its kernels, and the marks around it
        self._running: Token[Any] | None = None

    def start(self) -> None:
        """Mark the start of a call."""
        kernels: list[tuple[Any, Any]] = []
        self._calls.append([kernels, cl.enqueue_marker(self._queue)])
        self._running = _LAUNCHED.set(kernels)

    def stop(self) -> None:
        """Mark its end."""
        if self._running is not None:
            _LAUNCHED.reset(self._running)
        self._calls[-1].append(cl.enqueue_marker(self._queue))

    def elapsed(self) -> list[float]:
        """Wait for all to be done; ms of each start-stop pair since the last `elapsed`."""
        self._queue.finish()
        calls, self._calls = self._calls, []
        return [self._span(*call) / 1e6 for call in calls]

    def _span(self, kernels: list[tuple[Any, Any]], first: Any, last: Any) -> int:
        own = [event.profile for queue, event in kernels if queue == self._queue]
        if not own:
            return int(last.profile.end - first.profile.end)
        return int(max(kernel.end for kernel in own) - min(kernel.start for kernel in own))


class FinishTimer:
    """The host's clock, which waits for a queue that keeps no times itself."""

    def __init__(self, queue: Any) -> None:
        self._queue = queue
        self._marks: list[int] = []

    def start(self) -> None:
        """Wait for what came before, and mark the start of a call."""
        self._mark()

    def stop(self) -> None:
        """Wait for the call, and mark its end."""
        self._mark()

    def _mark(self) -> None:
        self._queue.finish()
        self._marks.append(time.perf_counter_ns())

    def elapsed(self) -> list[float]:
        """Milliseconds of each start-stop pair since the last `elapsed`."""
        marks, self._marks = self._marks, []
        return [(stop - start) / 1e6 for start, stop in zip(marks[::2], marks[1::2], strict=True)]


def timer_of(queue: Any) -> Timer:
    """The device's clock if the queue keeps times (PROFILING_ENABLE), else the host's."""
    keeps = queue.properties & cl.command_queue_properties.PROFILING_ENABLE
    return EventTimer(queue) if keeps else FinishTimer(queue)
