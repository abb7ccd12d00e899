"""Reports and traces in force: those that launches of the current thread or task go to.

This module stands apart from `tile.faults` and `tile.accesses`, which a process that neither checks
nor traces does not import.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from tile.coverage import Launched

if TYPE_CHECKING:
    from tile.accesses import Trace
    from tile.faults import Report

_COLLECTING: ContextVar[Report | None] = ContextVar("tile_report", default=None)
_COVERING: ContextVar[tuple[Report, ...]] = ContextVar("tile_covering", default=())
_TRACING: ContextVar[Trace | None] = ContextVar("tile_trace", default=None)


def collecting() -> Report | None:
    """The report that takes faults here; None: the first fault is raised."""
    return _COLLECTING.get()


@contextmanager
def collected(report: Report | None) -> Iterator[None]:
    """Let faults go to a report inside the `with` block, or be raised."""
    token = _COLLECTING.set(report)
    try:
        yield
    finally:
        _COLLECTING.reset(token)


def covering() -> tuple[Report, ...]:
    """The reports that count launches here, the outermost first."""
    return _COVERING.get()


@contextmanager
def covered(*reports: Report) -> Iterator[None]:
    """Let these reports, and no others, count the launches inside the `with` block."""
    token = _COVERING.set(reports)
    try:
        yield
    finally:
        _COVERING.reset(token)


def cover(launched: Launched) -> None:
    """Count a launch in the reports that do."""
    for report in covering():
        report.coverage.add(launched)


def tracing() -> Trace | None:
    """The trace that launches are recorded in here."""
    return _TRACING.get()


@contextmanager
def traced(trace: Trace) -> Iterator[None]:
    """Record launches inside the `with` block."""
    token = _TRACING.set(trace)
    try:
        yield
    finally:
        _TRACING.reset(token)
