"""Keep large tiles that a program reads several times in shared memory instead of registers."""

from __future__ import annotations

from tile.analysis.axis_info import AxisInfoResult, axis_info
from tile.analysis.call_graph import CallGraph
from tile.ir.core import Operation
from tile.ir.effects import is_plain_load, is_zero
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
from tile.simt.schedule.pipeline_loops.buffer_layouts import copy_layout, copy_vector
from tile.simt.schedule.pipeline_loops.reload_tiles import is_read_again, reload_tiles
from tile.simt.schedule.shared_memory import SharedMemory, align_up
from tile.simt.target import GENERIC, SimtTarget


@module_pass("stage-tiles", before=Level.LAID_OUT)
def stage_tiles(module: Module, *, target: SimtTarget = GENERIC) -> None:
    """Copy tiles that take many registers to shared memory, and load them again behind reductions.

    A row that a program reduces, and reads again by the result, would take registers while its
    threads wait. Those are tiles that are loaded outside of loops, of which a thread has as many
    elements as `TuningConstants.staged_elements`, and that fit together. The elements have fewer
    bits than a register, which each takes once it is widened: shared memory holds no more words
    than registers. `reload_tiles` computes what depends on them again behind each exchange of
    partial results.

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
    for function in CallGraph(module).bottom_up():
        memory.finish(function)
        loads = [op for op in function.body if is_plain_load(op) and _is_large(op, target)]
        loads = [op for op in loads if is_read_again(op, target)]
        if loads:
            axes = axis_info(function)
            free = target.shared_bytes - memory.functions[function.name]
            staged = [_stage(load, axes, target) for load in _fitting(loads, free)]
            if any(staged):
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


def _is_large(load: Operation, target: SimtTarget) -> bool:
    value = load.result
    if not isinstance(value.type, Tile):
        return False
    threads = layout_of(value).in_size(LANE) * layout_of(value).in_size(WARP)
    large = value.type.numel // threads >= target.tuning.staged_elements
    narrow = value.type.of.bits < WORD_BITS
    return large and narrow and tile_bytes(value) <= target.shared_bytes // 2


def _stage(load: Operation, axes: AxisInfoResult, target: SimtTarget) -> bool:
    """Copy what an operation loads to shared memory; return False if that takes short copies."""
    tile, source = load.result.type, layout_of(load.result)
    assert isinstance(tile, Tile)
    mask = None if load["mask"] is None else axes.of(load["mask"])
    itemsize = tile.of.itemsize
    vectors = copy_vector(source, axes.of(load["ptr"]), mask, itemsize, target.cp_async_bytes)
    if vectors is None or vectors[1] * itemsize < max(target.cp_async_bytes):
        return False
    layout = copy_layout(source, (source,), itemsize * 8, vectors, target.banks)
    build = LayoutBuilder.before(load)
    buffer = build(shared.local_alloc, result=Shared(tile.dims, tile.of, layout))
    hints = {name: load[name] for name in ("cache", "eviction")}
    build.op(shared.local_cp_async, buffer, load["ptr"], load["mask"], **hints)
    build.op(shared.cp_async_commit_group)
    build.op(shared.cp_async_wait_group, pending=0)
    value = build(shared.local_load, buffer, result=tile)
    if load["mask"] is not None and not is_zero(load["other"]):
        value = build(arith.select, load["mask"], value, load["other"])
    load.replace_by([value])
    return True
