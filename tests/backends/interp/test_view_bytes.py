"""Bounds of strided views, computed from strides, equal a table of their bytes at less cost."""

from __future__ import annotations

import itertools
import resource
import sys
import time
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

import tile
import tile.language as tl
from tests.sampling import examples
from tile.backends.base import footprint
from tile.backends.interp.view_bytes import Axis, ViewBytes, _search
from tile.backends.interp.virtual_memory import lazy_zeros
from tile.checks import ALL
from tile.config import config
from tile.errors import ArgumentValueError, OutOfBoundsError

SIZES = (1, 2, 4, 8)


def view(shape: tuple[int, ...], strides: tuple[int, ...], dtype: str) -> np.ndarray:
    """An array that nobody reads, whose strides count bytes."""
    return as_strided(np.zeros(1, dtype), shape, strides)


def table(array: np.ndarray) -> np.ndarray:
    """Return, for each byte from the lowest to the highest, True if it belongs to an element."""
    low, high = footprint(array.shape, array.strides, array.itemsize)
    held = np.zeros(high - low, np.bool_)
    for index in itertools.product(*map(range, array.shape)):
        at = sum(i * s for i, s in zip(index, array.strides, strict=True)) - low
        held[at : at + array.itemsize] = True
    return held


axes = st.lists(st.tuples(st.integers(1, 6), st.integers(-40, 40)), max_size=4)


@examples(200)
@given(axes, st.sampled_from(["i1", "i2", "i4", "i8"]), st.booleans())
@example([(6, 2), (6, 3)], "i1", False)  # all but the second byte and the last but one
@example([(5, 6), (5, 10), (5, 15)], "i1", False)  # no pair has a common divisor of all
@example([(4, 5)], "i4", False)  # a field of a packed structure
@example([(3, 40), (4, 8), (4, 12)], "i4", False)  # two that overlap, in rows
def test_as_a_table_of_bytes(axes: list[tuple[int, int]], dtype: str, of_elements: bool) -> None:
    unit = np.dtype(dtype).itemsize if of_elements else 1
    shape, strides = (n for n, _ in axes), (s * unit for _, s in axes)
    array = view(tuple(shape), tuple(strides), dtype)
    held, actual = table(array), ViewBytes.of(array)
    assert actual.dense == held.all()
    for size in SIZES:
        offsets = np.arange(-4 * size, len(held) + 4 * size, size)
        ends = np.pad(held, 8 * size)[(offsets + 8 * size)[:, None] + np.arange(size)]
        np.testing.assert_array_equal(actual.contain(offsets, size), ends.all(axis=1))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 30), st.integers(2, 6)), min_size=2, max_size=4))
def test_the_search_alone(axes: list[tuple[int, int]]) -> None:
    actual = sorted(itertools.starmap(Axis, axes), reverse=True)
    sums = {sum(t) for t in itertools.product(*(range(0, s * n, s) for s, n in axes))}
    points = np.arange(-5, max(sums) + 5).reshape(1, -1)
    wanted = np.isin(points, list(sums))
    np.testing.assert_array_equal(_search(actual, points), wanted)


def test_large_strides_that_overlap() -> None:
    """Products of remainders must not overflow."""
    p, q = (1 << 33) + 9, (1 << 34) + 25
    actual = ViewBytes.of(view((50, 60), (p, q), "i1"))
    rng = np.random.default_rng(0)
    i, j = rng.integers(50, size=100), rng.integers(60, size=100)
    assert actual.contain(i * p + j * q, 1).all()
    assert not actual.contain(i * p + j * q + 1, 1).any()


@tile.jit
def copy_every(x_ptr, o_ptr, first, step, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o_ptr + i, tl.load(x_ptr + first + i.to(tl.int64) * step))


@tile.jit
def write_every(x_ptr, step, B: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, B).to(tl.int64) * step, 1)


