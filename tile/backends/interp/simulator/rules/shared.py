"""Operations on shared memory.

The value of a buffer is its offset in bytes: an array over threads, or one number.
"""

from __future__ import annotations

import numpy as np

from tile.backends.interp.bytecode import Run, rule_in, runs_in
from tile.backends.interp.fault_report import first_true
from tile.backends.interp.program_batch import ProgramBatch
from tile.backends.interp.simulator import access_cost
from tile.backends.interp.simulator.fault_report import (
    bad_vector,
    buffer_of,
    outside,
    require_whole_warps,
)
from tile.backends.interp.simulator.launch import chunk_of, launch_of, thread_map_of
from tile.backends.interp.simulator.rules.memory import check_vectors, load_vectors
from tile.backends.interp.simulator.shared_memory import Touch
from tile.backends.interp.translate import Rules
from tile.backends.interp.values import Array, RunValue, array_of, broadcast_rows, is_true
from tile.ir import semantics
from tile.ir.core import Operation
from tile.ir.shared_type import shared_of
from tile.simt import ops

RULES: Rules = {}
rule, runs = rule_in(RULES), runs_in(RULES)

ROW_BYTES = 16  # of a matrix that a warp loads


@runs(ops.shared.local_alloc)
def alloc(op: Operation, batch: ProgramBatch) -> Array:
    at, buffer = op["offset"], shared_of(op.result.type)
    chunk_of(batch).memory.undefine(thread_map_of(batch), at, buffer.bytes)
    return np.array([at], np.int64)


@rule(ops.shared.local_subview)
def local_subview(op: Operation) -> Run:
    buffer, shift = buffer_of(op), op["stage_offset"]

    def run(batch: ProgramBatch, mem: RunValue, iteration: RunValue) -> Array:
        index = (array_of(iteration).astype(np.int64) + shift) % buffer.stages
        begin: Array = array_of(mem) + index * buffer.stage_bytes
        return begin

    return run


@runs(ops.shared.local_reshape, ops.shared.local_trans)
def local_trans(op: Operation, batch: ProgramBatch, mem: RunValue) -> RunValue:
    return mem


@rule(ops.shared.local_part)
def local_part(op: Operation) -> Run:
    part = shared_of(op.result.type)
    shift = op["number"] * part.of.bytes_of(part.numel)

    def run(batch: ProgramBatch, mem: RunValue) -> Array:
        begin: Array = array_of(mem) + shift
        return begin

    return run


