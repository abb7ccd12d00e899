"""The names of the interpreter's checks, and the text by which users select them.

This module is separate from `tile.faults`, which a process whose launches are not checked does not
import.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias


class Check(enum.StrEnum):
    """A class of faults."""

    BOUNDS = "bounds"  # accesses outside the array or view that was passed
    RACE = "race"  # unordered accesses of two programs, at least one of them a write
    UNDEF = "undef"  # undefined values that reach memory, a branch or an address
    OVERFLOW = "overflow"  # signed arithmetic that wrapped on its way to an address or a mask
    ASSUME = "assume"  # promises to the compiler that are false
    DEADLOCK = "deadlock"  # programs that wait for something no program can do any more


Checks: TypeAlias = frozenset[Check]

ALL: Checks = frozenset(Check)
NONE: Checks = frozenset()
# Every run detects these: addresses are looked up by array, and a run cannot continue after a
# deadlock.
ALWAYS: Checks = frozenset({Check.BOUNDS, Check.DEADLOCK})

_WORDS: dict[str, Checks] = {"all": ALL, "none": NONE, **{c.value: frozenset({c}) for c in Check}}


def format_checks(checks: Checks) -> str:
    """Return the names of checks, in the order in which they are declared."""
    return ", ".join(check.value for check in Check if check in checks)


def parse_checks(selection: str | Iterable[str]) -> Checks:
    """Return the checks selected by a text such as `race,undef`, `all` or `none`, or by names.

    Raises `ValueError` for an unknown name, and `TypeError` for anything but strings.
    """
    texts = [selection] if isinstance(selection, str) else list(selection)
    checks: Checks = NONE
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"a check is named by a text, not {text!r}")
        for word in filter(None, text.replace(" ", "").split(",")):
            if word not in _WORDS:
                names = ", ".join(check.value for check in Check)
                raise ValueError(f"there is no check {word!r}; there are {names}, all and none")
            checks |= _WORDS[word]
    return checks


@dataclass(frozen=True)
class LaunchKey:
    """Launches of one kernel on one target, with the checks that ran (none: unchecked)."""

    kernel: str
    target: str
    checks: Checks
