"""`with tile.sanitize(...)`: select the interpreter's checks, and raise or collect faults."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tile._lazy import lazy_import
from tile.backends.base import requested_checks
from tile.config import config
from tile.diagnostics import write_report
from tile.errors import ArgumentValueError
from tile.faults import FaultLog
from tile.instrumentation import active_report, coverage_reports

if TYPE_CHECKING:
    from tile.diagnostics.pages.fault_page import faults_page
else:  # only pages need their library
    faults_page = lazy_import("tile.diagnostics.pages.fault_page", "faults_page")


@dataclass
class Report(FaultLog):
    """The faults that checks found, and their files: HTML, JSON or text."""

    def to_html(self) -> str:
        """Return the report as one self-contained HTML page."""
        page: str = faults_page(json.loads(self.to_json()))
        return page

    def html(self, path: str | os.PathLike[str]) -> Path:
        """Write the HTML page and return its path. Raises `ArgumentValueError` if that fails."""
        return self._write(path, self.to_html())

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the report in the format of the path's suffix: `.html`, `.json` or `.txt`.

        Raises `ArgumentValueError` for other suffixes and if the file cannot be written.
        """
        suffix = Path(path).suffix.lower()
        if suffix not in FORMATS:
            raise ArgumentValueError(
                f"the format of a report is its path's suffix, one of {', '.join(FORMATS)}; "
                f"{str(path)!r} has another"
            )
        return self._write(path, FORMATS[suffix](self))

    def _write(self, path: str | os.PathLike[str], text: str) -> Path:
        return write_report(path, text, "the report")


# The formats of saved reports, by suffix.
FORMATS: dict[str, Callable[[Report], str]] = {
    ".html": Report.to_html,
    ".json": Report.to_json,
    ".txt": lambda report: f"{report}\n",
}


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
    chosen = requested_checks(checks, "tile.sanitize")
    report = Report()
    with (
        config.scope(sanitize=chosen),
        active_report.scope(report if collect else None),
        coverage_reports.scope((*coverage_reports(), report)),
    ):
        yield report
