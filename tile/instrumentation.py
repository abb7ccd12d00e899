"""Active fault reports and traces of the current thread or task, which launches write to.

This module is separate from `tile.faults` and `tile.backends.interp.tracing.trace_data`, so that a
process that neither checks nor traces does not import those.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from tile.faults import LaunchKey

if TYPE_CHECKING:
    from tile.backends.interp.tracing.trace_data import Trace
    from tile.faults import Report

_COLLECTING: ContextVar[Report | None] = ContextVar("tile_report", default=None)
_COVERING: ContextVar[tuple[Report, ...]] = ContextVar("tile_covering", default=())
_TRACING: ContextVar[Trace | None] = ContextVar("tile_trace", default=None)


def active_report() -> Report | None:
    """Return the report that collects faults, or None if the first fault is raised."""
    return _COLLECTING.get()


@contextmanager
def collect_faults(report: Report | None) -> Iterator[None]:
    """Collect faults in `report` inside the `with` block; None raises them instead."""
    token = _COLLECTING.set(report)
    try:
        yield
    finally:
        _COLLECTING.reset(token)


def coverage_reports() -> tuple[Report, ...]:
    """Return the reports that count launches, outermost first."""
    return _COVERING.get()


@contextmanager
def cover_launches(*reports: Report) -> Iterator[None]:
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


def active_trace() -> Trace | None:
    """Return the trace that records launches, or None."""
    return _TRACING.get()


@contextmanager
def record_trace(trace: Trace) -> Iterator[None]:
    """Record the launches inside the `with` block in `trace`."""
    token = _TRACING.set(trace)
    try:
        yield
    finally:
        _TRACING.reset(token)
