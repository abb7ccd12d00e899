"""The pass pipeline of the SIMT lowering: from TILE IR to THREAD IR for a target."""

from __future__ import annotations

from typing import Any

from tile.errors import ArgumentTypeError, OutOfResourcesError
from tile.ir.module import Module
from tile.ir.op_definition import Level
from tile.ir.passes import PASSES, Pass, PassManager
from tile.simt.assign import assign_layouts, narrow_dots, remove_conversions, transpose_dots
from tile.simt.lower import (
    carry_base_pointers,
    decompose,
    distribute,
    divide_by_invariants,
    guard_division,
    hoist_base_pointers,
    infer_invariant_loads,
    legalize,
    narrow_branches,
    reassociate_xor,
    rematerialize,
    share_reciprocals,
    sink_casts,
    skip_idle_loops,
    split_dot_chains,
    split_promoted_dots,
    strength_reduce_pointers,
    unroll_slices,
    warn_slow_code,
    xor_to_add,
)
from tile.simt.memory import (
    allocate_shared,
    expose_shared,
    gather_in_clusters,
    insert_barriers,
)
from tile.simt.schedule import (
    expand_schedules,
    hoist_loads,
    pipeline_loops,
    reload_operands,
    slice_dots,
    stage_tiles,
)
from tile.simt.target import GENERIC, SimtTarget
from tile.simt.tile_sizes import TileSizes
from tile.simt.tma_uses import parse_tma_uses
from tile.transforms import pass_pipeline as tile_pipeline

MEMORY = (
    "look-up-choices",
    "pad-extents",
    "infer-readonly",
    "descriptors-to-pointers",
    "find-blocks",
    "check-blocks",
    "infer-eviction-priorities",
    "peel-loops",
    "unroll",
    "fold-ranges",
)
LAYOUT = (
    "narrow-dots",
    "transpose-dots",
    "assign-layouts",
    "remove-conversions",
    "hoist-loads",
    "decompose",
    "narrow-branches",
)
SCHEDULE = ("reload-operands", "pipeline-loops", "expand-schedules", "stage-tiles", "slice-dots")
SHARED = ("expose-shared", "gather-in-clusters", "allocate-shared", "insert-barriers")
THREADS = (
    "distribute",
    "unroll-slices",
    "fold",
    "divide-by-invariants",
    "share-reciprocals",
    "guard-division",
    "legalize",
    "split-dot-chains",
    "split-promoted-dots",
    "rematerialize",
    "hoist-base-pointers",
    "carry-base-pointers",
    "strength-reduce-pointers",
    "reassociate-xor",
    "xor-to-add",
    "cse",
    "dce",
    "skip-idle-loops",
    "sink-casts",
    "infer-invariant-loads",
)
LOWER = (*MEMORY, *LAYOUT, *SCHEDULE, *SHARED, *THREADS)


def lowering(target: SimtTarget = GENERIC, **options: Any) -> list[Pass]:
    """Return the passes from TILE to THREAD; each takes the options that it declares.

    Options are those of `Options.lowering`. Raises `ArgumentTypeError` for an option that no pass
    has.
    """
    chosen: dict[str, Any] = {
        "target": target,
        "keep_blocks": target.has_tma,
        "simd_width": target.simd_width,
        "limit": target.tuning.unrolled_iterations,
    }
    chosen |= {"invariant_loads": target.invariant_loads, **options}
    if "tile_sizes" in chosen:
        chosen["tile_sizes"] = TileSizes.parse(chosen["tile_sizes"])
    uses = parse_tma_uses(options.get("tma"))
    if target.has_tma and target.wgmma_shapes and uses.pointers:
        threads = target.warp_size * options.get("num_warps", 1)
        chosen |= {"pointer_blocks": True, "warn_unproven": "tma" in options}
        chosen["least_bytes"] = threads * target.tuning.least_block_bytes
    chosen["tma"] = uses
    passes = [
        Pass(defn, {name: value for name, value in chosen.items() if name in defn.options})
        for defn in (PASSES[name] for name in LOWER)
    ]
    unknown = set(chosen).difference(*(item.options for item in passes))
    if unknown:
        raise ArgumentTypeError(f"the lowering has no option {min(unknown)!r}")
    if "tile_sizes" in chosen:  # their names number operations, of which unrolling makes more
        return [item for item in passes if item.defn.name != "unroll"]
    return passes


def lower(module: Module, target: SimtTarget, **options: Any) -> list[tuple[str, float]]:
    """Lower a TILE module to THREAD in place; return the time of each pass, in seconds.

    `options` are as for `lowering`. Raises `OutOfResourcesError` for a kernel that does not fit the
    target.
    """
    threads = options.get("num_warps", 1) * target.warp_size
    if threads > target.max_threads:
        raise OutOfResourcesError(
            f"{module.kernel} is to have {threads} threads, {options['num_warps']} warps of "
            f"{target.warp_size}, and a program has at most {target.max_threads} on target "
            f"{target}; num_warps = {target.max_threads // target.warp_size} fits",
            required=threads,
            limit=target.max_threads,
            name="threads",
            loc=module.kernel.loc,
        )
    manager = PassManager(lowering(target, **options))
    manager.run(module, Level.TILE)
    return manager.timings
