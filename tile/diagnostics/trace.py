"""`with tile.trace() as trace:`: record the memory accesses of launches."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tile._lazy import lazy_import
from tile.diagnostics import write_report
from tile.instrumentation import active_trace
from tile.runtime.target_selection import interpreted
from tile.trace_data import TraceData

if TYPE_CHECKING:
    from tile.diagnostics.pages.trace_page import trace_page
else:  # only pages need their library
    trace_page = lazy_import("tile.diagnostics.pages.trace_page", "trace_page")


@dataclass
class Trace(TraceData):
    """The accesses of launches, and their files: HTML, JSON, and a timeline for Perfetto."""

    def to_html(self) -> str:
        """Return the trace as one self-contained HTML page."""
        page: str = trace_page(json.loads(self.to_json()))
        return page

    def html(self, path: str | os.PathLike[str]) -> Path:
        """Write the HTML page and return its path. Raises `ArgumentValueError` if that fails."""
        return write_report(path, self.to_html(), "the trace")

    def json(self, path: str | os.PathLike[str]) -> Path:
        """Write the counts as JSON and return the path. Raises `ArgumentValueError` on failure."""
        return write_report(path, self.to_json(indent=1) + "\n", "the trace")

    def perfetto(self, path: str | os.PathLike[str]) -> Path:
        """Write the timeline in the trace event format, which Perfetto and Chrome open.

        Raises `ArgumentValueError` if that fails.
        """
        text = json.dumps(self.timeline.as_dict(), separators=(",", ":"))
        return write_report(path, text, "the timeline")


@contextmanager
def trace() -> Iterator[Trace]:
    """Run all launches inside the `with` block on the interpreter, and record their accesses.

    The trace provides the counts as text (`print(trace)`), as objects (`trace.kernels`), as JSON,
    and as a page, `trace.html(path)`; `trace.perfetto(path)` writes a timeline of the programs for
    Perfetto. Applies to the current thread or task. The memory overhead is at most a tenth of the
    arrays of a launch plus a constant.
    """
    recorded = Trace()
    with interpreted("tile"), active_trace.scope(recorded):
        yield recorded
