"""The device's own clock, for `do_bench` and for tuning."""

from __future__ import annotations

from tile.backends.nvptx import driver


class EventTimer:
    """Events on a stream of a device, and the times between them. It is a `tile.testing.Timer`."""

    def __init__(self, where: driver.Device, stream: int) -> None:
        self._where = where
        self._stream = stream
        self._events: list[driver.Event] = []

    def start(self) -> None:
        """Record the start of a call."""
        self._record()

    def stop(self) -> None:
        """Record its end."""
        self._record()

    def _record(self) -> None:
        with self._where.current():
            self._events.append(driver.Event(self._stream))

    def elapsed(self) -> list[float]:
        """Wait for all to be done; ms of each start-stop pair since the last `elapsed`."""
        events, self._events = self._events, []
        with self._where.current():
            driver.wait(self._stream, "timing")
            pairs = zip(events[::2], events[1::2], strict=True)
            times = [stop.since(start) for start, stop in pairs]
            for event in events:
                event.destroy()
        return times
