"""The search space of a kernel, read from its TILE IR, and a model of each configuration's time.

`profiled` compiles a call's kernel to TILE IR, which takes some milliseconds, and counts its work.
From that follow the dimensions that compile options have for this kernel and target
(`option_dimensions`), the reasons why a configuration cannot win (`misfit`), and an estimate of its
time (`estimate`), all before anything is compiled for the target.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tile import backends
from tile.analysis.workload import Workload, workload
from tile.backends.base import MOST_WARPS, Target
from tile.backends.capabilities import ThreadLowering
from tile.config import config as settings
from tile.errors import BackendError, TileError
from tile.ir.types import Scalar
from tile.runtime.autotuning.configs import (
    CANNOT_RUN,
    Call,
    Config,
    Kernel,
    annotated_constants,
    innermost,
)
from tile.runtime.autotuning.space import TILE_OPTIONS, Dimension, Point, Space
from tile.runtime.autotuning.tuning_store import launch_target
from tile.runtime.grid import normalize_grid
from tile.runtime.kernel import CompiledKernel
from tile.simt.ops.warp_specialize import WARPGROUP_WARPS
from tile.simt.target import SimtTarget

MOST_TRIED = 16  # points of which one is to compile
MOST_EDGE = 4  # rows or columns of a thread in a dot, as in the paper
MOST_STAGES = 5  # of a pipelined loop; more seldom fit in shared memory


@dataclass(frozen=True)
class Profile:
    """A configuration as far as TILE IR tells.

    simt: how the target runs threads; None for the interpreter, which has none.
    programs: the programs of the grid.
    """

    work: Workload
    programs: int
    simt: SimtTarget | None
    target: Target


def profiled(kernel: Kernel, call: Call, config: Config, target: Target | None = None) -> Profile:
    """Compile a configuration to TILE IR, and count the work of a program.

    target: what it would run on; by default that of a launch with these arguments.
    Raises the errors of compilation and of arguments.
    """
    with settings.scope(backend="interp", interp_level="tile"):
        compiled = kernel.run(*call.args, grid=(1,), warmup=True, **call.with_config(config))
    assert isinstance(compiled, CompiledKernel) and compiled.artifact.module is not None
    grid = call.grid_with(config, compiled.constants)
    extents = normalize_grid((1,) if grid is None else grid)
    module = compiled.artifact.module
    named = call.arguments(config)
    passed = {name: named[name] for name in compiled.leaves if name in named}
    values = compiled.launch_arguments(
        **{name: value for name, value in passed.items() if name not in compiled.constants}
    )
    numbers = [value.item() if isinstance(value, np.generic) else None for value in values]
    target = launch_target(kernel, named) if target is None else target
    work = workload(module.kernel, numbers, extents)
    return Profile(work, math.prod(extents), _simt(target), target)


def _simt(target: Target) -> SimtTarget | None:
    backend = backends.get(target.backend)
    if not isinstance(backend, ThreadLowering):
        return None
    try:
        return backend.lowering_target(target)
    except BackendError:  # of the interpreter, which runs tiles unless a machine is named
        return None


# -- dimensions of compile options


def option_dimensions(profile: Profile, *, per_tile: bool = False) -> list[Dimension]:
    """Return the dimensions that compile options have for a kernel and target, with reasons.

    None for the interpreter on tiles, where options mean nothing. With `per_tile`, each dot and
    access has sizes of its own in place of `thread_tile` and `warp_rows`.
    """
    if profile.simt is None:
        return []
    dimensions = [*_option_dimensions(profile.work, profile.simt)]
    if per_tile:
        dimensions = [d for d in dimensions if d.name not in TILE_OPTIONS]
        dimensions += _tile_dimensions(profile.work, profile.simt)
    return dimensions


def _option_dimensions(work: Workload, simt: SimtTarget) -> Iterator[Dimension]:
    largest = max((math.prod(tiled.tile) for tiled in work.tiles), default=1)
    most = min(MOST_WARPS, simt.max_threads // simt.warp_size)
    warps = _powers(1, min(most, max(1, largest // simt.warp_size)))
    yield Dimension("num_warps", warps, f"the largest tile has {largest} elements")
    dots = work.of_kind("dot")
    by_threads = [dot.name for dot in dots if not has_instruction(dot.element, simt)]
    if by_threads:
        edge = min(8, min(min(dot.shape[-3:-1]) for dot in dots))
        yield Dimension("thread_tile", _powers(1, edge), f"{', '.join(by_threads)} by FMA")
    if dots and len(warps) > 1:
        names = ", ".join(dot.name for dot in dots)
        yield Dimension("warp_rows", (0, *warps[:4]), f"warps along the rows of {names}")
    if work.loop_bytes and dots:
        stages = (1, *range(2, MOST_STAGES + 1)) if simt.cp_async_bytes or simt.has_tma else (1, 2)
        loaded = f"a loop loads {work.loop_bytes} bytes in each iteration"
        yield Dimension("num_stages", stages, loaded)
        if simt.has_tma:
            yield from _tma_dimensions(work)


def _tma_dimensions(work: Workload) -> Iterator[Dimension]:
    """Yield the dimensions of loads that TMA does, or could do."""
    proven = work.pointer_blocks_in_loops()
    if proven:
        names = ", ".join(proven)
        yield Dimension("tma", ("", "pointers"), f"pointers of {names} address blocks of arrays")
    if proven or work.loads_blocks_in_loops:
        by = "descriptors" if work.loads_blocks_in_loops else "pointers"
        producers = f"a loop loads blocks by {by}, which producer warps could do"
        yield Dimension("warp_specialize", (False, True), producers)


def _tile_dimensions(work: Workload, simt: SimtTarget) -> Iterator[Dimension]:
    """Yield the sizes of each dot, load and store: for warps and for a thread."""
    largest = max((math.prod(tiled.tile) for tiled in work.tiles), default=1)
    warps = min(8, simt.max_threads // simt.warp_size, max(1, largest // simt.warp_size))
    for dot in work.of_kind("dot"):
        shape = "x".join(map(str, dot.shape))
        yield Dimension(f"{dot.name}_warps", _powers(1, warps), f"along the rows of {shape}")
        if not has_instruction(dot.element, simt):
            rows, columns = (_powers(1, min(MOST_EDGE, extent)) for extent in dot.shape[-3:-1])
            parts = tuple(f"{r}x{c}" for r in rows for c in columns)
            yield Dimension(f"{dot.name}_thread", parts, f"a thread's part of {shape}")
    for access in (*work.of_kind("load"), *work.of_kind("store")):
        widest = max(1, simt.vector_bits // max(8, access.element.bits))
        widths = _powers(1, min(widest, access.shape[-1] if access.shape else 1))
        if len(widths) > 1:
            shape = "x".join(map(str, access.shape))
            yield Dimension(f"{access.name}_width", widths, f"contiguous elements of {shape}")


def option_rules(dimensions: Sequence[Dimension]) -> list[Any]:
    """Return the rules between options."""
    names = {dimension.name for dimension in dimensions}
    rules: list[Any] = []
    if {"warp_rows", "num_warps"} <= names:
        rules.append(lambda warp_rows, num_warps: warp_rows <= num_warps)
    if {"warp_specialize", "num_warps"} <= names:
        rules.append(
            lambda warp_specialize, num_warps: (
                not warp_specialize or num_warps % WARPGROUP_WARPS == 0
            )
        )
    if {"warp_specialize", "tma"} <= names:  # loads through pointers alone are none of TMA
        rules.append(lambda warp_specialize, tma: not warp_specialize or bool(tma))
    return rules


def has_instruction(element: Scalar, simt: SimtTarget) -> bool:
    """Return True if the target has mma or wgmma instructions for an element."""
    by_mma = any(simt.has_mma(shape, element) for shape in simt.mma_shapes)
    return by_mma or element in dict(simt.wgmma_types)


def _powers(first: int, last: int) -> tuple[int, ...]:
    return tuple(1 << bit for bit in range(first.bit_length() - 1, last.bit_length()))


def kernel_space(kernel: Kernel, call: Call, declared: Space | None = None) -> Space:
    """Return the space of a kernel for a call: declared dimensions, then those of compile options.

    Values of options are those for the first and for the last declared point that compiles, as a
    rule the smallest and the largest tiles. Raises the first error if none of some points does.
    """
    declared = Space() if declared is None else declared
    points = [*declared.points()]
    if not points:
        return declared  # as listing its configurations says
    profiles = [_first_profile(kernel, call, declared, p) for p in (points, points[::-1])]
    merged: dict[str, Dimension] = {}
    of_each = (option_dimensions(one, per_tile=declared.per_tile) for one in profiles)
    for dimension in itertools.chain(*of_each):
        other = merged.get(dimension.name, dimension)
        values = tuple(sorted({*other.values, *dimension.values}))
        merged[dimension.name] = Dimension(dimension.name, values, dimension.reason)
    rules = option_rules([*declared.dimensions, *merged.values()])
    return declared.joined(Space.of(merged.values(), rules))


def _first_profile(kernel: Kernel, call: Call, declared: Space, points: Sequence[Point]) -> Profile:
    """Return the profile of the first of some points that compiles."""
    failure: TileError | None = None
    for point in points[:MOST_TRIED]:
        constants = {d.name: point[d.name] for d in declared.dimensions if not d.is_option}
        try:
            return profiled(kernel, call, Config(constants))
        except CANNOT_RUN as error:
            failure = failure or error
    assert failure is not None
    raise failure


def space_of(
    kernel: Kernel,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    grid: Any = None,
    *,
    per_tile: bool = False,
) -> Space:
    """Return the space of a kernel for arguments, among which ranges of constants may be.

    A range is a list, a `range`, or a tuple with `...`. Constants that are not passed have the
    values that they are annotated with.
    """
    named = {**dict(zip(kernel.arg_names, args, strict=False)), **kwargs}
    constants = {p.name for p in innermost(kernel).parameters if p.is_constexpr}
    ranges = {name: value for name, value in named.items() if name in constants and is_range(value)}
    rest = {name: value for name, value in named.items() if name not in ranges}
    ranges |= {
        name: values for name, values in annotated_constants(kernel).items() if name not in named
    }
    return kernel_space(kernel, Call((), rest, grid, {}), Space(ranges, per_tile=per_tile))


def is_range(value: object) -> bool:
    """Return True for the values of a dimension, rather than one constant."""
    return isinstance(value, list | range) or (isinstance(value, tuple) and Ellipsis in value)
