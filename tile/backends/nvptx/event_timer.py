"""Device timers for `do_bench` and the autotuner."""

from __future__ import annotations

from tile.backends.nvptx import driver


class EventTimer:
    """Events on a stream of a device, and the times between them: a `tile.testing.Timer`."""

    def __init__(self, device: driver.Device, stream: int) -> None:
        self._device = device
        self._stream = stream
        self._events: list[driver.Event] = []

    def start(self) -> None:
        """Record the start of a call."""
        self._record()

    def stop(self) -> None:
        """Record the end of a call."""
        self._record()

    def _record(self) -> None:
        with self._device.current():
            self._events.append(driver.Event(self._stream))

    def elapsed(self) -> list[float]:
        """Wait for all calls; return the ms of each start-stop pair since the last `elapsed`."""
        events, self._events = self._events, []
        with self._device.current():
            driver.wait(self._stream, "timing")
            pairs = zip(events[::2], events[1::2], strict=True)
            times = [stop.since(start) for start, stop in pairs]
            for event in events:
                event.destroy()
        return times