@pytest.mark.parametrize(
    "settings", [{}, {"sanitize": ALL}, {"interp_level": "thread", "interp_races": True}]
)
def test_a_launch_costs_what_it_touches(settings: Any) -> None:
    """A table of the elements of this view took 2.3 GiB, and 7 s."""
    whole = np.zeros(1 << 28, np.int8)
    out = np.zeros(16, np.int8)
    with config.scope(**settings):
        copy_every[1,](whole[:64:2], out, 0, 2, B=16)
        write_every[1,](whole[:64:2], 2, B=16)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        started = time.perf_counter()
        copy_every[1,](whole[::2], out, 0, 2, B=16)
        write_every[1,](whole[::2], 2, B=16)
        spent = time.perf_counter() - started
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert spent < 1
    assert after - before < 64 << 10  # KiB
    with tile.trace() as trace:
        write_every[1,](whole[::2], 2, B=16)
    assert trace.kernels[0].arrays[0].lines == 1
    with pytest.raises(OutOfBoundsError, match="at element 1, which lies between"):
        copy_every[1,](whole[::2], out, 1, 2, B=16)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 96 << 10


@pytest.mark.parametrize("strides", [(0,), (1,), (2,), (-3,)])
@pytest.mark.parametrize(("settings", "size"), [({}, 1 << 40), ({"sanitize": ALL}, 1 << 36)])
def test_a_view_that_says_it_is_larger_than_memory(strides: Any, settings: Any, size: int) -> None:
    """Records of checks take address space, though no memory: 24 bytes for each byte of the view."""
    whole, out = np.arange(100, dtype=np.int8), np.zeros(16, np.int8)
    array = as_strided(whole[50:], (size,), strides)
    with config.scope(**settings):
        copy_every[1,](array, out, 0, strides[0], B=16)
        write_every[1,](array, strides[0], B=1)
        np.testing.assert_array_equal(out, 50 + np.arange(16) * strides[0])
        with pytest.raises(OutOfBoundsError):
            copy_every[1,](array, out, -strides[0] or 1, strides[0], B=16)
        if abs(strides[0]) > 1:
            with pytest.raises(OutOfBoundsError, match="which lies between"):
                copy_every[1,](array, out, strides[0] // abs(strides[0]), strides[0], B=16)


def test_the_lanes_of_a_mask_read_nothing_of_such_a_view() -> None:
    """Nor do elements that are out of bounds, where a report is made."""
    whole, out = np.arange(100, dtype=np.int8), np.zeros(16, np.int8)
    array = as_strided(whole[50:], (1 << 38,), (-3,))
    with tile.sanitize(collect=True) as report:
        copy_every[1,](array, out, 3, -3, B=16)
    assert [group.elements for group in report.groups] == [1]
    np.testing.assert_array_equal(out[1:], 50 - np.arange(15) * 3)


def test_arrays_larger_than_a_window_are_refused() -> None:
    array = as_strided(np.zeros(1, np.int8), (1 << 45,), (1,))
    with pytest.raises(ArgumentValueError, match="'x_ptr' spans 35184372088832 bytes"):
        write_every[1,](array, 1, B=16)


@tile.jit
def copy_words(x_ptr, o_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o_ptr + i, tl.load(x_ptr.to(tl.pointer_type(tl.int32)) + i))


def test_every_byte_of_an_access_is_of_the_view() -> None:
    """Words over bytes of which the view has every other one, or pairs."""
    whole, out = np.zeros(64, np.int8), np.zeros(8, np.int32)
    copy_words[1,](whole[:32], out, B=8)
    for array in (whole[::2], whole.reshape(16, 4)[:, :2]):
        with pytest.raises(OutOfBoundsError):
            copy_words[1,](array, out, B=8)


def test_a_float_of_eight_bits() -> None:
    whole = np.zeros(64, ml_dtypes.float8_e5m2)
    out = np.zeros(16, ml_dtypes.float8_e5m2)
    copy_every[1,](whole[::3], out, 0, 3, B=16)
    with pytest.raises(OutOfBoundsError):
        copy_every[1,](whole[::3], out, 1, 3, B=16)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere NumPy allocates them")
def test_records_without_address_space_are_an_error_that_says_so() -> None:
    with pytest.raises(ArgumentValueError, match="no address space for them"):
        lazy_zeros(1 << 58, np.int64)
