"""Text of bounded length, whatever the values in it are."""

from __future__ import annotations

import linecache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tile.errors import TileError
from tile.location import Loc
from tile.short_repr import DEPTH, VALUE, clip, clip_line, short_repr


class Raising:
    def __repr__(self):
        raise KeyError("no")


class Large:
    def __repr__(self):
        return "y" * 10**7


def nested(depth):
    value = ()
    for _ in range(depth):
        value = (value,)
    return value


LARGE = {
    "text": "x" * 10**7,
    "text to be escaped": "\0" * 10**7,
    "a tuple": tuple(range(10**6)),
    "a tuple of tuples": ((("x" * 100,) * 100,) * 100,) * 100,
    "a deep tuple": nested(5000),
    "a list": [1] * 10**6,
    "an integer": 1 << 10**7,
    "a negative integer": -(1 << 10**7),
    "an object": Large(),
    "what cannot be shown": Raising(),
    "bytes": b"x" * 10**6,
}


@pytest.mark.parametrize("value", LARGE.values(), ids=LARGE)
def test_values_of_any_size_are_shown_in_a_line(value):
    assert len(short_repr(value)) < 5 * VALUE


def test_tuples_in_tuples_are_shown_to_a_depth_of_their_own():
    """It was the depth at which Python raised RecursionError, which differs between its versions."""
    assert short_repr(nested(DEPTH - 1)) == repr(nested(DEPTH - 1))
    assert short_repr(nested(5000)) == "(" * DEPTH + "(...)" + ",)" * DEPTH


@pytest.mark.parametrize("value", [0, -3, 1.5, "a\nb", (), (1,), (1, ("a", None)), True, 1 << 64])
def test_small_values_are_shown_as_they_are(value):
    assert short_repr(value) == repr(value)


@pytest.mark.parametrize("value", ["x" * 20_000_000])
def test_errors_are_short_whatever_their_values(value):
    error = TileError(f"wrong: {value}", notes=[value, value])
    error.notes.append(value)
    assert len(str(error)) < 40_000
    assert len(error.message) < 10_000


def test_of_a_long_line_the_part_at_the_caret_is_shown(tmp_path):
    file = tmp_path / "long.py"
    file.write_text("x = " + "a + " * 250_000 + "wrong" + " + a" * 250_000 + "\n")
    at = file.read_text().index("wrong")
    shown = Loc(str(file), 1, at, at + 5).excerpt()
    linecache.clearcache()
    line, carets = shown.splitlines()
    assert len(line) < 200
    assert line[carets.index("^") : carets.rindex("^") + 1] == "wrong"


@given(st.text("ab", max_size=40), st.integers(0, 40), st.integers(0, 40))
def test_windows_hold_the_span_or_its_beginning(line, start, length):
    start = min(start, len(line))
    end = min(start + length, len(line))
    text, first, last = clip_line(line, start, end, 12)
    assert len(text) <= 18
    assert line[start:end].startswith(text[first:last])
    assert last - first >= min(end - start, 9)


@given(st.text("ab", max_size=40), st.integers(1, 20))
def test_what_is_short_is_not_clipped(text, limit):
    assert clip(text, limit) == text or len(text) > limit
