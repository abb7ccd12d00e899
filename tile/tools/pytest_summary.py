"""Summarize `pytest --tile-sanitize`: the coverage of the checks, at the end of the run."""

from __future__ import annotations

from typing import Any

import pytest

from tile.faults import Coverage, FaultLog
from tile.instrumentation import coverage_reports

KEY = "tile_coverage"


class CheckSummary:
    """A plugin that counts launches; pytest-xdist's workers send their counts to the controller."""

    def __init__(self) -> None:
        self.report = FaultLog()
        self._counting = coverage_reports.scope((*coverage_reports(), self.report))
        self._counting.__enter__()

    def stop(self) -> None:
        """Stop counting launches."""
        self._counting.__exit__(None, None, None)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Send the counts of a worker process."""
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[KEY] = self.report.coverage.as_list()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Add the counts of a worker process."""
        counts = Coverage.of(getattr(node, "workeroutput", {}).get(KEY, ()))
        for launch, times in counts.counts.items():
            self.report.coverage.add(launch, times)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the coverage of the checks."""
        coverage = self.report.coverage
        if not coverage.checked:
            terminalreporter.write_line("tile: nothing was checked")
        for line in coverage.lines():
            terminalreporter.write_line(f"tile: {line}")
