"""Views whose accessible memory is their storage."""

from __future__ import annotations

import numpy as np
import pytest

import tile
import tile.language as tl
from tile.backends.base import accessible
from tile.errors import OutOfBoundsError
from tile.runtime.arguments.overlap import may_overlap
from tile.runtime.arguments.storage_view import StorageView, with_storage


def in_storage(view: np.ndarray, storage: np.ndarray) -> StorageView:
    """Return a view that kernels may leave."""
    result = view.view(StorageView)
    low = storage.ctypes.data - view.ctypes.data
    result.storage_span = low, low + storage.nbytes
    return result


@tile.jit
def move(x, y, first: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y + first + at, tl.load(x + first + at) + 1)


@pytest.mark.parametrize("part", [slice(4, 8), slice(2, 14, 3), slice(9, 3, -2)], ids=str)
def test_all_of_the_storage_is_accessible(part: slice) -> None:
    x, y = np.arange(16, dtype=np.int32), np.zeros(16, np.int32)
    views = [in_storage(array[part], array) for array in (x, y)]
    first = -part.start
    move[1,](*views, first, 16)
    np.testing.assert_array_equal(y, x + 1)
    for wrong, message in ((first - 1, "before the start of"), (first + 1, "1 past the end of")):
        with pytest.raises(OutOfBoundsError, match=message) as caught:
            move[1,](*views, wrong, 16)
        text = f"its storage has elements {first} to {first + 15}"
        assert any(text in note for note in caught.value.notes)


def test_other_checks_follow_the_storage() -> None:
    x, y = np.arange(16, dtype=np.int32), np.zeros(16, np.int32)
    with tile.sanitize("all"):
        move[1,](in_storage(x[4:8], x), in_storage(y[4:8], y), -4, 16)
    np.testing.assert_array_equal(y, x + 1)


def test_views_of_one_storage_overlap() -> None:
    x = np.arange(16, dtype=np.int32)
    assert not may_overlap(x[:4], x[8:])
    assert may_overlap(in_storage(x[:4], x), in_storage(x[8:], x))
    assert accessible(in_storage(x[8:], x)) == (-32, 32)


def test_arrays_of_numpy_keep_their_bounds() -> None:
    x = np.arange(16, dtype=np.int32)[4:8]
    assert with_storage(x) is x
    assert with_storage((x, 3))[0] is x
