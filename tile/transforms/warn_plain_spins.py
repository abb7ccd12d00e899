"""Warnings of waits that a GPU need never end."""

from __future__ import annotations

from tile.analysis.spins import plain_spins
from tile.ir.core import Module
from tile.ir.passes import module_pass
from tile.warn import warn


@module_pass("warn-plain-spins")
def warn_plain_spins(module: Module) -> None:
    """Warn of loops that wait for another program by a plain load.

    The IR stays as it is. A load that is not volatile may be done once, or be served by a cache
    that does not see what other multiprocessors write.

        while {
          %v = load %flag : i32          // warning: volatile=True, or an atomic operation
          %t = cmp %v, %zero {predicate = eq} : i1
          condition %t
        } do {
          yield
        }
    """
    for loop, load in plain_spins(module):
        warn(
            f"a GPU need never see the change that this loop waits for: it reads by a plain load, "
            f"at {load.loc}, which may be done once for all iterations; read by "
            "tl.load(..., volatile=True), or by an atomic operation such as tl.atomic_add(ptr, 0), "
            "which also orders the accesses after it",
            loop.loc,
        )
