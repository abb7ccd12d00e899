"""The passes of the SIMT lowering, in order: from TILE IR to THREAD IR for a machine."""

from __future__ import annotations

from tile.ir.core import Module
from tile.ir.levels import Level
from tile.ir.passes import PASSES, Pass, PassManager
from tile.simt import (
    assign_layouts,
    decompose,
    distribute,
    expose_shared,
    insert_barriers,
    pipeline_loops,
    plan_shared,
    remove_conversions,
)
from tile.simt.target import GENERIC, SimtTarget
from tile.transforms import pipeline as tile_pipeline

DECLARING = (
    assign_layouts,
    remove_conversions,
    decompose,
    pipeline_loops,
    expose_shared,
    plan_shared,
    insert_barriers,
    distribute,
    tile_pipeline,
)

LAYOUT = ("assign-layouts", "remove-conversions", "decompose")
SCHEDULE = ("pipeline-loops",)
SHARED = ("expose-shared", "plan-shared", "insert-barriers")
THREADS = ("distribute", "cse", "dce")
LOWER = (*LAYOUT, *SCHEDULE, *SHARED, *THREADS)


def lowering(
    target: SimtTarget = GENERIC, *, num_warps: int = 4, num_stages: int = 3
) -> list[Pass]:
    """The passes from TILE to THREAD with their options chosen; each takes those that it has."""
    chosen = {"target": target, "num_warps": num_warps, "num_stages": num_stages}
    passes = []
    for name in LOWER:
        defn = PASSES[name]
        passes.append(Pass(defn, {k: v for k, v in chosen.items() if k in defn.options}))
    return passes


def lower(
    module: Module, target: SimtTarget, *, num_warps: int = 4, num_stages: int = 3
) -> list[tuple[str, float]]:
    """Lower a TILE module to THREAD in place; how long each pass took, in seconds.

    Raises `OutOfResourcesError` for tiles that do not fit the machine.
    """
    manager = PassManager(lowering(target, num_warps=num_warps, num_stages=num_stages))
    manager.run(module, Level.TILE)
    return manager.timings
