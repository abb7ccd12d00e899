"""Bounded text for error messages: values, source lines and whole messages.

The values in a message are the user's: a tuple of a million items, an integer with a million
digits, an object whose `__repr__` raises. None of them may make a message unreadable or replace it
by another error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TypeVar

T = TypeVar("T")

VALUE = 200  # characters of a value
LINE = 160  # characters of a source line
MESSAGE = 8_000  # characters of a whole message
ITEMS = 40  # items of a tuple or list; `VALUE` may elide more of them
DEPTH = 16  # levels of tuples in tuples
DIGIT_BITS = 256  # integers of more bits are described by their size


def short_repr(
    value: object,
    limit: int = VALUE,
    *,
    show: Callable[[object], str] = repr,
    depth: int = DEPTH,
) -> str:
    """Return the `repr` (or `show`) of a value, clipped to about `limit` characters.

    Tuples below `depth` levels are elided. Never raises, whatever the value's own methods do.
    """
    try:
        if (
            type(value) is str
        ):  # clipped first, so that the middle of a long string is not formatted
            return clip(show(clip(value, limit)), 2 * limit)
        if isinstance(value, int) and value.bit_length() > DIGIT_BITS:
            return f"an integer of {value.bit_length()} bits"
        if type(value) is tuple:
            if depth == 0:
                return "(...)"
            items = join_values(value, partial(short_repr, depth=depth - 1))
            return f"({items}{',' if len(value) == 1 else ''})"
        return clip(show(value), limit)
    except Exception as error:  # noqa: BLE001 - whatever the value's own methods raise
        return f"<{type(value).__name__} object whose repr raises {type(error).__name__}>"


def join_values(values: Iterable[T], show: Callable[[T], str]) -> str:
    """Return the values separated by commas, with `...` for those beyond the limit."""
    return ", ".join(_join_values(values, show))


def _join_values(values: Iterable[T], show: Callable[[T], str]) -> Iterator[str]:
    remaining = VALUE  # characters
    for number, value in enumerate(values):
        if remaining <= 0 or number == ITEMS:
            yield "..."
            return
        text = show(value)
        remaining -= len(text)
        yield text


def clip(text: str, limit: int = MESSAGE) -> str:
    """Return the text, without its middle if it has more than `limit` characters."""
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit // 4
    return f"{text[:head]}... ({len(text) - head - tail:,} characters) ...{text[-tail:]}"


def clip_line(line: str, start: int, end: int, limit: int = LINE) -> tuple[str, int, int]:
    """Return the part of a long line around a span, and the span's start and end in that part."""
    if len(line) <= limit:
        return line, start, end
    left = max(0, min(start, len(line)) - limit // 4)
    right = min(len(line), left + limit)
    before, after = "..." * (left > 0), "..." * (right < len(line))
    shift = len(before) - left
    return f"{before}{line[left:right]}{after}", start + shift, min(end, right) + shift
