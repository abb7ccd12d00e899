"""`with tile.sanitize(...)`: select the interpreter's checks, and raise or collect faults."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tile.config import config
from tile.errors import ArgumentTypeError, ArgumentValueError
from tile.faults import Report, parse_checks
from tile.instrumentation import collect_faults, cover_launches, coverage_reports


@contextmanager
def sanitize(checks: str | Iterable[str] = "all", *, collect: bool = False) -> Iterator[Report]:
    """Run all launches inside the `with` block under checks, on the interpreter.

    checks: a text such as `"race,undef"`, `"all"` or `"none"`, or a list of names: bounds, race,
        undef, overflow, assume.
    collect: if False, the first fault raises its error of `tile.errors`. If True, runs continue
        (without the faulting access), and the report, the value of the `with` block, has all
        faults.

    The report always says what was checked. Applies to the current thread or task. Raises
    `ArgumentError` for unknown checks; launches that do not support the checks, as on a GPU, raise
    `UnsupportedError`.
    """
    try:
        chosen = parse_checks(checks)
    except ValueError as error:
        raise ArgumentValueError(f"tile.sanitize: {error}") from None
    except TypeError as error:
        raise ArgumentTypeError(f"tile.sanitize: {error}") from None
    report = Report()
    with (
        config.scope(sanitize=chosen),
        collect_faults(report if collect else None),
        cover_launches(*coverage_reports(), report),
    ):
        yield report
