"""Keep large tiles that a program reads several times in shared memory instead of registers."""

from __future__ import annotations

from tile.analysis.axis_info import AxisInfoResult, axis_info
from tile.analysis.call_graph import CallGraph
from tile.ir.core import Function, Operation, Value
from tile.ir.effects import effects, is_plain_load, is_zero
from tile.ir.module import Module
from tile.ir.op_definition import Level
from tile.ir.ops import arith
from tile.ir.passes import module_pass
from tile.ir.shared_type import Shared
from tile.ir.types import Tile
from tile.simt.layouts.dims import LANE, WARP
from tile.simt.ops import shared
from tile.simt.ops.layout_inference import LayoutBuilder, layout_of
from tile.simt.schedule.dot_slices import WORD_BITS, tile_bytes
from tile.simt.schedule.hoist_loads import STOPS
from tile.simt.schedule.pipeline_loops.buffer_layouts import copy_layout, copy_vector
from tile.simt.schedule.pipeline_loops.reload_tiles import is_read_again, reload_tiles
from tile.simt.schedule.shared_memory import SharedMemory, align_up
from tile.simt.target import GENERIC, SimtTarget


@module_pass("stage-tiles", before=Level.LAID_OUT)
def stage_tiles(
    module: Module, *, target: SimtTarget = GENERIC, maxnreg: int | None = None
) -> None:
    """Copy tiles that take many registers to shared memory, and load them again behind reductions.

    A row that a program reduces, and reads again by the result, would take registers while its
    threads wait. Those are tiles that are loaded outside of loops, and that fit together, if a
    thread has at least `TuningConstants.staged_elements` of their elements, or more than it has
    registers: `maxnreg`. The elements have fewer bits than a register, which each takes once it is
    widened: shared memory holds no more words than registers. `reload_tiles` computes what depends
    on them again behind each exchange of partial results.

        %x = load %p                              local_cp_async %m, %p
                                                  cp_async_commit_group
                                                  cp_async_wait_group {pending = 0}
                                                  %x = local_load %m
        %t = reduce_region %x                     %t = reduce_region %x
        %u = convert_layout %t                    %u = convert_layout %t
        %v = reduce_region %u                     %v = reduce_region %u
                                                  %x_1 = local_load %m
        %z = sub %x, %v                           %z = sub %x_1, %v
    """
    if not target.cp_async_bytes:
        return
    memory = SharedMemory(target)
    most = target.tuning.staged_elements
    if maxnreg is not None:
        most = min(most, maxnreg + 1)
    for function in CallGraph(module).bottom_up():
        memory.finish(function)
        loads = [op for op in function.body if is_plain_load(op) and _is_narrow(op, target)]
        if sum(map(_elements, loads)) < most:
            continue
        loads = [op for op in loads if is_read_again(op, target)]
        loads = _fitting(loads, target.shared_bytes - memory.functions[function.name])
        if sum(map(_elements, loads)) >= most and _stage(function, loads, target):
            reload_tiles(function.body, target)
            memory.finish(function)


def _fitting(loads: list[Operation], free: int) -> list[Operation]:
    """Return those loads whose tiles fit in so many bytes together, in their order."""
    fitting = []
    for load in loads:
        size = align_up(tile_bytes(load.result))
        if size <= free:
            fitting.append(load)
            free -= size
    return fitting


def _is_narrow(load: Operation, target: SimtTarget) -> bool:
    value = load.result
    if not isinstance(value.type, Tile) or value.type.of.bits >= WORD_BITS:
        return False
    return tile_bytes(value) <= target.shared_bytes // 2


def _elements(load: Operation) -> int:
    """Return how many elements of a tile a thread has."""
    layout = layout_of(load.result)
    assert isinstance(load.result.type, Tile)
    return load.result.type.numel // (layout.in_size(LANE) * layout.in_size(WARP))


def _stage(function: Function, loads: list[Operation], target: SimtTarget) -> bool:
    """Copy what operations load to shared memory; return False if all of that takes short copies.

    Threads wait for a copy, and those before it, in front of its first use, and for all in front of
    what may write the memory that they read. Meanwhile, later copies and other loads are in flight.
    """
    axes = axis_info(function)
    buffers: dict[Operation, Value] = {}
    used: dict[Operation, list[Operation]] = {}
    waiting: list[Operation] = []
    for op in list(function.body):
        last = waiting[-1:] if effects(op) & STOPS else used.get(op, [])
        count = max((waiting.index(load) + 1 for load in last if load in waiting), default=0)
        if count:
            pending = len(waiting) - count
            LayoutBuilder.before(op).op(shared.cp_async_wait_group, pending=pending)
            for load in waiting[:count]:
                _load_copy(load, buffers[load], op)
            del waiting[:count]
        if op in loads and (buffer := _copy(op, axes, target)) is not None:
            buffers[op] = buffer
            waiting.append(op)
            for user in op.result.users:
                for outer in (user, *user.ancestors()):
                    used.setdefault(outer, []).append(op)
    return bool(buffers)


def _copy(load: Operation, axes: AxisInfoResult, target: SimtTarget) -> Value | None:
    """Copy what an operation loads to a buffer, and return that; None if it takes short copies."""
    tile, source = load.result.type, layout_of(load.result)
    assert isinstance(tile, Tile)
    mask = None if load["mask"] is None else axes.of(load["mask"])
    itemsize = tile.of.itemsize
    vectors = copy_vector(source, axes.of(load["ptr"]), mask, itemsize, target.cp_async_bytes)
    if vectors is None or vectors[1] * itemsize < max(target.cp_async_bytes):
        return None
    layout = copy_layout(source, (source,), itemsize * 8, vectors, target.banks)
    build = LayoutBuilder.before(load)
    buffer = build(shared.local_alloc, result=Shared(tile.dims, tile.of, layout))
    hints = {name: load[name] for name in ("cache", "eviction")}
    build.op(shared.local_cp_async, buffer, load["ptr"], load["mask"], **hints)
    build.op(shared.cp_async_commit_group)
    return buffer


def _load_copy(load: Operation, buffer: Value, before: Operation) -> None:
    """Replace a load by one from its buffer, in front of an operation."""
    build = LayoutBuilder.before(before)
    value = build(shared.local_load, buffer, result=load.result.type)
    if load["mask"] is not None and not is_zero(load["other"]):
        value = build(arith.select, load["mask"], value, load["other"])
    load.replace_by([value])
