"""Values of the current thread or task: the active fault reports and traces that launches write to.

This module is separate from `tile.trace_data`, which a process that does not trace does not import.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from tile.checks import LaunchKey
    from tile.faults import FaultLog
    from tile.trace_data import TraceData

T = TypeVar("T")


class Scoped(Generic[T]):
    """A value of the current thread or task, which `with` blocks set. A call returns it.

    `get` does, too, in less time.
    """

    def __init__(self, name: str, default: T) -> None:
        self._variable: ContextVar[T] = ContextVar(name, default=default)
        self.get: Callable[[], T] = self._variable.get

    def __call__(self) -> T:
        return self._variable.get()

    @contextmanager
    def scope(self, value: T) -> Iterator[None]:
        """Set the value inside the `with` block."""
        token = self._variable.set(value)
        try:
            yield
        finally:
            self._variable.reset(token)


# The report that collects faults, or None if the first fault is raised.
active_report: Scoped[FaultLog | None] = Scoped("tile_report", None)
# The reports that count launches, outermost first.
coverage_reports: Scoped[tuple[FaultLog, ...]] = Scoped("tile_covering", ())
# The trace that records launches, or None.
active_trace: Scoped[TraceData | None] = Scoped("tile_trace", None)


def count_launch(launched: LaunchKey) -> None:
    """Count a launch in all active reports."""
    for report in coverage_reports():
        report.coverage.add(launched)
