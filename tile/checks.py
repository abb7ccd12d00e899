"""The checks that a run under the interpreter can do, and how users choose among them."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import TypeAlias


class Check(enum.StrEnum):
    """What is looked for."""

    BOUNDS = "bounds"  # accesses outside the array or view that was passed
    RACE = "race"  # accesses of two programs, one a write, that nothing orders
    UNDEF = "undef"  # values that nobody defined, where they matter
    OVERFLOW = "overflow"  # signed arithmetic that wrapped and decides where memory is accessed
    ASSUME = "assume"  # promises to the compiler that are false
    DEADLOCK = "deadlock"  # programs that wait for what nobody is left to do


Checks: TypeAlias = frozenset[Check]

ALL: Checks = frozenset(Check)
NONE: Checks = frozenset()
# A run cannot help noticing these: addresses are looked up by array, and a wait without end is the
# end of it.
ALWAYS: Checks = frozenset({Check.BOUNDS, Check.DEADLOCK})

_WORDS: dict[str, Checks] = {"all": ALL, "none": NONE, **{c.value: frozenset({c}) for c in Check}}


def spelled(checks: Checks) -> str:
    """Return the names of checks, in the order in which they are declared."""
    return ", ".join(check.value for check in Check if check in checks)


def choose(chosen: str | Iterable[str]) -> Checks:
    """The checks of a text such as `race,undef`, `all` or `none`, or of several names.

    Raises `ValueError` for a name that does not exist, and `TypeError` for what holds no names.
    """
    texts = [chosen] if isinstance(chosen, str) else list(chosen)
    found: Checks = NONE
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"a check is named by a text, not {text!r}")
        for word in filter(None, text.replace(" ", "").split(",")):
            if word not in _WORDS:
                known = ", ".join(check.value for check in Check)
                raise ValueError(f"there is no check {word!r}; there are {known}, all and none")
            found |= _WORDS[word]
    return found
