"""Summary of `pytest --tile-sanitize`: what was checked, as lines at the end of the run."""

from __future__ import annotations

from typing import Any

import pytest

from tile.coverage import Coverage
from tile.faults import Report
from tile.in_force import covered, covering

KEY = "tile_coverage"


class CheckSummary:
    """A plugin that counts launches; processes of pytest-xdist send theirs to the first one."""

    def __init__(self) -> None:
        self.report = Report()
        self._counting = covered(*covering(), self.report)
        self._counting.__enter__()

    def stop(self) -> None:
        """Count no more launches."""
        self._counting.__exit__(None, None, None)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Send the counts of a worker process."""
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[KEY] = self.report.coverage.as_list()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take the counts of a worker process."""
        counts = Coverage.of(getattr(node, "workeroutput", {}).get(KEY, ()))
        for launched, times in counts.counts.items():
            self.report.coverage.add(launched, times)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print what was checked."""
        coverage = self.report.coverage
        if not coverage.checked:
            terminalreporter.write_line("tile: nothing was checked")
        for line in coverage.lines():
            terminalreporter.write_line(f"tile: {line}")
