"""Parsers of the texts of settings; each raises `ValueError` with what was expected."""

from __future__ import annotations

from collections.abc import Callable

_FLAGS = {
    **dict.fromkeys(("", "0", "false", "no", "off"), False),
    **dict.fromkeys(("1", "true", "yes", "on"), True),
}


def flag(text: str) -> bool:
    """Return the value of a flag."""
    if text.lower() not in _FLAGS:
        raise ValueError("expected 1, true, yes or on, or 0, false, no or off")
    return _FLAGS[text.lower()]


def positive(text: str) -> int:
    """Return a positive integer."""
    if not text.isdecimal() or int(text) < 1:
        raise ValueError("expected a positive integer")
    return int(text)


def names(text: str) -> tuple[str, ...]:
    """Return the names in a list with commas."""
    return tuple(name for name in text.replace(" ", "").split(",") if name)


def one_of(*words: str) -> Callable[[str], str]:
    """Return the parser of one of these words."""

    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(f"expected one of {', '.join(words)}")
        return text

    return parse


def order(text: str) -> str | int | None:
    """Return an order of programs: none, `reverse`, or the seed of a random one."""
    if text in ("", "reverse"):
        return text or None
    if not text.isdecimal():
        raise ValueError("expected reverse, or an integer seed for a random order")
    return int(text)


_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def number_of_bytes(text: str) -> int:
    """Return a number of bytes, which may have a unit."""
    number = text.strip().lower().removesuffix("b").removesuffix("i")
    digits = number.rstrip("kmgt")
    unit = number[len(digits) :]
    if unit not in _UNITS or not digits.strip().isdecimal():
        raise ValueError("expected a number of bytes, such as 4096, 500M or 2G")
    return int(digits) << _UNITS[unit]
