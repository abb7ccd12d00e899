"""`with tile.trace() as trace:`: what launches do with memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tile.accesses import Trace
from tile.in_force import traced
from tile.runtime.context import interpreted


@contextmanager
def trace() -> Iterator[Trace]:
    """Run all launches inside the `with` block on the interpreter, and record their accesses.

    The trace has the counts as text (`print(trace)`), as objects (`trace.kernels`), as JSON, and as
    a page, `trace.html(path)`; `trace.perfetto(path)` writes what programs did one after the other,
    for Perfetto. Holds for the current thread or task. Memory: at most a tenth of that of the
    arrays of a launch, and bounded beside that.
    """
    found = Trace()
    with interpreted("tile"), traced(found):
        yield found
