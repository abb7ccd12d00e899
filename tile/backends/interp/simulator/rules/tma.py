"""TMA loads, stores and reductions of descriptor blocks, and operations on mbarriers.

All threads of a program execute each of these operations; the first one performs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache, partial

import numpy as np

from tile.backends.interp.atomic_updates import update_in_order
from tile.backends.interp.bytecode import Run, rule_in, runs_in
from tile.backends.interp.program_batch import Frame, ProgramBatch
from tile.backends.interp.resolved_access import Elements
from tile.backends.interp.rules import update_groups
from tile.backends.interp.simulator import access_cost
from tile.backends.interp.simulator.fault_report import (
    buffer_of,
    misaligned_block,
    misaligned_index,
    negative_index,
    require_whole_programs,
)
from tile.backends.interp.simulator.launch import chunk_of, launch_of, thread_map_of
from tile.backends.interp.simulator.mbarriers import MbarrierUse
from tile.backends.interp.simulator.shared_memory import Touch
from tile.backends.interp.translate import Rules
from tile.backends.interp.values import Array, Rows, RunValue, array_of, broadcast_rows
from tile.backends.interp.virtual_memory import FaultError
from tile.ir.core import Operation
from tile.ir.descriptor_type import Descriptor
from tile.ir.shared_type import Shared, shared_of
from tile.simt import ops
from tile.simt.hopper.tma_boxes import block_strips
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.ops.wgmma import WARPGROUP_THREADS

RULES: Rules = {}
rule, runs = rule_in(RULES), runs_in(RULES)
runs_by_program = runs_in(RULES, require_whole_programs)

VECTOR_BYTES = 16


@runs(ops.tma.mbarrier_init)
def mbarrier_init(op: Operation, batch: ProgramBatch, bars: RunValue) -> None:
    use = _all_stages(batch, op, bars)
    chunk_of(batch).mbarriers.init(use, shared_of(op["bars"].type).stages, op["count"])


@runs(ops.tma.mbarrier_inval)
def mbarrier_inval(op: Operation, batch: ProgramBatch, bars: RunValue) -> None:
    use = _all_stages(batch, op, bars)
    chunk_of(batch).mbarriers.invalidate(use, chunk_of(batch).clusters)


@runs(ops.tma.mbarrier_arrive_expect_tx)
def mbarrier_arrive_expect_tx(
    op: Operation, batch: ProgramBatch, bars: RunValue, iteration: RunValue, active: RunValue
) -> None:
    use, _ = stage_of(batch, op, bars, iteration)
    use = use.take_rows(by_program(batch, active))
    chunk_of(batch).mbarriers.expect_tx(use, op["size"])


@runs(ops.tma.mbarrier_wait)
def mbarrier_wait(op: Operation, batch: ProgramBatch, bars: RunValue, iteration: RunValue) -> None:
    chunk = chunk_of(batch)
    use, parity = stage_of(batch, op, bars, iteration)
    own = chunk.acquired is None
    if own and all(user.defn is not ops.tma.mbarrier_arrive for user in op["bars"].users):
        chunk.mbarriers.wait_for_loads(use, parity)
        return
    records = chunk.mbarriers.wait_for_program(use, parity, own=own)
    chunk.wait_for_arrive(use.programs, *records)


@runs(ops.tma.mbarrier_arrive)
def mbarrier_arrive(
    op: Operation, batch: ProgramBatch, bars: RunValue, iteration: RunValue
) -> None:
    chunk_of(batch).mbarriers.arrive(stage_of(batch, op, bars, iteration)[0])


@runs_by_program(ops.warp_specialize.warp_specialize)
def warp_specialize(op: Operation, batch: ProgramBatch) -> None:
    """Start a batch for the producer, in which the threads of the program stand for its own."""
    instruction = batch.instruction()
    assert instruction is not None
    producer = batch.split(np.arange(len(batch)))
    activation = producer.frames[-1].activation
    producer.frames = [Frame(activation, instruction.regions[0], instruction)]
    producer.chunk = chunk_of(batch).partition()
    batch.launch.ready(producer)


@rule(ops.tma.tma_load)
def tma_load(op: Operation) -> Run:
    return _load(op, DescriptorBlock(op))


@rule(ops.tma.tma_load_im2col)
def tma_load_im2col(op: Operation) -> Run:
    return _load(op, _PixelBlock(op))


def block_load(
    batch: ProgramBatch,
    op: Operation,
    block: DescriptorBlock,
    mem: RunValue,
    bars: RunValue,
    iteration: RunValue,
    active: RunValue,
    ptr: RunValue,
    *numbers: RunValue,
) -> tuple[MbarrierUse, Touch, Array] | None:
    """Return the stage, the shared memory and the values of a load; None if no program loads."""
    use, _ = stage_of(batch, op, bars, iteration)
    chosen = by_program(batch, active)
    use = use.take_rows(chosen)
    if len(use.programs) == 0:
        return None
    descriptor = [by_program(batch, value)[chosen] for value in (ptr, *numbers)]
    begin = by_program(batch, mem)[chosen]
    values = block.read(batch, use.programs, *descriptor)
    return use, block.touch(batch, use.programs, begin), values


def _load(op: Operation, block: DescriptorBlock) -> Run:
    """Return the rule of an operation that loads a block to shared memory."""

    def run(batch: ProgramBatch, *operands: RunValue) -> None:
        load = block_load(batch, op, block, *operands)
        if load is not None:
            chunk_of(batch).mbarriers.start_load(*load)

    return run


@rule(ops.tma.tma_store)
def tma_store(op: Operation) -> Run:
    return _write(op, DescriptorBlock.write, atomic=False)


@rule(ops.tma.tma_reduce)
def tma_reduce(op: Operation) -> Run:
    return _write(op, DescriptorBlock.combine, atomic=True)


def _write(op: Operation, write: Callable[..., None], *, atomic: bool) -> Run:
    """Return the rule of an operation that `write`s a block from shared memory."""
    block = DescriptorBlock(op)

    def run(batch: ProgramBatch, mem: RunValue, ptr: RunValue, *numbers: RunValue) -> None:
        require_whole_programs(batch, op)
        programs, memory = thread_map_of(batch).programs, chunk_of(batch).memory
        touch = block.touch(batch, programs, by_program(batch, mem))
        chunk_of(batch).stores.start(programs, touch)
        descriptor = [by_program(batch, value) for value in (ptr, *numbers)]
        values = memory.words(block.size, VECTOR_BYTES // block.size)[touch.start // VECTOR_BYTES]
        address, inside = block.addresses(batch, *descriptor)
        write(block, batch, programs, values, address, inside)
        chunk_of(batch).tma_writes.start(op, programs, address, inside, atomic=atomic)

    return run


@runs_by_program(ops.tma.tma_store_wait)
def tma_store_wait(op: Operation, batch: ProgramBatch, mem: RunValue) -> None:
    programs = thread_map_of(batch).programs
    chunk_of(batch).stores.wait(programs, op["pending"])
    if not op["read"]:
        chunk_of(batch).tma_writes.complete(programs, op["pending"])


class DescriptorBlock:
    """The descriptor block that an operation copies."""

    def __init__(self, op: Operation) -> None:
        mem = buffer_of(op)
        assert isinstance(mem.layout, LinearLayout)
        self.op = op
        self.mem = mem
        self.size = mem.of.itemsize
        extents = op.attributes.get("extents", ())
        order = _order(mem.layout)
        copied = _copied(mem, extents).ravel()[order]
        self.order = order[copied]
        self.vectors = np.flatnonzero(copied[:: VECTOR_BYTES // self.size])
        self.elements = Elements(mem.of, (len(self.order),))
        self.groups = op.attributes.get("warpgroups", 1)
        self.issuers = np.zeros(1, np.int64)
        if self.groups > 1:
            first = order[:: VECTOR_BYTES // self.size][self.vectors]
            along = np.unravel_index(first, mem.dims)[op["axis"]]
            self.issuers = along // (mem.dims[op["axis"]] // self.groups) * WARPGROUP_THREADS

    def read(self, batch: ProgramBatch, programs: Rows, *numbers: Array) -> Array:
        """Load the elements in shared-memory order, in vectors: (program, vector, element)."""
        address, inside = self.addresses(batch, *numbers)
        with _faults_by_thread(batch, programs):
            values = launch_of(batch).memory.load(address, inside, None, self.elements)
        word, shape = np.dtype(f"u{self.size}"), self.elements.shape
        parts = np.ascontiguousarray(broadcast_rows(values, shape, len(address))).view(word)
        return parts.reshape(len(address), -1, VECTOR_BYTES // self.size)

    def write(
        self, batch: ProgramBatch, programs: Rows, values: Array, address: Array, inside: Array
    ) -> None:
        """Store the elements, which are vectors in shared-memory order."""
        with _faults_by_thread(batch, programs):
            memory = launch_of(batch).memory
            memory.store(address, self._values(values), inside, self.elements)

    def combine(
        self, batch: ProgramBatch, programs: Rows, values: Array, address: Array, inside: Array
    ) -> None:
        """Combine the elements, as `write` stores them, into memory by atomic operations."""
        apply = partial(update_in_order, kind=self.op["kind"])
        memory, combined = launch_of(batch).memory, [self._values(values)]
        with _faults_by_thread(batch, programs):
            groups = memory.groups(address, inside, self.elements)
            update_groups(memory, groups, apply, address.shape, self.elements.dtype, combined)

    def _values(self, values: Array) -> Array:
        """Return vectors of words as elements: (program, element)."""
        flat = np.ascontiguousarray(values).reshape(len(values), -1)
        return flat.view(self.elements.dtype)

    def addresses(self, batch: ProgramBatch, base: Array, *numbers: Array) -> tuple[Array, Array]:
        """Return the addresses of the elements in shared-memory order, and which are in bounds."""
        rank = len(self.mem.dims)
        extents, strides = numbers[:rank], numbers[rank : 2 * rank - 1]
        steps = self._steps(batch, base, strides)
        self._require_aligned(batch, numbers[-1])
        first = numbers[2 * rank - 1 :]
        if self.op.defn is ops.tma.tma_reduce:
            self._require_not_negative(batch, first)
        address, inside = base, np.ones(len(base), bool)
        axes = zip(first, extents, steps, self.mem.dims, strict=True)
        for start, extent, step, count in axes:
            index, present = _along(start, extent, count)
            unit = (slice(None), *(None,) * (address.ndim - 1))
            address = address[..., None] + (index * step[:, None])[unit]
            inside = inside[..., None] & present[unit]
        return self._in_order(batch, address, inside)

    def _steps(self, batch: ProgramBatch, base: Array, strides: Sequence[Array]) -> list[Array]:
        """Return the strides of all axes in bytes; raise for one that TMA does not accept."""
        steps = [stride * self.size for stride in strides]
        for step in steps or [np.zeros_like(base)]:
            if ((base | step) % Descriptor.ALIGNMENT).any():
                raise misaligned_block(batch, self.op, int(base[0]), int(step[0]))
        return [*steps, np.full_like(base, self.size)]

    def _require_aligned(self, batch: ProgramBatch, index: Array) -> None:
        """Raise for an index along the last axis at which TMA begins no block."""
        wrong = index[index * self.size % Descriptor.ALIGNMENT != 0]
        if len(wrong):
            raise misaligned_index(batch, self.op, int(wrong[0]), self.size)

    def _require_not_negative(self, batch: ProgramBatch, first: Sequence[Array]) -> None:
        """Raise for a reduction that begins before an array (simt/hopper/block_stores.py)."""
        for axis, index in enumerate(first):
            if (index < 0).any():
                raise negative_index(batch, self.op, int(index.min()), axis)

    def _in_order(self, batch: ProgramBatch, address: Array, inside: Array) -> tuple[Array, Array]:
        """Return addresses and masks (program, ...) in shared-memory order."""
        address, inside = (x.reshape(len(x), -1)[:, self.order] for x in (address, inside))
        if launch_of(batch).counters is not None:
            access_cost.block_access(batch, self.op, address, inside)
        return address, inside

    def touch(self, batch: ProgramBatch, programs: Rows, begin: Array) -> Touch:
        """Return the vectors of the buffer, a program in each row."""
        chunk = chunk_of(batch)
        start = (begin + programs * chunk.memory.size)[:, None] + self.vectors * VECTOR_BYTES
        issuers = self.issuers if chunk.acquired is None else np.full(1, -1)
        thread = np.broadcast_to(issuers, (len(programs), len(issuers))).astype(np.int64)
        barrier = chunk.horizon(programs)[:, None]
        return Touch(self.op, start, VECTOR_BYTES, thread, barrier, self.groups > 1)


class _PixelBlock(DescriptorBlock):
    """The block of pixels and channels that a load in im2col mode copies."""

    def addresses(self, batch: ProgramBatch, base: Array, *numbers: Array) -> tuple[Array, Array]:
        spatial = len(self.op["lower"])
        rank = spatial + 2
        extents, strides = numbers[:rank], numbers[rank : 2 * rank - 1]
        first, moves = numbers[2 * rank - 1 : 3 * rank - 1], numbers[3 * rank - 1 :]
        steps = self._steps(batch, base, strides)
        self._require_aligned(batch, first[-1])
        pixels, channels = self.mem.dims
        address, inside = (
            np.zeros((len(base), pixels), np.int64),
            np.ones((len(base), pixels), bool),
        )
        index = [start.astype(np.int64) for start in first[:-1]]
        for pixel in range(pixels):
            for axis, at in enumerate(index):
                moved = at if axis == 0 else at + moves[axis - 1]
                address[:, pixel] += moved * steps[axis]
                inside[:, pixel] &= (moved >= 0) & (moved < extents[axis])
            self._advance(index, extents)
        channel, present = _along(first[-1], extents[-1], channels)
        address = base[:, None, None] + address[:, :, None] + (channel * self.size)[:, None, :]
        return self._in_order(batch, address, inside[:, :, None] & present[:, None, :])

    def _advance(self, index: list[Array], extents: Sequence[Array]) -> None:
        """Walk to the next pixel: along the last axis, else from its start along the one before."""
        window = list(zip(self.op["lower"], self.op["upper"], self.op["steps"], strict=True))
        carry = np.ones(len(index[0]), bool)
        for axis in range(len(window), 0, -1):
            lower, upper, step = window[axis - 1]
            following = index[axis] + step * carry
            wraps = following > extents[axis] - 1 + upper
            index[axis] = np.where(wraps, lower, following)
            carry = carry & wraps
        index[0] = index[0] + carry


@contextmanager
def _faults_by_thread(batch: ProgramBatch, programs: Rows) -> Iterator[None]:
    """Change the row of a fault inside the `with` block from a program to its first thread."""
    try:
        yield
    except FaultError as fault:
        fault.row = int(np.searchsorted(thread_map_of(batch).program, programs[fault.row]))
        raise


def _along(start: Array, extent: Array, count: int) -> tuple[Array, Array]:
    """Return the indices of blocks along an axis, and which are in bounds (compared unsigned)."""
    index = start.astype(np.int32)[:, None] + np.arange(count, dtype=np.int32)
    inside = index.view(np.uint32) < extent.astype(np.int32).view(np.uint32)[:, None]
    return index.astype(np.int64), inside


def _copied(mem: Shared, extents: Sequence[int]) -> Array:
    """Return which elements of a block are copied, if a part of some extents is."""
    copied = np.zeros(mem.dims, bool)
    assert isinstance(mem.layout, LinearLayout)
    strips = block_strips(mem.layout, mem.of.storage_bits)
    assert strips is not None
    copied[tuple(map(slice, replace(strips, extents=tuple(extents)).copied))] = True
    return copied


@lru_cache(maxsize=256)
def _order(layout: LinearLayout) -> Array:
    """Return the row-major index of the element at each offset."""
    table = layout.table()
    index = np.zeros(1, np.int64)
    for name, extent in zip(layout.out_dims, layout.shape, strict=True):
        index = index * extent + table[name].ravel()
    return index


# -- mbarriers


def by_program(batch: ProgramBatch, value: RunValue) -> Array:
    """Return a value that the threads of a program share, once per program."""
    result: Array = broadcast_rows(value, (), len(batch))[:: thread_map_of(batch).threads]
    return result


def _all_stages(batch: ProgramBatch, op: Operation, bars: RunValue) -> MbarrierUse:
    """Return a use of all mbarriers of an array; stage 0 stands for them."""
    require_whole_programs(batch, op)
    programs = thread_map_of(batch).programs
    return MbarrierUse(op, int(array_of(bars)[0]), programs, np.zeros(len(programs), np.int64))


def stage_of(
    batch: ProgramBatch, op: Operation, bars: RunValue, iteration: RunValue
) -> tuple[MbarrierUse, Array]:
    """Return a use of the mbarrier of an iteration, and the parity of its phase."""
    require_whole_programs(batch, op)
    number = by_program(batch, iteration).astype(np.int64) + op["stage_offset"]
    phase, stage = np.divmod(number, shared_of(op["bars"].type).stages)
    return MbarrierUse(op, int(array_of(bars)[0]), thread_map_of(batch).programs, stage), phase & 1
