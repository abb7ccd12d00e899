"""Programmatic dependent launch: programs that start before the preceding launch is complete.

With the option `launch_pdl`, the programs of a launch may become resident while the last ones of
the launch before still run. They compute addresses and initialize mbarriers; then, in front of the
first operation that accesses global memory, they wait until that launch is complete and what it
wrote is visible. After that they let the next launch begin the same way. So every program waits,
and a launch that is complete has waited for the one before: results are those of launches one after
the other. (PTX ISA, "griddepcontrol".)
"""

from __future__ import annotations

from tile.ir.core import Function, Operation
from tile.ir.effects import effects
from tile.ir.op_definition import Effect, OpDef
from tile.ir.ops import memory
from tile.simt.ops import cluster

WAIT = 'call void asm sideeffect "griddepcontrol.wait;", "~{memory}"()'
LAUNCH = 'call void asm sideeffect "griddepcontrol.launch_dependents;", "~{memory}"()'

_LOCAL = Effect.SHARED | Effect.ASSUME  # effects within the program
_BARRIERS: tuple[OpDef, ...] = (memory.barrier, cluster.cluster_arrive, cluster.cluster_wait)


def first_access(kernel: Function) -> Operation | None:
    """Return the first operation of a kernel's body that may access global memory, or None.

    It may do so in its regions.
    """
    return next((op for op in kernel.body if _may_access(op)), None)


def _may_access(op: Operation) -> bool:
    return bool(effects(op) & ~_LOCAL) and op.defn not in _BARRIERS and not op.defn.terminator
