"""Active fault reports and traces of the current thread or task, which launches write to.

This module is separate from `tile.faults` and `tile.trace_data`, so that a
process that neither checks nor traces does not import those.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from tile.faults import LaunchKey

if TYPE_CHECKING:
    from tile.faults import FaultLog
    from tile.trace_data import TraceData

_COLLECTING: ContextVar[FaultLog | None] = ContextVar("tile_report", default=None)
_COVERING: ContextVar[tuple[FaultLog, ...]] = ContextVar("tile_covering", default=())
_TRACING: ContextVar[TraceData | None] = ContextVar("tile_trace", default=None)


def active_report() -> FaultLog | None:
    """Return the report that collects faults, or None if the first fault is raised."""
    return _COLLECTING.get()


@contextmanager
def collect_faults(report: FaultLog | None) -> Iterator[None]:
    """Collect faults in `report` inside the `with` block; None raises them instead."""
    token = _COLLECTING.set(report)
    try:
        yield
    finally:
        _COLLECTING.reset(token)


def coverage_reports() -> tuple[FaultLog, ...]:
    """Return the reports that count launches, outermost first."""
    return _COVERING.get()


@contextmanager
def cover_launches(*reports: FaultLog) -> Iterator[None]:
    """Count the launches inside the `with` block in these reports only."""
    token = _COVERING.set(reports)
    try:
        yield
    finally:
        _COVERING.reset(token)


def count_launch(launched: LaunchKey) -> None:
    """Count a launch in all active reports."""
    for report in coverage_reports():
        report.coverage.add(launched)


def active_trace() -> TraceData | None:
    """Return the trace that records launches, or None."""
    return _TRACING.get()


@contextmanager
def record_trace(trace: TraceData) -> Iterator[None]:
    """Record the launches inside the `with` block in `trace`."""
    token = _TRACING.set(trace)
    try:
        yield
    finally:
        _TRACING.reset(token)
