"""The device's own clock, for `do_bench` and for tuning."""

from __future__ import annotations

from typing import Any

import pyopencl as cl

from tile.backends.opencl import devices


class EventTimer:
    """Marks on a queue of the device that is chosen, and the times between them.

    It is a `tile.testing.Timer`: `do_bench(call, timer=EventTimer())` gives the time on the device,
    without that of the launch on the host. `queue` is one with profiling on whose arrays the call
    has; without it, calls are timed whose arrays are NumPy's.
    """

    def __init__(self, queue: Any = None) -> None:
        self._queue = devices.chosen().queue if queue is None else queue
        self._marks: list[Any] = []

    def start(self) -> None:
        """Mark the start of a call."""
        self._marks.append(cl.enqueue_marker(self._queue))

    def stop(self) -> None:
        """Mark its end."""
        self._marks.append(cl.enqueue_marker(self._queue))

    def elapsed(self) -> list[float]:
        """Wait for all to be done; ms of each start-stop pair since the last `elapsed`."""
        self._queue.finish()
        marks, self._marks = self._marks, []
        times = [mark.profile.end for mark in marks]
        pairs = zip(times[::2], times[1::2], strict=True)
        return [(stop - start) / 1e6 for start, stop in pairs]
