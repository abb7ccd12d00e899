"""Count the sectors and wavefronts of memory accesses, by warp; see `counters.py`."""

from __future__ import annotations

from functools import partial

import numpy as np

from tile.backends.host_memory import allocation
from tile.backends.interp.bytecode import Code, Run
from tile.backends.interp.program_batch import ProgramBatch
from tile.backends.interp.simulator.counters import SECTOR, Counters, GlobalCounts, SharedCounts
from tile.backends.interp.simulator.launch import launch_of, thread_map_of
from tile.backends.interp.simulator.threads import ThreadMap
from tile.backends.interp.values import Array
from tile.backends.interp.virtual_memory import LOWEST, WINDOW_BITS, Memory
from tile.ir.core import Operation
from tile.ir.ops.memory import pointee
from tile.simt.layouts.shared_access import wavefronts


def count_instructions(code: Code) -> None:
    """Make the instructions of a module count how often they are executed."""
    for instruction in code.instructions():
        if instruction.run is not None:
            instruction.run = partial(_counted, instruction.op, instruction.run)


def _counted(op: Operation, run: Run, batch: ProgramBatch, *values: object) -> object:
    _counters(batch).executed[op] += _warps(thread_map_of(batch))
    return run(batch, *values)


def _counters(batch: ProgramBatch) -> Counters:
    counters = launch_of(batch).counters
    assert counters is not None
    return counters


def _warps(thread_map: ThreadMap) -> int:
    if thread_map.whole_warps:
        return len(thread_map) // thread_map.lanes
    return len(np.unique(_warp_numbers(thread_map)))


def _warp_numbers(thread_map: ThreadMap) -> Array:
    return (thread_map.program * thread_map.threads + thread_map.thread) // thread_map.lanes


def _by_warp(thread_map: ThreadMap, values: Array, absent: int) -> Array:
    """Reshape values (rows, vectors) to (warps, vectors, lanes); missing lanes get `absent`."""
    if thread_map.whole_warps:
        return values.reshape(-1, thread_map.lanes, values.shape[1]).swapaxes(1, 2)
    warps, warp = np.unique(_warp_numbers(thread_map), return_inverse=True)
    result = np.full((len(warps), values.shape[1], thread_map.lanes), absent, values.dtype)
    result[warp, :, thread_map.thread % thread_map.lanes] = values
    return result


def global_access(
    batch: ProgramBatch, op: Operation, address: Array, active: Array | None, vector: int
) -> None:
    """Count an access to global memory: addresses (rows, registers), or (rows,) of scalars."""
    rows = len(address)
    address = _as_on_device(launch_of(batch).memory, address)
    size = pointee(op.name, op["ptr"].type).bytes_of(vector)
    first = address.reshape(rows, -1)[:, ::vector]
    if active is not None:
        first = np.where(
            np.broadcast_to(active, address.shape).reshape(rows, -1)[:, ::vector], first, -1
        )
    starts = _by_warp(thread_map_of(batch), first, -1)
    distinct = _count_distinct(starts)
    parts = starts[..., None] + np.arange(0, size, SECTOR)
    sectors = np.where(starts[..., None] < 0, -1, parts // SECTOR)
    counts = GlobalCounts(
        instructions=int((starts >= 0).any(axis=-1).sum()),
        sectors=int(_count_distinct(sectors.reshape(*starts.shape[:2], -1)).sum()),
        least=int((-(-distinct * size // SECTOR)).sum()),
    )
    _counters(batch).global_accesses[op].add(counts)


def block_access(batch: ProgramBatch, op: Operation, address: Array, inside: Array) -> None:
    """Count a TMA access to a descriptor block: addresses of elements (program, element)."""
    address = _as_on_device(launch_of(batch).memory, address)
    sectors = np.where(inside, address // SECTOR, -1)
    size = pointee(op.name, op["ptr"].type).itemsize
    counts = GlobalCounts(
        instructions=len(address),
        sectors=int(_count_distinct(sectors).sum()),
        least=int((-(-inside.sum(axis=1) * size // SECTOR)).sum()),
    )
    _counters(batch).global_accesses[op].add(counts)


def _as_on_device(memory: Memory, address: Array) -> Array:
    """Shift addresses so that each allocation begins at a sector boundary.

    Device allocations do; NumPy's begin anywhere.
    """
    if not memory.buffers:
        return address
    depths = (b.array.ctypes.data - allocation(b.array).ctypes.data for b in memory.buffers)
    pairs = zip(memory.buffers, depths, strict=True)
    shifts = np.array([(buffer.origin - depth) % SECTOR for buffer, depth in pairs], np.int64)
    window = np.clip(address - LOWEST >> WINDOW_BITS, 0, len(shifts) - 1)
    moved: Array = address - shifts[window]
    return moved


def _count_distinct(numbers: Array) -> Array:
    """Return the number of distinct non-negative values along the last axis."""
    ordered = np.sort(numbers, axis=-1)
    new = np.ones(ordered.shape, bool)
    new[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    count: Array = (new & (ordered >= 0)).sum(axis=-1)
    return count


def shared_access(
    batch: ProgramBatch, op: Operation, start: Array, active: Array | None, size: int, vector: int
) -> None:
    """Count an access to shared memory: vectors of elements of `size` bytes, at `start` bytes."""
    first = start if active is None else np.where(active, start, -1)
    first = np.broadcast_to(first, (len(batch), first.shape[1]))
    starts = _by_warp(thread_map_of(batch), first, -1).reshape(-1, thread_map_of(batch).lanes)
    starts = starts[(starts >= 0).any(axis=-1)]
    banks = launch_of(batch).threads_code.target.banks
    lanes_per_pass = min(starts.shape[-1], banks.lanes_together(size * vector * 8))
    groups = starts.shape[-1] // lanes_per_pass
    starts = _all_lanes(starts.reshape(len(starts), groups, lanes_per_pass)).reshape(starts.shape)
    counts = SharedCounts(
        instructions=len(starts),
        wavefronts=int(wavefronts(starts // size, size * 8, vector, banks).sum()),
        least=len(starts) * groups,
    )
    _counters(batch).shared_accesses[op].add(counts)


def _all_lanes(starts: Array) -> Array:
    """Replace the start -1 of inactive lanes; `starts` has axes (instructions, groups, lanes).

    An inactive lane gets an address of its group, which costs no wavefront, or one of another group
    if its whole group is inactive.
    """
    in_group = starts.max(axis=-1, keepdims=True)
    substitute = np.where(in_group < 0, in_group.max(axis=1, keepdims=True), in_group)
    return np.where(starts < 0, substitute, starts)


def matrix_access(batch: ProgramBatch, op: Operation, start: Array, size: int) -> None:
    """Count ldmatrix or stmatrix: `start` has the first bytes of rows, (matrices, 8, instructions).

    A matrix takes one wavefront if no two of its rows share a bank.
    """
    banks = launch_of(batch).threads_code.target.banks
    rows = start.swapaxes(1, 2).reshape(-1, 8)
    counts = SharedCounts(
        instructions=len(rows) // op["matrices"],
        wavefronts=int(wavefronts(rows // size, size * 8, 16 // size, banks).sum()),
        least=len(rows),
    )
    _counters(batch).shared_accesses[op].add(counts)
