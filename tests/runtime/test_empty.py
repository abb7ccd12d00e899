"""`tile.empty`: arrays that track which elements were written."""

from __future__ import annotations

import copy as copy_module

import numpy as np
import pytest

import tile
import tile.language as tl
from tile.errors import ArgumentTypeError, ArgumentValueError, UndefinedValueError


@tile.jit
def copy(x_ptr, o_ptr, step, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o_ptr + i, tl.load(x_ptr + i * step))


def reads(x, step=1, n=8) -> bool:
    """Return True if a kernel may read the first elements of a view."""
    try:
        with tile.sanitize("undef"):
            copy[(1,)](x, np.zeros(n, np.float32), step, N=n)
    except UndefinedValueError:
        return False
    return True


def test_nothing_is_written_at_first() -> None:
    assert not reads(tile.empty(8))
    copy[(1,)](tile.empty(8), np.zeros(8, np.float32), 1, N=8)


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.__setitem__(slice(None), 1),
        lambda x: x.fill(1),
        lambda x: np.add(1, 1, out=x),
        lambda x: x.mark_written(),
        lambda x: x.reshape(2, 4).__setitem__(slice(None), 1),
        lambda x: x[::-1].__setitem__(slice(None), 1),
        lambda x: [x.__setitem__(i, i) for i in range(8)],
        lambda x: x.__iadd__(1),
    ],
)
def test_writing_by_the_host(write) -> None:
    x = tile.empty(8)
    write(x)
    assert reads(x)


def test_writing_in_part() -> None:
    x = tile.empty(16)
    x[1::2] = 1
    assert not reads(x)
    assert reads(x[1::2], 2)
    assert not reads(x[::2], 2)
    assert reads(x[15::-2], -2)
    x[0:8:2] = 1
    assert reads(x)
    assert not reads(x[8:])


def test_kernels_write() -> None:
    x = tile.empty(8)
    with tile.sanitize("undef"):
        copy[(1,)](np.ones(8, np.float32), x, 1, N=8)
    assert reads(x)


def test_columns_of_a_matrix() -> None:
    x = tile.empty((8, 3))
    x[:, 1] = 1
    assert reads(x[:, 1], 3)
    assert not reads(x[:, 0], 3)


def test_results_of_arithmetic_are_plain() -> None:
    x = tile.empty(8)
    assert type(x + 1) is np.ndarray
    assert reads(x + 1)


COPIES = [
    lambda x: x.copy(),
    lambda x: np.copy(x),
    lambda x: copy_module.copy(x),
    lambda x: copy_module.deepcopy(x),
    lambda x: x.copy(order="F"),
    lambda x: x.astype(np.float64).astype(np.float32),
    lambda x: x.astype(np.float32, copy=False),
    lambda x: x.flatten(),
    lambda x: np.ravel(x),
    lambda x: x.reshape(2, 8).T.reshape(16).reshape(8, 2).T.ravel(),
    lambda x: x.reshape(2, 8)[:, ::-1].copy()[:, ::-1].ravel(),
    lambda x: x[np.arange(16)],
    lambda x: x[np.ones(16, bool)],
    lambda x: np.take(x, range(16)),
    lambda x: x.repeat(2)[::2],
    lambda x: np.concatenate([x[:8], x[8:]], dtype=np.float32),
    lambda x: np.concatenate([x[:8], x[8:], np.ones(8, np.float32)]),
    lambda x: np.stack([x, x])[1],
    lambda x: np.vstack([np.ones(16, np.float32), x])[1],
    lambda x: np.split(x, 1)[0],
    lambda x: np.tile(x, 2)[16:],
    lambda x: np.roll(np.roll(x, 3), -3),
    lambda x: np.flip(np.flip(x).copy()),
    lambda x: np.broadcast_to(x, (2, 16)).copy()[1],
    lambda x: assigned(x),
    lambda x: copied_to(x),
]


def assigned(x):
    """A copy by assignment to all elements."""
    result = tile.empty(16)
    result[...] = 1
    result[:] = x
    return result


def copied_to(x):
    """A copy by `np.copyto`, in two parts."""
    result = tile.empty(16)
    even = np.arange(16) % 2 == 0
    np.copyto(result, x, where=even)
    np.copyto(result, x, where=~even)
    return result


@pytest.mark.parametrize("copied", COPIES)
def test_what_was_written_follows_copies(copied) -> None:
    x = tile.empty(16)
    x[:8] = np.arange(8)
    y = copied(x)
    step = y.strides[0] // y.itemsize
    assert reads(y, step) and not reads(y[1:], step), "as in the original"
    x[8:] = 8
    if not np.shares_memory(x, y):
        assert not reads(y[1:], step), "a mask of its own"
        y[8:] = 9
    assert reads(y[8:], step)


def test_copies_of_copies() -> None:
    x = tile.empty(8)
    copies = [x.copy() for _ in range(50)]
    del x
    assert not any(reads(c.copy()) for c in copies)
    for each in copies:
        each.fill(1)
    assert all(reads(c.copy()) for c in copies)


def test_copies_to_plain_arrays_have_no_account() -> None:
    x, plain = tile.empty(8), np.zeros(8, np.float32)
    plain[...] = x
    assert reads(plain)
    np.copyto(plain, x)
    assert reads(plain)
    assert type(np.array(x)) is np.ndarray
    assert reads(np.array(x))


def test_parts_of_out_are_written() -> None:
    x = tile.empty(8)
    np.add(1, 1, out=x, where=np.arange(8) < 4)
    assert reads(x, n=4) and not reads(x)


def test_arrays_without_elements() -> None:
    x = tile.empty((0, 3))
    assert x.copy().shape == x.astype(np.int32).shape == x[::2].shape == (0, 3)
    assert np.concatenate([x, tile.empty((2, 3))]).shape == (2, 3)


def test_bad_shapes_and_dtypes() -> None:
    with pytest.raises(ArgumentValueError):
        tile.empty(-1)
    with pytest.raises(ArgumentTypeError):
        tile.empty("eight")
    with pytest.raises(ArgumentTypeError):
        tile.empty(8, "no dtype")


def test_an_array_may_be_declared_uninitialized() -> None:
    x = np.ones(8, np.float32)
    marked = tile.uninitialized(x)
    assert not reads(marked) and reads(x)
    marked[:4] = 2
    assert reads(marked, n=4) and not reads(marked)
    np.testing.assert_array_equal(x, [2, 2, 2, 2, 1, 1, 1, 1])
    assert not reads(tile.uninitialized(marked), n=4)


@pytest.mark.parametrize(
    ("array", "error"), [([1.0], ArgumentTypeError), (np.zeros((4, 4)).T[1:], ArgumentValueError)]
)
def test_arrays_that_cannot_be_uninitialized(array, error) -> None:
    with pytest.raises(error, match=r"tile\.uninitialized takes a"):
        tile.uninitialized(array)
