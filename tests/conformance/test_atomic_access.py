"""Atomic loads and stores, and the order that they give to other accesses."""

from __future__ import annotations

import numpy as np
import pytest

import tile.language as tl
from tests.conformance.running import Device
from tests.conformance.values import random_array
from tests.frontend.building import module_of, refusal
from tile.ir.types import F32, F64, I32, I64, U32, Pointer, Scalar


def copy(x, y, n):
    at = tl.arange(0, 64)
    tl.atomic_store(y + at, tl.atomic_load(x + at, at < n, "relaxed"), mask=at < n)


@pytest.mark.parametrize("element", [I32, U32, I64, F32, F64], ids=str)
def test_every_bit_is_copied_where_the_mask_is_true(device: Device, element: Scalar) -> None:
    x = random_array(np.random.default_rng(0), element, 64)
    y, before = np.zeros_like(x), x.copy()
    device.run(module_of(copy, *[Pointer(element)] * 2, I32), (1, 1, 1), [x, y, np.int32(37)])
    assert y[:37].tobytes() == x[:37].tobytes() and not y[37:].any()
    assert x.tobytes() == before.tobytes()


def hand_over(data, flag, out):
    if tl.program_id(0) == 0:
        tl.store(data, 7)
        flag.atomic_store(1)
    else:
        while flag.atomic_load() == 0:
            pass
        tl.store(out, tl.load(data, volatile=True))


def test_a_store_is_seen_by_the_program_that_waits_for_it(device: Device) -> None:
    data, flag, out = (np.zeros(1, np.int32) for _ in range(3))
    device.run(module_of(hand_over, *[Pointer(I32)] * 3), (2, 1, 1), [data, flag, out])
    assert out[0] == 7


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
