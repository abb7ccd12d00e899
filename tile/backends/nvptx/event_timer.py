"""Timing by events, as `tile.testing.do_bench` and the autotuner do it on NVIDIA GPUs."""

from __future__ import annotations

import weakref

from tile.backends.nvptx import driver
from tile.backends.nvptx.host_staging import current_streams
from tile.errors import OutOfResourcesError

# Times the size of the L2 cache: its bandwidth is about that of the memory's times this, so on each
# generation clearing the buffer takes longer (55 to 70 us) than the host takes to launch a kernel.
CLEARED = 5


class EventTimer:
    """Events on a stream of a device, and the times between them: a `tile.testing.Timer`.

    `start` clears a buffer larger than the L2 cache before its event. So each call finds the cache
    cold, as Triton's `do_bench` has it, and is queued before the device comes to it: otherwise the
    time of a short kernel would be that of the host's launch.
    """

    def __init__(self, device: driver.Device, stream: int) -> None:
        self._device = device
        self._stream = stream
        self._events: list[driver.Event] = []
        self._buffer = self._allocated()

    def _allocated(self) -> tuple[int, int]:
        """Allocate the buffer, as long as this timer lives; return its address and size.

        It is smaller, or none, where memory is short: measuring must not fail for it.
        """
        cache = self._device.l2_bytes
        with self._device.current():
            for size in (CLEARED * cache, cache):
                try:
                    address = driver.allocate(size)
                except OutOfResourcesError:
                    continue
                weakref.finalize(self, _free, self._device, address).atexit = False
                return address, size
        return 0, 0

    def start(self) -> None:
        """Clear the cache, and record the start of a call."""
        address, size = self._buffer
        if size:
            with self._device.current():
                driver.clear(address, size, self._stream)
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


def current_timer() -> EventTimer:
    """Return a timer on the current stream of the current device."""
    device = driver.current_device()
    return EventTimer(device, current_streams([], device.ordinal)[0])


def _free(device: driver.Device, address: int) -> None:
    with device.current():
        driver.free(address)
