"""wgmma: dots by warpgroups (four warps), with operands in shared memory.

The result is computed when the wgmma starts, from what shared memory holds then. That nobody writes
the operands before the wait is checked at run time (`InFlightReads`); that nobody uses the
accumulator before the wait, or writes registers of an operand, is checked statically
(`check_wgmma_registers`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from tile.backends.interp.bytecode import Run, rule_in, runs_in
from tile.backends.interp.program_batch import ProgramBatch
from tile.backends.interp.simulator.fault_report import require_whole_programs
from tile.backends.interp.simulator.launch import chunk_of, thread_map_of
from tile.backends.interp.simulator.shared_memory import Touch
from tile.backends.interp.simulator.threads import index_table, tiles_of
from tile.backends.interp.translate import Rules
from tile.backends.interp.values import Array, RunValue, array_of, broadcast_rows
from tile.ir import semantics
from tile.ir.core import Operation, Value
from tile.ir.shared_type import Shared, shared_of
from tile.ir.types import number_of
from tile.simt import ops
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.layouts.mma_fragments import MmaShape, Operand, matrix_layout
from tile.simt.ops.wgmma import WARPGROUP_THREADS, wgmma_sizes
from tile.simt.target import WGMMA_ACCUMULATOR_BITS

RULES: Rules = {}
rule = rule_in(RULES)

VECTOR_BYTES = 16
TF32_BITS = 10

_layout = lru_cache(maxsize=256)(matrix_layout)


@rule(ops.wgmma.wgmma)
def wgmma(op: Operation) -> Run:
    m, n, k = wgmma_sizes(op)
    shapes = [(m, k), (k, n), (m, n)]
    shared_operands = [
        _SharedOperand(op, value, operand)
        for value, operand in zip(op.inputs, Operand, strict=True)
        if isinstance(value.type, Shared)
    ]
    register_operands = {
        index: _RegisterOperand(op, index, shape)
        for index, shape in enumerate(shapes)
        if not isinstance(op.inputs[index].type, Shared)
    }
    dot = _rounded_dot(op)

    def run(batch: ProgramBatch, *operands: RunValue) -> Array:
        require_whole_programs(batch, op)
        chunk = chunk_of(batch)
        reads = {operand.index: operand for operand in shared_operands}
        touches = [operand.touch(batch, operands[index]) for index, operand in reads.items()]
        chunk.wgmma.start(thread_map_of(batch).numbers, *touches)
        a, b, acc = (
            reads[index].read(batch, value)
            if index in reads
            else register_operands[index].matrices(batch, value)
            for index, value in enumerate(operands)
        )
        if op["depth"]:
            a, b = a[..., : op["depth"]], b[..., : op["depth"], :]
        if op["columns"]:
            result = np.full_like(acc, np.nan)  # undefined
            result[..., : op["columns"]] = dot(a, b, acc[..., : op["columns"]])
        else:
            result = dot(a, b, acc)
        return register_operands[2].fragments(result)

    return run


def _rounded_dot(op: Operation) -> Callable[[Array, Array, Array], Array]:
    """Return the function that computes whole matrices as the tensor cores do.

    Tensor cores that keep few bits of a sum truncate it after each instruction's step along k.
    """
    precision, step = op["input_precision"], op["shape"][2]
    bits = dict(WGMMA_ACCUMULATOR_BITS).get(number_of(op.inputs[0].type))

    def apply(a: Array, b: Array, acc: Array) -> Array:
        if bits is None:
            return semantics.dot(a, b, acc, precision)
        for k in range(0, a.shape[-1], step):
            part = slice(k, k + step)
            acc = semantics.truncate_mantissa(
                semantics.dot(a[..., part], b[..., part, :], acc), bits
            )
        return acc

    return apply


class _RegisterOperand:
    """An operand in the registers of all threads of a program."""

    def __init__(self, op: Operation, index: int, shape: tuple[int, int]) -> None:
        operand = tuple(Operand)[index]
        layout = _layout(shape, MmaShape(*op["shape"]), operand, tuple(op["warpgroups"]))
        self.indices = index_table(layout)
        self.shape = shape

    def matrices(self, batch: ProgramBatch, value: RunValue) -> Array:
        """Return the matrices of all programs."""
        fragments = broadcast_rows(value, self.indices.shape[1:], len(batch))
        return tiles_of(fragments, self.indices, self.shape)

    def fragments(self, tiles: Array) -> Array:
        """Return each thread's fragment of the matrices."""
        flat = tiles.reshape(len(tiles), -1)
        result: Array = flat[:, self.indices].reshape(-1, self.indices.shape[1])
        return result


