"""Timers for `do_bench` and for tuning: by OpenCL events, or by the host's clock."""

from __future__ import annotations

import time
from contextvars import ContextVar, Token
from typing import Any

import pyopencl as cl

from tile.backends.base import Timer
from tile.backends.opencl import devices

_LAUNCHED: ContextVar[list[tuple[Any, Any]] | None] = ContextVar("launches", default=None)


def record_launch(queue: Any, event: Any) -> None:
    """Record a kernel's event with the timer that is running, if any."""
    launches = _LAUNCHED.get()
    if launches is not None:
        launches.append((queue, event))


class EventTimer:
    """A timer that measures kernels on a queue by the device's clock.

    It is a `tile.testing.Timer`: `do_bench(call, timer=EventTimer())` returns the time on the
    device from the start of a call's first kernel to the end of its last one, without the host's
    work before it. For a call without kernels of this project it is the time between markers that
    are enqueued before and after the call.

    queue: the queue of the call's arrays, with profiling on. Without it, the queue on which calls
        with NumPy arrays run.
    """

    def __init__(self, queue: Any = None) -> None:
        self._queue = devices.chosen().queue if queue is None else queue
        self._calls: list[list[Any]] = []  # for each call: its kernels and two marker events
        self._running: Token[Any] | None = None

    def start(self) -> None:
        """Begin a call."""
        kernels: list[tuple[Any, Any]] = []
        self._calls.append([kernels, cl.enqueue_marker(self._queue)])
        self._running = _LAUNCHED.set(kernels)

    def stop(self) -> None:
        """End the call."""
        if self._running is not None:
            _LAUNCHED.reset(self._running)
        self._calls[-1].append(cl.enqueue_marker(self._queue))

    def elapsed(self) -> list[float]:
        """Wait for the queue; return the ms of each start-stop pair since the last `elapsed`."""
        self._queue.finish()
        calls, self._calls = self._calls, []
        return [self._span(*call) / 1e6 for call in calls]

    def _span(self, kernels: list[tuple[Any, Any]], first: Any, last: Any) -> int:
        own = [event.profile for queue, event in kernels if queue == self._queue]
        if not own:
            return int(last.profile.end - first.profile.end)
        return int(max(kernel.end for kernel in own) - min(kernel.start for kernel in own))


class FinishTimer:
    """A timer by the host's clock, which waits for a queue without profiling to finish."""

    def __init__(self, queue: Any) -> None:
        self._queue = queue
        self._times: list[int] = []  # ns, of starts and stops in turn

    def start(self) -> None:
        """Wait for earlier work on the queue and begin a call."""
        self._record_time()

    def stop(self) -> None:
        """Wait for the call and end it."""
        self._record_time()

    def _record_time(self) -> None:
        self._queue.finish()
        self._times.append(time.perf_counter_ns())

    def elapsed(self) -> list[float]:
        """Return the milliseconds of each start-stop pair since the last `elapsed`."""
        times, self._times = self._times, []
        return [(stop - start) / 1e6 for start, stop in zip(times[::2], times[1::2], strict=True)]


def timer_of(queue: Any) -> Timer:
    """Return a timer by events if the queue has PROFILING_ENABLE, else one by the host's clock."""
    profiling = queue.properties & cl.command_queue_properties.PROFILING_ENABLE
    return EventTimer(queue) if profiling else FinishTimer(queue)
