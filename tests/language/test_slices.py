"""Static slices and elements of tiles, against NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tile.language as tl
from tests.language.sketch import Sketch
from tile.errors import CompilationError
from tile.language import operators
from tile.language.base.constexpr import constexpr

X = np.arange(256, dtype=np.int32).reshape(2, 8, 16)

# An index, and the operations that it takes.
CASES: list[tuple[Any, str]] = [
    (np.s_[:, :100], ""),
    (np.s_[:, :, ::-1], "flip"),
    (np.s_[0], "trans split"),
    (np.s_[:, :, 1::2], "reshape split"),
    (np.s_[:, 2:4], "reshape trans reshape split split split"),
    (np.s_[:, 6::-2], "reshape trans split flip"),
    (np.s_[None, ..., 8:, None], "reshape trans split expand_dims expand_dims"),
    (np.s_[1, 3, 5], "reshape arange const cmp const select reduce"),
    (np.s_[0:1, 0:1, 0:1], "reshape arange const cmp const select reduce splat"),
]


def subscripted(x: np.ndarray[Any, Any], index: Any, element: str) -> tuple[Any, list[str]]:
    sketch = Sketch(f"tile<{'x'.join(map(str, x.shape))}x{element}>")
    result = operators.subscript(sketch.build, sketch.args[0], index)
    names = [line.partition(" = ")[2].split()[0] for line in sketch.text()]
    return sketch.run(result, x), names


@pytest.mark.parametrize(("index", "operations"), CASES, ids=repr)
def test_slices_take_few_operations(index: Any, operations: str) -> None:
    actual, names = subscripted(X, index, "i32")
    np.testing.assert_array_equal(actual, X[index])
    assert " ".join(names) == operations


@pytest.mark.parametrize(
    "index", [np.s_[:, 3:7], np.s_[:, 6:2:-1, 0], np.s_[1, 1:7:3, 15::-4]], ids=repr
)
def test_slices_that_are_not_aligned_are_gathered(index: Any) -> None:
    actual, names = subscripted(X, index, "i32")
    np.testing.assert_array_equal(actual, X[index])
    assert names.count("gather") == 1


@st.composite
def selections(draw: st.DrawFn, extent: int) -> int | slice:
    """An index or a slice of some elements."""
    if draw(st.booleans()):
        return draw(st.integers(-extent, extent - 1))
    count = draw(st.integers(1, extent))
    step = draw(st.integers(1, max(1, (extent - 1) // max(1, count - 1))))
    start = draw(st.integers(0, extent - 1 - step * (count - 1)))
    positions = range(start, start + step * count, step)
    if draw(st.booleans()):
        positions = positions[::-1]
    stop = positions.stop if positions.stop >= 0 else None
    return slice(positions.start, stop, positions.step)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from([1, 2, 3, 8, 12, 16]), min_size=1, max_size=3), st.data())
def test_any_selection_is_that_of_numpy(shape: list[int], data: Any) -> None:
    index = tuple(data.draw(selections(extent)) for extent in shape)
    x = np.arange(math.prod(shape), dtype=np.int32).reshape(shape)
    actual, _ = subscripted(x, index, "i32")
    np.testing.assert_array_equal(actual, x[index])


def test_elements_keep_their_bits() -> None:
    x = np.array([-0.0, np.nan, 1.5, -np.inf] * 4, np.float32)
    for index in range(4):
        actual, _ = subscripted(x, index, "f32")
        assert np.asarray(actual).tobytes() == x[index].tobytes()


def test_constants_are_indices() -> None:
    sketch = Sketch("tile<8xi32>")
    two = tl.to_tensor.emit(sketch.build, 2)
    result = operators.subscript(sketch.build, sketch.args[0], slice(constexpr(0), two))
    np.testing.assert_array_equal(sketch.run(result, np.arange(8, dtype=np.int32)), [0, 1])


def test_a_runtime_index_is_refused_with_what_to_write() -> None:
    sketch = Sketch("tile<8xi32>", "i32")
    with pytest.raises(CompilationError, match="known when the kernel is compiled") as caught:
        operators.subscript(sketch.build, *sketch.args)
    assert "tl.gather" in caught.value.notes[0]


def test_a_pointer_is_loaded_from() -> None:
    sketch = Sketch("ptr<f32>")
    with pytest.raises(CompilationError, match=r"too many indices.*tl\.load\(pointer \+ index\)"):
        operators.subscript(sketch.build, sketch.args[0], 3)


@pytest.mark.parametrize("count", [2, 4, 8])
def test_split_gives_the_elements_of_the_last_axis(count: int) -> None:
    x = np.arange(4 * count, dtype=np.int32).reshape(4, count)
    sketch = Sketch(f"tile<4x{count}xi32>")
    parts = sketch.run(tl.split.emit(sketch.build, *sketch.args), x)
    assert len(parts) == count
    np.testing.assert_array_equal(np.stack(parts, -1), x)


def test_split_of_one_axis_gives_scalars() -> None:
    sketch = Sketch("tile<4xi32>")
    parts = sketch.run(tl.split.emit(sketch.build, *sketch.args), np.arange(4, dtype=np.int32))
    assert [int(part) for part in parts] == [0, 1, 2, 3]