class _SharedOperand:
    """An operand in shared memory."""

    def __init__(self, op: Operation, value: Value, operand: Operand) -> None:
        mem = shared_of(value.type)
        assert isinstance(mem.layout, LinearLayout)
        self.op = op
        self.index = tuple(Operand).index(operand)
        self.shape = mem.dims
        self.dtype = semantics.numpy_dtype(mem.of)
        self.size = mem.of.itemsize
        columns = op["columns"] if operand is Operand.RIGHT else 0
        self.offsets = _offsets(mem.layout)[:, : columns or None]
        self.vectors = _vectors(
            mem.layout, MmaShape(*op["shape"]), operand, tuple(op["warpgroups"]), self.size, columns
        )

    def touch(self, batch: ProgramBatch, mem: RunValue) -> Touch:
        """Return the vectors that each thread's warpgroup reads."""
        thread_map = thread_map_of(batch)
        start = self.vectors[thread_map.thread] * np.int64(self.size) + array_of(mem)[:, None]
        return chunk_of(batch).memory.touch(self.op, thread_map, start, VECTOR_BYTES)

    def read(self, batch: ProgramBatch, mem: RunValue) -> Array:
        """Return the matrices of all programs."""
        thread_map, memory = thread_map_of(batch), chunk_of(batch).memory
        begin = (
            broadcast_rows(mem, (), len(batch))[:: thread_map.threads]
            + thread_map.programs * memory.size
        )
        words = memory.bytes.view(self.dtype)
        elements: Array = words[begin[:, None, None] // self.size + self.offsets]
        # Tensor cores that read f32 operands ignore the bits that tf32 does not have.
        return (
            semantics.truncate_mantissa(elements, TF32_BITS)
            if self.dtype == np.float32
            else elements
        )


@lru_cache(maxsize=256)
def _offsets(layout: LinearLayout) -> Array:
    """Return the offset of each element of a matrix, as a matrix."""
    table: Array = layout.invert().table()["offset"]
    return table.reshape(layout.shape)


@lru_cache(maxsize=256)
def _vectors(
    layout: LinearLayout,
    shape: MmaShape,
    operand: Operand,
    groups: Sequence[int],
    size: int,
    columns: int,
) -> Array:
    """Return the offsets of the vectors attributed to each thread, an array (thread, vector).

    The vectors of a warpgroup's threads together are what the warpgroup reads. `columns`, unless 0,
    is the number of columns of the right operand that it reads.
    """
    offsets = _offsets(layout)
    axis = operand.value.index("m" if operand is Operand.LEFT else "n")
    tile_size = getattr(shape, operand.value[axis])
    parts = []
    for group in range(groups[0] * groups[1]):
        number = group % groups[0] if operand is Operand.LEFT else group // groups[0]
        count = groups[0] if operand is Operand.LEFT else groups[1]
        along = np.arange(offsets.shape[axis])
        own = (along // tile_size % count == number) & (along < (columns or len(along)))
        read = np.compress(own, offsets, axis=axis).ravel()
        first = np.sort(read[read % (VECTOR_BYTES // size) == 0])
        rows = -(-len(first) // WARPGROUP_THREADS)
        parts.append(np.resize(first, (rows, WARPGROUP_THREADS)).T)
    return np.concatenate(parts)


@runs_in(RULES, require_whole_programs)(ops.wgmma.wgmma_wait)
def wgmma_wait(op: Operation, batch: ProgramBatch, acc: RunValue) -> RunValue:
    chunk_of(batch).wgmma.wait(thread_map_of(batch).numbers, op["pending"])
    return acc


@runs_in(RULES)(ops.wgmma.fence_proxy_async)
def fence_proxy_async(op: Operation, batch: ProgramBatch) -> None:
    chunk_of(batch).memory.fence(op, thread_map_of(batch))
