"""Warnings about spin loops that may never end on a GPU."""

from __future__ import annotations

from tile.analysis.spin_loops import spin_loops
from tile.ir.core import Module
from tile.ir.passes import module_pass
from tile.tracebacks import warn


@module_pass("warn-spin-loops")
def warn_spin_loops(module: Module) -> None:
    """Warn about loops that wait for another program by a plain load.

    The IR is unchanged. A load that is not volatile may be hoisted, or served by a cache that is
    not coherent with the writes of other multiprocessors.

        while {
          %v = load %flag : i32          // warning: volatile=True, or an atomic operation
          %t = cmp %v, %zero {predicate = eq} : i1
          condition %t
        } do {
          yield
        }
    """
    for loop, load in spin_loops(module):
        warn(
            "a GPU may never observe the change that this loop waits for: it reads by a plain "
            f"load, at {load.loc}, which may be hoisted out of the loop; read by "
            "tl.load(..., volatile=True), or by an atomic operation such as tl.atomic_add(ptr, 0), "
            "which also orders the accesses after it",
            loop.loc,
        )
