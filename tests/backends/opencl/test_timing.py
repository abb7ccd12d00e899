"""Clocks of devices: chosen by themselves, and about kernels alone."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip("pyopencl")

import pyopencl as cl
import pyopencl.array as cl_array

import tile
import tile.language as tl
from tile.backends.opencl import devices, launch
from tile.backends.opencl.devices import OCLGRIND
from tile.backends.opencl.launch import EventTimer, FinishTimer, timer_of
from tile.runtime.autotuning import do_bench as host_timing
from tile.testing import do_bench

pytestmark = pytest.mark.usefixtures("runtime")

PROFILED = cl.command_queue_properties.PROFILING_ENABLE


@tile.jit
def double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n) * 2, mask=at < n)


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[type]:
    """The classes of the timers that measure, each time that one starts."""
    seen: list[type] = []

    def watched(kind: type) -> Callable[..., None]:
        start = kind.start

        def wrapper(self: object) -> None:
            seen.append(kind)
            start(self)

        return wrapper

    for kind in (EventTimer, FinishTimer, host_timing.HostTimer):
        monkeypatch.setattr(kind, "start", watched(kind))
    return seen


def arrays(queue: cl.CommandQueue) -> tuple[cl_array.Array, cl_array.Array]:
    x = cl_array.to_device(queue, np.arange(1024, dtype=np.float32))
    return x, cl_array.empty_like(x)


def test_arrays_of_the_host_are_timed_by_events(used: list[type]) -> None:
    x, y = np.ones(1024, np.float32), np.zeros(1024, np.float32)
    with tile.backend("opencl"):
        assert do_bench(lambda: double[(4,)](x, y, 1024, BLOCK=256), 1, 2) > 0
    assert set(used) == {EventTimer}


def test_a_queue_says_which_clock_there_is(used: list[type]) -> None:
    raw = devices.chosen().raw
    for properties, kind in ((PROFILED, EventTimer), (0, FinishTimer)):
        context = cl.Context([raw])
        x, y = arrays(cl.CommandQueue(context, raw, properties=properties))
        used.clear()
        assert do_bench(lambda x=x, y=y: double[(4,)](x, y, 1024, BLOCK=256), 1, 2) > 0
        assert set(used) == {kind}
        assert isinstance(timer_of(x.queue), kind)


def test_other_calls_are_timed_by_the_host(used: list[type]) -> None:
    x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
    with tile.backend("interp"):
        do_bench(lambda: double[(1,)](x, y, 64, BLOCK=64), 1, 2)
    do_bench(lambda: None, 0, 1)
    assert set(used) == {host_timing.HostTimer}


def test_tuning_uses_the_device(used: list[type]) -> None:
    tuned = tile.autotune(
        [tile.Config({"BLOCK": block}) for block in (64, 256)], key=["n"], warmup=1, rep=2
    )(double)
    x, y = np.ones(1024, np.float32), np.zeros(1024, np.float32)
    with tile.backend("opencl"):
        tuned[lambda meta: (tile.cdiv(1024, meta["BLOCK"]),)](x, y, 1024)
    assert set(used) == {EventTimer} and len(tuned.configs_timings) == 2
    np.testing.assert_array_equal(y, 2)


def test_host_work_during_a_kernel_is_not_counted() -> None:
    queue = devices.chosen().queue
    x, y = arrays(queue)

    def slow() -> None:
        time.sleep(0.02)
        double[(4,)](x, y, 1024, BLOCK=256)
        queue.finish()
        time.sleep(0.02)

    device = do_bench(slow, 0, 1, return_mode="min")
    host = do_bench(slow, 0, 1, return_mode="min", timer=host_timing.HostTimer())
    assert 0 < device < host - 20


def test_a_call_lasts_from_its_first_kernel_to_its_last() -> None:
    x, y = arrays(devices.chosen().queue)

    def twice() -> None:
        double[(4,)](x, y, 1024, BLOCK=256)
        x.queue.finish()
        time.sleep(0.02)
        double[(4,)](x, y, 1024, BLOCK=256)

    assert do_bench(twice, 0, 1, return_mode="min") > 15


def test_the_clock_of_the_device() -> None:
    x, y = np.ones(1 << 16, np.float32), np.zeros(1 << 16, np.float32)
    timer = EventTimer()
    for _ in range(3):
        timer.start()
        with tile.backend("opencl"):
            double[(1 << 6,)](x, y, 1 << 16, BLOCK=1024)
        timer.stop()
    times = timer.elapsed()
    assert len(times) == 3 and all(0 < ms < 10_000 for ms in times)
    assert timer.elapsed() == []


def test_a_call_that_fails_leaves_no_timer_running() -> None:
    calls = iter((None, 0))

    def fails() -> None:
        x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
        with tile.backend("opencl"):
            double[(1,)](x, y, 64, BLOCK=64)
        _ = 1 if next(calls) is None else 1 // 0

    with pytest.raises(ZeroDivisionError):
        do_bench(fails, 1, 1)
    assert launch._LAUNCHED.get() is None


def test_a_call_without_kernels_is_timed_between_markers() -> None:
    if devices.chosen().raw.platform.name == OCLGRIND:
        pytest.skip("Oclgrind runs nothing before it is waited for, marks neither")
    timer = EventTimer()
    timer.start()
    time.sleep(0.02)
    timer.stop()
    (lasted,) = timer.elapsed()
    assert 15 < lasted < 10_000 and timer.elapsed() == []
    assert launch._LAUNCHED.get() is None
