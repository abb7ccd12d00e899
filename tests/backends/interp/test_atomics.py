"""Atomic operations of many programs at once have the same result as in sequence."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.reference import UPDATES
from tests.sampling import examples
from tile.backends.interp.atomic_updates import compare_and_swap, exchange, update_in_order
from tile.ir import semantics
from tile.ir.ops.memory import CAS_ELEMENTS, RMW_ELEMENTS, RMWKind
from tile.ir.types import Scalar

CELLS = 5
PAIRS = [(kind, element) for kind, elements in RMW_ELEMENTS.items() for element in elements]


@st.composite
def accesses(draw: st.DrawFn, values: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Indices of cells, often the same ones, and lists of small numbers of that length."""
    count = draw(st.integers(0, 12))

    def numbers(high: int) -> np.ndarray:
        drawn = draw(st.lists(st.integers(0, high), min_size=count, max_size=count))
        return np.array(drawn, np.int64)

    return numbers(CELLS - 1), [numbers(3) for _ in range(values)]


def cells(element: Scalar) -> Any:
    return np.array([0, 1, 2, 3, 1]).astype(semantics.numpy_dtype(element))


def one_by_one(flat: Any, index: Any, values: Any, kind: RMWKind) -> Any:
    """Return the old value before each update."""
    old = np.zeros(len(index), flat.dtype)
    for lane, cell in enumerate(index):
        old[lane] = flat[cell]
        update = UPDATES[RMWKind.XCHG if kind.exchanges else kind]
        flat[cell] = update(flat[cell : cell + 1], values[lane : lane + 1])[0]
    return old


@pytest.mark.parametrize(("kind", "element"), PAIRS, ids=str)
@examples(4)  # for each of 84 pairs
@given(access=accesses(1))
def test_update_and_exchange(kind: RMWKind, element: Scalar, access: Any) -> None:
    index, (values,) = access
    values = values.astype(semantics.numpy_dtype(element))
    wanted = cells(element)
    old = one_by_one(wanted, index, values, kind)
    updated, exchanged = cells(element), cells(element)
    update_in_order(updated, index, values, kind)
    seen = exchange(exchanged, index, values, kind)
    for got in (updated, exchanged):
        assert got.dtype == wanted.dtype
        assert got.tobytes() == wanted.tobytes()
    assert seen.tobytes() == old.tobytes()


@pytest.mark.parametrize("element", CAS_ELEMENTS, ids=str)
@examples(15)
@given(access=accesses(2))
def test_compare_and_swap(element: Scalar, access: Any) -> None:
    dtype = semantics.numpy_dtype(element)
    index, (expected, values) = access
    expected, values = expected.astype(dtype), values.astype(dtype)
    wanted, flat = cells(element), cells(element)
    old = np.zeros(len(index), dtype)
    for lane, cell in enumerate(index):
        old[lane] = wanted[cell]
        if wanted[cell] == expected[lane]:
            wanted[cell] = values[lane]
    seen = compare_and_swap(flat, index, expected, values)
    assert flat.tobytes() == wanted.tobytes()
    assert seen.tobytes() == old.tobytes()


def test_compare_and_swap_compares_bits() -> None:
    flat = np.array([np.nan, -0.0], np.float32)
    index = np.array([0, 1])
    old = compare_and_swap(flat, index, np.array([np.nan, 0.0], np.float32), np.ones(2, np.float32))
    assert np.isnan(old[0])
    assert flat[0] == 1
    assert flat.view(np.uint32)[1] == 0x80000000


def test_a_lock_at_the_end_of_a_large_array_costs_no_memory() -> None:
    flat = np.zeros(1 << 22, np.int32)
    index = np.full(4, flat.size - 1)
    tracemalloc.start()
    compare_and_swap(flat, index, np.zeros(4, np.int32), np.ones(4, np.int32))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert flat[-1] == 1
    assert peak < 1 << 16


LONG = 5000


@pytest.mark.parametrize(("kind", "element"), PAIRS, ids=str)
def test_many_updates_of_few_cells(kind: RMWKind, element: Scalar) -> None:
    """Segments of all lengths, with sums that are rounded in each step."""
    rng = np.random.default_rng(5)
    index = np.floor(rng.random(LONG) ** 6 * 64).astype(np.int64)
    values = rng.integers(0, 100, LONG)
    if element.is_floating():
        values = rng.standard_normal(LONG) * 3
    values = values.astype(semantics.numpy_dtype(element))
    start = np.arange(64).astype(values.dtype)
    wanted, flat = start.copy(), start.copy()
    with semantics.quiet():
        old = one_by_one(wanted, index, values, kind)
        seen = exchange(flat, index, values, kind)
    assert flat.tobytes() == wanted.tobytes()
    assert seen.tobytes() == old.tobytes()


def test_many_swaps_that_succeed_one_after_the_other() -> None:
    """Each attempt expects what the one before it at its cell wrote, apart from every tenth."""
    index = np.random.default_rng(6).integers(0, 3, LONG)
    rank = np.zeros(LONG, np.int32)
    for cell in range(3):
        rank[index == cell] = np.arange((index == cell).sum())
    expected = np.where(rank % 10 == 9, np.int32(-1), rank - rank // 10)
    flat = np.zeros(3, np.int32)
    old = compare_and_swap(flat, index, expected, expected + np.int32(1))
    assert (old == rank - rank // 10).all()
    assert (flat == [(n := int((index == cell).sum())) - n // 10 for cell in range(3)]).all()
