"""Accesses are checked against the view that was passed; a fault says who accessed what, where."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tile
import tile.language as tl
from tile.backends.interp import virtual_memory
from tile.errors import ArgumentValueError, OutOfBoundsError

GUARD = -99.0


@tile.jit
def copy(x_ptr, o_ptr, start, step, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o_ptr + i, tl.load(x_ptr + start + i * step))


@tile.jit
def fill(x_ptr, start, step, N: tl.constexpr):
    tl.store(x_ptr + start + tl.arange(0, N) * step, 1.0)


@tile.jit
def count(x_ptr, start, N: tl.constexpr):
    tl.atomic_add(x_ptr + start + tl.arange(0, N), 1.0)


@tile.jit
def pick(x_ptr, index_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o_ptr + i, tl.load(x_ptr + tl.load(index_ptr + i)))


@tile.jit
def masked_copy(x_ptr, o_ptr, n, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(o_ptr + i, tl.load(x_ptr + i, mask=i < n, other=7.0), mask=i < n)


@tile.jit
def masked_block(x_ptr, o_ptr, m, n, stride, M: tl.constexpr, N: tl.constexpr):
    r = tl.program_id(0) * M + tl.arange(0, M)[:, None]
    c = tl.program_id(1) * N + tl.arange(0, N)[None, :]
    inside = (r < m) & (c < n)
    x = tl.load(x_ptr + r * stride + c, mask=inside, other=0.0)
    tl.store(o_ptr + r * n + c, x, mask=inside)


@tile.jit
def forgotten_column_mask(x_ptr, o_ptr, m, n, M: tl.constexpr):
    r = tl.arange(0, M)[:, None]
    c = tl.arange(0, M)[None, :]
    x = tl.load(x_ptr + r * n + c, mask=r < m)
    tl.store(o_ptr + r * M + c, x)


def line_of(function: tile.JITFunction, text: str) -> int:
    """The line of the only statement of a kernel that holds a text."""
    lines, first = __import__("inspect").getsourcelines(function.fn)
    (found,) = [first + i for i, line in enumerate(lines) if text in line]
    return found


def views() -> list[tuple[str, np.ndarray, int]]:
    """Views of a larger allocation, with the stride in elements that a kernel must be given."""
    whole = np.arange(64, dtype=np.float32)
    return [
        ("middle", whole[16:32], 1),
        ("every other", whole[8:40:2], 2),
        ("backwards", whole[31:15:-1], -1),
        ("column", whole.reshape(16, 4)[:, 1], 4),
    ]


@pytest.mark.parametrize(
    ("name", "view", "step"), views(), ids=lambda v: v if isinstance(v, str) else ""
)
def test_every_element_of_a_view_can_be_read_and_written(name, view, step) -> None:
    out = np.zeros(16, np.float32)
    copy[(1,)](view, out, 0, step, N=16)
    np.testing.assert_array_equal(out, view)
    fill[(1,)](view, 0, step, N=16)
    assert (view == 1).all()


@pytest.mark.parametrize(
    ("name", "view", "step"), views(), ids=lambda v: v if isinstance(v, str) else ""
)
@pytest.mark.parametrize("shift", [-1, 1])
def test_one_element_outside_a_view_is_a_fault(name, view, step, shift) -> None:
    base = view.base.copy()
    out = np.zeros(16, np.float32)
    with pytest.raises(OutOfBoundsError, match="reads `x_ptr`"):
        copy[(1,)](view, out, shift * step, step, N=16)
    with pytest.raises(OutOfBoundsError, match="writes `x_ptr`"):
        fill[(1,)](view, shift * step, step, N=16)
    np.testing.assert_array_equal(view.base, base)


def test_elements_between_those_of_a_strided_view_are_outside() -> None:
    view = np.zeros(32, np.float32)[::2]
    with pytest.raises(OutOfBoundsError, match="at element 1, which lies between"):
        copy[(1,)](view, np.zeros(8, np.float32), 0, 1, N=8)


def test_an_empty_array_has_no_elements() -> None:
    with pytest.raises(OutOfBoundsError, match="it has no elements"):
        copy[(1,)](np.zeros(0, np.float32), np.zeros(8, np.float32), 0, 1, N=8)
    masked_copy[(1,)](np.zeros(0, np.float32), np.zeros(0, np.float32), 0, N=8)


def test_atomics_are_checked() -> None:
    x = np.zeros(10, np.float32)
    with pytest.raises(OutOfBoundsError, match=r"updates `x_ptr` at element 10, 1 past its end"):
        count[(1,)](x, 3, N=8)
    assert not x.any()
    count[(3,)](x, 2, N=8)
    np.testing.assert_array_equal(x, [0, 0] + [3] * 8)


def test_the_report_names_argument_program_element_and_line() -> None:
    x = np.zeros(40, np.float32)
    with pytest.raises(OutOfBoundsError) as caught:
        masked_copy[(4,)](x, np.zeros(64, np.float32), 64, N=16)
    text = str(caught.value)
    assert "`masked_copy` reads `x_ptr` at element 40, 1 past its end" in text
    assert "elements 0 to 39" in text
    assert "element [8] of the tile, in program (2, 0, 0) of grid (4, 1, 1)" in text
    assert "8 of 16 active elements" in text
    line = line_of(masked_copy, "tl.store")
    assert caught.value.loc is not None
    assert caught.value.loc.line == line
    assert re.search(rf"{line} \|     tl\.store\(o_ptr", text)
    assert "^^^^" in text


def test_a_fault_far_before_and_far_behind() -> None:
    x, out = np.zeros(8, np.float32), np.zeros(8, np.float32)
    for start, words in ((-(1 << 30), "before its start"), (1 << 30, "past its end")):
        with pytest.raises(OutOfBoundsError, match=words):
            copy[(1,)](x, out, start, 1, N=8)


def test_gathers_are_checked_element_by_element() -> None:
    x = np.arange(10, dtype=np.float32)
    index = np.array([3, 9, 0, 7, 7, 1, 2, 5], np.int32)
    out = np.zeros(8, np.float32)
    pick[(1,)](x, index, out, N=8)
    np.testing.assert_array_equal(out, x[index])
    index[4] = 10
    with pytest.raises(OutOfBoundsError, match=r"(?s)at element 10.*element \[4\] of the tile"):
        pick[(1,)](x, index, out, N=8)


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 40, 64])
def test_masked_lanes_may_point_anywhere(n: int) -> None:
    x = np.arange(n, dtype=np.float32)
    out = np.full(n, GUARD, np.float32)
    masked_copy[(4,)](x, out, n, N=16)
    np.testing.assert_array_equal(out, x)


@pytest.mark.parametrize(("m", "n"), [(5, 13), (8, 8), (1, 30), (17, 1), (16, 16)])
def test_masks_of_two_axes(m: int, n: int) -> None:
    whole = np.arange(m * (n + 3), dtype=np.float32).reshape(m, n + 3)
    out = np.full((m, n), GUARD, np.float32)
    grid = (tile.cdiv(m, 8), tile.cdiv(n, 8))
    masked_block[grid](whole[:, :n], out, m, n, n + 3, M=8, N=8)
    np.testing.assert_array_equal(out, whole[:, :n])


def test_a_missing_column_mask_on_a_square_tile_is_detected() -> None:
    x = np.zeros((8, 6), np.float32)
    with pytest.raises(OutOfBoundsError, match=r"element \[7, 6\] of the tile"):
        forgotten_column_mask[(1,)](x, np.zeros((8, 8), np.float32), 8, 6, M=8)


@tile.jit
def sum_of_arrays(table_ptr, o_ptr, count, N: tl.constexpr):
    i = tl.arange(0, N)
    total = tl.zeros((N,), tl.float32)
    for k in range(count):
        array = tl.load(table_ptr + k).to(tl.pointer_type(tl.float32))
        total += tl.load(array + i)
    tl.store(o_ptr + i, total)


def test_pointers_in_memory_are_followed_and_checked() -> None:
    arrays = [np.random.default_rng(k).random(8).astype(np.float32) for k in range(3)]
    out = np.zeros(8, np.float32)
    sum_of_arrays[(1,)](tile.pointers(arrays), out, 3, N=8)
    np.testing.assert_allclose(out, sum(arrays), rtol=1e-6)
    arrays[1] = arrays[1][:7]
    with pytest.raises(OutOfBoundsError, match=r"`table_ptr\[1\]` at element 7"):
        sum_of_arrays[(1,)](tile.pointers(arrays), out, 3, N=8)


def test_an_unknown_address_in_memory_is_a_fault() -> None:
    stray = np.zeros(8, np.float32)
    table = np.array([stray.ctypes.data], np.int64)
    with pytest.raises(OutOfBoundsError, match="belongs to no array of this launch"):
        sum_of_arrays[(1,)](table, np.zeros(8, np.float32), 1, N=8)


@tile.jit
def everybody_stores(x_ptr, N: tl.constexpr):
    value = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(x_ptr + tl.arange(0, N) // 2, value)


def test_of_several_stores_to_one_address_the_last_stays() -> None:
    x = np.zeros(4, np.int32)
    everybody_stores[(5,)](x, N=8)
    np.testing.assert_array_equal(x, 4 * 8 + np.array([1, 3, 5, 7]))


@pytest.mark.parametrize(("dtype", "described"), [("int32", "an int32"), ("uint8", "a uint8")])
def test_the_dtype_of_an_array_has_its_article(dtype: str, described: str) -> None:
    with pytest.raises(OutOfBoundsError, match=f"`x_ptr` is {described} array of shape"):
        copy[(1,)](np.zeros(4, dtype), np.zeros(8, dtype), 0, 1, N=8)


def test_more_arrays_than_a_launch_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual_memory, "MAX_ARRAYS", 2)
    copy[(1,)](np.zeros(8, np.float32), np.zeros(8, np.float32), 0, 1, N=8)
    with pytest.raises(
        ArgumentValueError, match="on the interpreter takes up to 2 arrays, with th"
    ):
        pick[(1,)](*(np.zeros(8, dtype) for dtype in ("f4", "i4", "f4")), N=8)


def test_an_array_that_spans_more_than_any_memory() -> None:
    far = np.lib.stride_tricks.as_strided(np.zeros(2, np.float32), (2,), (1 << 50,))
    with pytest.raises(ArgumentValueError, match=r"argument 'x_ptr' spans .* bytes from its first"):
        copy[(1,)](far, np.zeros(1, np.float32), 0, 1, N=1)
