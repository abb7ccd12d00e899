"""Atomic loads, stores and polls, and the order that they give to other accesses."""

from __future__ import annotations

import numpy as np
import pytest

import tile.language as tl
from tests.conformance.running import Device
from tests.conformance.values import random_array
from tests.frontend.building import module_of, refusal
from tile.errors import UnsupportedError
from tile.ir import semantics
from tile.ir.types import ALL, F32, F64, I8, I16, I32, I64, U8, U16, Pointer, Scalar
from tile.language.extra import cuda


def copy(x, y, n):
    at = tl.arange(0, 64)
    tl.atomic_store(y + at, tl.atomic_load(x + at, at < n, "relaxed"), mask=at < n)


@pytest.mark.parametrize("element", ALL, ids=str)
def test_every_bit_is_copied_where_the_mask_is_true(device: Device, element: Scalar) -> None:
    x = random_array(np.random.default_rng(0), element, 64)
    y, before = np.zeros_like(x), x.copy()
    device.run(module_of(copy, *[Pointer(element)] * 2, I32), (1, 1, 1), [x, y, np.int32(37)])
    assert y[:37].tobytes() == x[:37].tobytes() and not y[37:].any()
    assert x.tobytes() == before.tobytes()


def extremes(high, low, x, old, N: tl.constexpr):
    at = tl.arange(0, N)
    value = tl.load(x + at)
    tl.store(old + at, tl.atomic_max(high + at, value))
    tl.atomic_min(low + at, value, mask=at % 3 > 0)


@pytest.mark.parametrize("element", [F32, F64], ids=str)
def test_extremes_of_floats_of_all_signs(device: Device, element: Scalar) -> None:
    """GPUs order their bits as integers, where a NaN may be the greatest; here numbers win."""
    numbers = [0.0, 1.5, -1.5, 3e38, -3e38, 1e-40, -1e-40, np.inf, -np.inf, np.nan, -np.nan, 2.0]
    at = np.arange(256)
    memory, values = (
        np.array(numbers, semantics.numpy_dtype(element))[at // step % len(numbers)]
        for step in (1, len(numbers))
    )
    high, low, old = memory.copy(), memory.copy(), np.zeros_like(memory)
    module = module_of(extremes, *[Pointer(element)] * 4, N=256)
    device.run(module, (1, 1, 1), [high, low, values, old])
    np.testing.assert_array_equal(high, np.fmax(memory, values))
    np.testing.assert_array_equal(low, np.where(at % 3 > 0, np.fmin(memory, values), memory))
    np.testing.assert_array_equal(old, memory)


def _skip_where_atomics_do_not_order(device: Device) -> None:
    if "oclgrind" in device.target:
        pytest.skip("Oclgrind calls accesses of two work-groups a race, atomics or not")


def hand_over(data, flag, out):
    if tl.program_id(0) == 0:
        tl.store(data, 7)
        flag.atomic_store(1)
    else:
        while flag.atomic_load() == 0:
            pass
        tl.store(out, tl.load(data, volatile=True))


def test_a_store_is_seen_by_the_program_that_waits_for_it(device: Device) -> None:
    _skip_where_atomics_do_not_order(device)
    data, flag, out = (np.zeros(1, np.int32) for _ in range(3))
    device.run(module_of(hand_over, *[Pointer(I32)] * 3), (2, 1, 1), [data, flag, out])
    assert out[0] == 7


def wait(data, flags, out):
    at = tl.arange(0, 8)
    if tl.program_id(0) == 0:
        tl.store(data + at, at * at)
        tl.debug_barrier()
        tl.atomic_store(flags + at, at + 1)
    else:
        ready = tl.atomic_poll(flags + at, at + 1)
        tl.debug_barrier()
        tl.store(out + at, tl.where(ready, tl.load(data + at, volatile=True), -1))
        one = flags.atomic_poll(1, "relaxed", "cta")
        tl.store(out + 8, one.to(tl.int32))


@pytest.mark.parametrize("element", [I8, U8, I16, U16, I32, I64], ids=str)
def test_a_poll_waits_for_every_element(device: Device, element: Scalar) -> None:
    _skip_where_atomics_do_not_order(device)
    data, out = np.zeros(8, np.int32), np.zeros(9, np.int32)
    flags = np.zeros(8, semantics.numpy_dtype(element))
    module = module_of(wait, Pointer(I32), Pointer(element), Pointer(I32))
    device.run(module, (2, 1, 1), [data, flags, out])
    assert out.tolist() == [k * k for k in range(8)] + [1]


def wait_in_time(flags, out, budget):
    at = tl.arange(0, 4)
    start = cuda.globaltimer()
    seen = tl.atomic_poll(flags + at, 1, timeout_ns=budget)
    spent = cuda.globaltimer() - start
    tl.store(out + at, seen.to(tl.int32))
    tl.store(out + 4, (spent >= budget).to(tl.int32))
    tl.store(out + 5, cuda.smid() >= 0)


@pytest.mark.parametrize("budget", [0, 200_000])
def test_a_poll_ends_when_its_time_is_over(device: Device, budget: int) -> None:
    flags, out = np.array([1, 0, 1, 2], np.int32), np.full(6, -1, np.int32)
    module = module_of(wait_in_time, Pointer(I32), Pointer(I32), I64)
    try:
        device.run(module, (1, 1, 1), [flags, out, np.int64(budget)])
    except UnsupportedError as error:
        if device.target.startswith("interp"):
            raise
        pytest.skip(error.message)
    assert out.tolist() == [1, 0, 1, 0, 1, 1]


def busy_wait(out, budget):
    start = cuda.globaltimer()
    while cuda.globaltimer() - start < budget:
        pass
    tl.store(out, cuda.globaltimer() - start >= budget)


def test_a_loop_may_wait_for_the_time_alone(device: Device) -> None:
    out = np.zeros(1, np.int32)
    try:
        device.run(module_of(busy_wait, Pointer(I32), I64), (1, 1, 1), [out, np.int64(3_000_000)])
    except UnsupportedError as error:
        if device.target.startswith("interp"):
            raise
        pytest.skip(error.message)
    assert out[0] == 1


def test_polls_that_are_refused() -> None:
    def floats(x):
        tl.atomic_poll(x, 1)

    def negative(x):
        tl.atomic_poll(x, 1, timeout_ns=-1)

    def tile(x):
        tl.atomic_poll(x, 1, timeout_ns=tl.arange(0, 4))

    def release(x):
        tl.atomic_poll(x, 1, sem="release")

    for kernel, element, message in (
        (floats, F32, "tl.atomic_poll takes pointers to integers, not ptr<f32>"),
        (negative, I32, "the timeout_ns of tl.atomic_poll is not negative; it is -1"),
        (tile, I32, "the timeout_ns of tl.atomic_poll is a scalar integer, not tile<4xi32>"),
        (release, I32, 'the sem of tl.atomic_poll is one of "acquire", "relaxed", not'),
    ):
        assert refusal(kernel, Pointer(element)).message.startswith(message)


def test_orders_that_are_refused() -> None:
    def load(x):
        tl.atomic_load(x, sem="release")

    def store(x):
        tl.atomic_store(x, 1, sem="acq_rel")

    for kernel, message in (
        (load, 'the sem of tl.atomic_load is one of "acquire", "relaxed", not'),
        (store, 'the sem of tl.atomic_store is one of "release", "relaxed", not'),
    ):
        assert refusal(kernel, Pointer(I32)).message.startswith(message)
