"""`with tile.sanitize(...)`: which checks the interpreter does, and what becomes of faults."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tile.checks import choose
from tile.config import config
from tile.errors import ArgumentTypeError, ArgumentValueError
from tile.faults import Report
from tile.in_force import collected, covered, covering


@contextmanager
def sanitize(checks: str | Iterable[str] = "all", *, collect: bool = False) -> Iterator[Report]:
    """Do these checks in all launches inside the `with` block, on the interpreter.

    `checks` is a text such as `"race,undef"`, `"all"` or `"none"`, or several names: bounds, race,
    undef, overflow, assume. The first fault raises its error of `tile.errors`; with `collect` runs
    go on (an access that faults is left out) and the report, which the block is given, has all
    faults. The report says in either case what was checked. Holds for the current thread or task.
    Raises `ArgumentError` for what is no check; launches that cannot do the checks, as on a GPU,
    raise `UnsupportedError`.
    """
    try:
        chosen = choose(checks)
    except ValueError as error:
        raise ArgumentValueError(f"tile.sanitize: {error}") from None
    except TypeError as error:
        raise ArgumentTypeError(f"tile.sanitize: {error}") from None
    report = Report()
    with (
        config.scope(sanitize=chosen),
        collected(report if collect else None),
        covered(*covering(), report),
    ):
        yield report
