"""Which random words keep an element: as those whose number is above p."""

from __future__ import annotations

import numpy as np
import pytest

import tile
import tile.ops
from tile.ops.pointwise.dropout import dropout_reference, uniform, words_above


@pytest.mark.parametrize("p", [0.0, 1e-9, 0.1, 0.5, 0.9999999, float(np.nextafter(1.0, 0.0))])
def test_words_above(p: float) -> None:
    first, count = words_above(p)
    ends = [first - 1, first, first + count - 1, first + count, 0, 2**31 - 1, 2**31, 2**32 - 1]
    words = (np.array(ends, np.int64) % 2**32).astype(np.uint32)
    assert (((words - np.uint32(first)) < count) == (uniform(words) > np.float32(p))).all()
    x = np.ones(3000, np.float32)
    with tile.backend("interp"):
        result = tile.ops.dropout(x, p, 3)
    assert ((result != 0) == (dropout_reference(x, p, 3) != 0)).all()