@rule(ops.thread.shared_load)
def shared_load(op: Operation) -> Run:
    buffer, vector = buffer_of(op), op["vector"]
    dtype = semantics.numpy_dtype(buffer.of)

    def run(batch: ProgramBatch, mem: RunValue, offset: RunValue) -> Array:
        touch = _touch(batch, op, mem, offset, None)
        memory = chunk_of(batch).memory
        memory.read(touch)
        words = memory.words(dtype.itemsize, vector).take(touch.start // touch.size, axis=0)
        return words.reshape(len(batch), -1).view(dtype)

    return run


def _matrix_rows(batch: ProgramBatch, op: Operation, mem: RunValue, offset: RunValue) -> Touch:
    """Return the rows of matrices, in the order of (lane that passes the address, offset)."""
    require_whole_warps(batch, op)
    (count,) = op.inputs[1].type.shape
    size = buffer_of(op).of.itemsize
    thread_map = thread_map_of(batch)
    addressing = np.repeat(
        (thread_map.thread % thread_map.lanes < 8 * op["matrices"])[:, None], count, axis=1
    )
    start = _starts(batch, op, mem, offset, addressing, ROW_BYTES // size)
    if launch_of(batch).counters is not None:
        access_cost.matrix_access(batch, op, start[addressing].reshape(-1, 8, count), size)
    return chunk_of(batch).memory.touch(op, thread_map, start, ROW_BYTES).at(addressing)


@rule(ops.thread.ldmatrix)
def ldmatrix(op: Operation) -> Run:
    matrices, transposed = op["matrices"], op["transposed"]
    dtype = semantics.numpy_dtype(buffer_of(op).of)
    row = ROW_BYTES // dtype.itemsize
    (count,) = op.inputs[1].type.shape

    def run(batch: ProgramBatch, mem: RunValue, offset: RunValue) -> Array:
        touch, memory = _matrix_rows(batch, op, mem, offset), chunk_of(batch).memory
        memory.read_for_warp(touch)
        rows = memory.words(dtype.itemsize, row).take(touch.start // ROW_BYTES, axis=0)
        # Axes: warp, matrix, row, offset, column.
        read = rows.reshape(-1, matrices, 8, count, row)
        if transposed:
            read = read.swapaxes(2, 4)
        parts = read.reshape(-1, matrices, 8, count, 4, row // 4)
        by_lane = np.ascontiguousarray(parts.transpose(0, 2, 4, 3, 1, 5))
        return by_lane.reshape(len(batch), -1).view(dtype)

    return run


@rule(ops.thread.stmatrix)
def stmatrix(op: Operation) -> Run:
    matrices, transposed = op["matrices"], op["transposed"]
    word = np.dtype(f"u{buffer_of(op).of.itemsize}")
    row = ROW_BYTES // word.itemsize
    (count,) = op.inputs[1].type.shape
    (registers,) = op.inputs[2].type.shape

    def run(batch: ProgramBatch, mem: RunValue, offset: RunValue, value: RunValue) -> None:
        touch, memory = _matrix_rows(batch, op, mem, offset), chunk_of(batch).memory
        held = np.ascontiguousarray(broadcast_rows(value, (registers,), len(batch))).view(word)
        # Axes: warp, row, quarter of the row, offset, matrix, column; transposed to those of loads.
        by_lane = held.reshape(-1, 8, 4, count, matrices, row // 4)
        parts = by_lane.transpose(0, 4, 1, 3, 2, 5).reshape(-1, matrices, 8, count, row)
        if transposed:
            parts = parts.swapaxes(2, 4)
        values = np.ascontiguousarray(parts).reshape(-1, row)
        memory.write_for_warp(touch, memory.words(word.itemsize, row), values)
        launch_of(batch).memory.changed()

    return run


@rule(ops.thread.shared_store)
def shared_store(op: Operation) -> Run:
    vector = op["vector"]
    (count,) = op.inputs[2].type.shape
    word = np.dtype(f"u{buffer_of(op).of.itemsize}")

    def run(
        batch: ProgramBatch, mem: RunValue, offset: RunValue, value: RunValue, mask: RunValue | None
    ) -> None:
        active = _active(batch, mask, count // vector)
        if active is not None and not active.any():
            return
        touch = _touch(batch, op, mem, offset, active)
        values = np.ascontiguousarray(broadcast_rows(value, (count,), len(batch))).view(word)
        values = values.reshape(len(batch), -1, vector)
        if active is not None:
            values = values[active]
        memory = chunk_of(batch).memory
        words = memory.words(word.itemsize, vector)
        global_memory = launch_of(batch).memory
        before = words[touch.start // touch.size] if global_memory.watched else values
        memory.write(touch, words, values)
        # A program may wait in a loop for what its own threads write.
        if global_memory.watched:
            global_memory.changed(bool((before != values).any()))

    return run


@runs(ops.thread.shared_atomic_inc)
def shared_atomic_inc(
    op: Operation, batch: ProgramBatch, mem: RunValue, offset: RunValue, mask: RunValue | None
) -> None:
    active = _active(batch, mask, *op.inputs[1].type.shape)
    if active is not None and not active.any():
        return
    chunk_of(batch).memory.count(_touch(batch, op, mem, offset, active))
    launch_of(batch).memory.changed()


@runs(ops.thread.shared_ordered_inc)
def shared_ordered_inc(
    op: Operation, batch: ProgramBatch, mem: RunValue, offset: RunValue
) -> Array:
    require_whole_warps(batch, op)
    touch, memory = _touch(batch, op, mem, offset, None), chunk_of(batch).memory
    # Warps share no position, so all rows of a register may come before those of the next one.
    positions = touch.start.T.ravel() // touch.size
    before = memory.words(touch.size, 1)[positions, 0] + _earlier(positions)
    memory.count(touch)
    launch_of(batch).memory.changed()
    result: Array = before.reshape(touch.start.T.shape).T.astype(np.int32)
    return result


def _earlier(numbers: Array) -> Array:
    """Return how many equal numbers come before each one."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    first = np.searchsorted(ordered, ordered)
    earlier = np.empty_like(numbers)
    earlier[order] = np.arange(len(numbers)) - first
    return earlier


@rule(ops.thread.shared_cp_async)
def shared_cp_async(op: Operation) -> Run:
    vector = op["vector"]
    (count,) = op.inputs[2].type.shape
    word = np.dtype(f"u{buffer_of(op).of.itemsize}")

    def run(
        batch: ProgramBatch,
        mem: RunValue,
        offset: RunValue,
        ptr: RunValue,
        mask: RunValue | None,
        active: RunValue | None,
    ) -> None:
        rows = _active(batch, active)
        if rows is not None and not rows.any():
            return
        by_rows = None if rows is None else np.repeat(rows[:, None], count // vector, axis=1)
        touch = _vectors(batch, op, mem, offset, by_rows)
        reads = _active(batch, mask, count // vector)
        if by_rows is not None:
            reads = by_rows if reads is None else reads & by_rows
        wide = None if reads is None else np.repeat(reads, vector, axis=1)
        address = broadcast_rows(ptr, (count,), len(batch))
        check_vectors(batch, op, address, wide, vector)
        values = load_vectors(batch, op, address, wide, None)
        values = np.ascontiguousarray(broadcast_rows(values, (count,), len(batch))).view(word)
        values = values.reshape(len(batch), -1, vector)
        chunk_of(batch).copies.begin(touch, thread_map_of(batch), values, rows)

    return run


@runs(ops.shared.cp_async_commit_group)
def cp_async_commit_group(op: Operation, batch: ProgramBatch) -> None:
    chunk_of(batch).copies.commit(thread_map_of(batch))


@runs(ops.shared.cp_async_wait_group)
def cp_async_wait_group(op: Operation, batch: ProgramBatch) -> None:
    chunk_of(batch).copies.wait(thread_map_of(batch), op["pending"])


def _active(batch: ProgramBatch, mask: RunValue | None, *count: int) -> Array | None:
    """Return the vectors that a mask selects, or without `count` the threads; None for all."""
    if mask is None or is_true(array_of(mask)):
        return None
    active = broadcast_rows(mask, count, len(batch))
    return None if active.all() else active


def _touch(
    batch: ProgramBatch, op: Operation, mem: RunValue, offset: RunValue, active: Array | None
) -> Touch:
    """Return the vectors that an operation accesses; raise if one is out of bounds."""
    touch = _vectors(batch, op, mem, offset, active)
    return touch if active is None else touch.at(active)


def _vectors(
    batch: ProgramBatch, op: Operation, mem: RunValue, offset: RunValue, active: Array | None
) -> Touch:
    """Return the vectors of all threads; only `active` ones are counted and checked for bounds."""
    size, vector = buffer_of(op).of.itemsize, op.attributes.get("vector", 1)
    start = _starts(batch, op, mem, offset, active, vector)
    touch = chunk_of(batch).memory.touch(op, thread_map_of(batch), start, size * vector)
    if launch_of(batch).counters is not None:
        access_cost.shared_access(batch, op, start, active, size, vector)
    return touch


def _starts(
    batch: ProgramBatch,
    op: Operation,
    mem: RunValue,
    offset: RunValue,
    active: Array | None,
    vector: int,
) -> Array:
    """Return the first byte of vectors, in their program.

    Raises `SharedBoundsError` for one out of bounds, and `VectorAccessError` for one not aligned.
    """
    buffer = buffer_of(op)
    (count,) = op.inputs[1].type.shape
    offsets = broadcast_rows(offset, (count,), len(batch))
    # As unsigned numbers, negative offsets are large.
    wrong = _first(offsets.view(np.uint32) > buffer.numel - vector, active)
    if wrong is not None:
        raise outside(batch, op, wrong[0], int(offsets[wrong]), vector)
    size = buffer.of.itemsize
    start: Array = offsets * np.int64(size) + array_of(mem)[:, None]
    if vector > 1:
        misaligned = _first(start & (size * vector - 1) != 0, active)
        if misaligned is not None:
            problem = f"of {size * vector} bytes at byte {int(start[misaligned])} of shared memory"
            raise bad_vector(batch, op, misaligned[0], misaligned[1] * vector, problem)
    return start


def _first(wrong: Array, active: Array | None) -> tuple[int, int] | None:
    """Return the (row, vector) of the first active vector that is wrong; None if none is."""
    if active is not None and wrong.any():
        wrong = wrong & active
    if not wrong.any():
        return None
    row, index = first_true(wrong)
    return row, index
