"""`with tile.trace() as trace:`: record the memory accesses of launches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tile.backends.interp.tracing.trace_data import Trace
from tile.instrumentation import record_trace
from tile.runtime.target_selection import interpreted


@contextmanager
def trace() -> Iterator[Trace]:
    """Run all launches inside the `with` block on the interpreter, and record their accesses.

    The trace provides the counts as text (`print(trace)`), as objects (`trace.kernels`), as JSON,
    and as a page, `trace.html(path)`; `trace.perfetto(path)` writes a timeline of the programs for
    Perfetto. Applies to the current thread or task. The memory overhead is at most a tenth of the
    arrays of a launch plus a constant.
    """
    recorded = Trace()
    with interpreted("tile"), record_trace(recorded):
        yield recorded
