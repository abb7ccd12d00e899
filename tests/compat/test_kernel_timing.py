"""Configurations of kernels that overwrite tensors are timed without the copies of these."""

from types import SimpleNamespace

import pytest

from tile.compat import kernel_timing


class Clock:
    """A stream's time in milliseconds, which work advances, and its events."""

    def __init__(self):
        self.now = 0.0
        self.work = []

    def do(self, name, milliseconds):
        self.work.append(name)
        self.now += milliseconds

    def event(self):
        event = SimpleNamespace(at=None, synchronize=lambda: None)
        event.record = lambda: setattr(event, "at", self.now)
        event.elapsed_time = lambda end: end.at - event.at
        return event


def test_only_launches_are_between_the_events():
    clock = Clock()
    times = iter([9.0, *(0.5 + i % 3 for i in range(1000))])
    least = kernel_timing.least(
        lambda: clock.do("prepare", 7.0), lambda: clock.do("launch", next(times)), clock.event
    )
    assert least == 0.5
    assert clock.work == ["prepare", "launch"] * (len(clock.work) // 2)


@pytest.mark.parametrize(("milliseconds", "calls"), [(0.01, 20), (10.0, 3), (100.0, 1)])
def test_calls_end_with_the_budget(milliseconds, calls):
    clock = Clock()
    kernel_timing.least(lambda: None, lambda: clock.do("launch", milliseconds), clock.event)
    assert len(clock.work) == 1 + calls


@pytest.mark.parametrize(
    ("mutated", "device", "spills", "profiler"),
    [
        ([], "cuda", 0, False),
        (["x"], "cpu", 0, False),
        (["x"], "cuda", 40, False),
        (["x"], "cuda", 0, True),
    ],
)
def test_other_kernels_are_timed_by_pytorch(mutated, device, spills, profiler):
    device_props = SimpleNamespace(type=device)
    autotuner = SimpleNamespace(mutated_arg_names=mutated, device_props=device_props)
    launcher = SimpleNamespace(n_spills=spills)

    def original(self, *args, with_profiler, **kwargs):
        return self, args, with_profiler, kwargs

    result = kernel_timing.bench(autotuner, original, launcher, 1, with_profiler=profiler, n=2)
    assert result == (autotuner, (launcher, 1), profiler, {"n": 2})
