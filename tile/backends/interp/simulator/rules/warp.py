"""Operations of one warp or of one thread: shuffles, warp reductions and dots.

`fma_dot` multiplies the registers of one thread; `mma` multiplies fragments that the lanes of a
warp hold together.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tile.backends.interp.bytecode import Run, rule_in, runs_in
from tile.backends.interp.program_batch import ProgramBatch
from tile.backends.interp.simulator.fault_report import require_whole_warps
from tile.backends.interp.simulator.launch import thread_map_of
from tile.backends.interp.translate import Rules
from tile.backends.interp.values import Array, RunValue, array_of, broadcast_rows, full
from tile.errors import ExecutionError, UnsupportedError
from tile.ir import semantics
from tile.ir.core import Operation
from tile.simt import ops
from tile.simt.layouts.mma_fragments import MmaShape, Operand, matrix_fragment

RULES: Rules = {}
rule, runs_by_warp = rule_in(RULES), runs_in(RULES, require_whole_warps)


@runs_by_warp(ops.thread.shuffle_idx)
def shuffle(op: Operation, batch: ProgramBatch, x: RunValue, lane: RunValue) -> Array:
    size = thread_map_of(batch).lanes
    array, lanes = array_of(x), broadcast_rows(lane, (), len(batch))
    wrong = (lanes < 0) | (lanes >= size)
    if wrong.any():
        row = int(wrong.argmax())
        raise ExecutionError(
            f"shuffle_idx reads lane {int(lanes[row])} of a warp of {size}",
            loc=op.loc,
            notes=[f"in {batch.launch.program(int(batch.rows[row]))}"],
        )
    return _from(array, np.arange(len(batch)) // size * size + lanes)


@runs_by_warp(ops.thread.shuffle_xor)
def shuffle_xor(op: Operation, batch: ProgramBatch, x: RunValue) -> Array:
    mask, size = op["mask"], thread_map_of(batch).lanes
    if mask >= size:
        raise ExecutionError(f"shuffle_xor by {mask} exceeds a warp of {size}", loc=op.loc)
    return _from(array_of(x), _partners(len(batch), mask))


@runs_by_warp(ops.thread.warp_reduce)
def warp_reduce(op: Operation, batch: ProgramBatch, x: RunValue) -> Array:
    lanes, shape = thread_map_of(batch).lanes, op.inputs[0].type.shape
    array = broadcast_rows(x, shape, len(batch)).reshape(-1, lanes, *shape)
    total = semantics.reduce(array, op["kind"], -1 - len(shape), op["propagate_nan"])
    result: Array = np.repeat(total, lanes, axis=0)
    return result


@lru_cache(maxsize=256)
def _partners(rows: int, mask: int) -> Array:
    """Return, for each row, the row of the lane whose number differs in the bits of `mask`."""
    return np.arange(rows) ^ mask


def _from(array: Array, rows: Array) -> Array:
    """Return the values of other rows; an array of one row, which all rows share, is unchanged."""
    return array if len(array) == 1 else array.take(rows, axis=0)


# Indices into the repeats along (m, n, k) for the rows and columns of each operand.
_REPEATS = {Operand.LEFT: (0, 2), Operand.RIGHT: (2, 1), Operand.ACCUMULATOR: (0, 1)}


@rule(ops.mma.fma_dot)
def fma_dot(op: Operation) -> Run:
    batch_size, m, n, k = op["sizes"]
    shapes = [(batch_size, m, k), (batch_size, k, n), (batch_size, m, n)]
    counts = [value.type.shape for value in op.inputs]
    precision = op["input_precision"]

    def run(batch: ProgramBatch, *operands: RunValue) -> Array:
        a, b, acc = (
            full(value, count).reshape(-1, *shape)
            for value, count, shape in zip(operands, counts, shapes, strict=True)
        )
        result = semantics.dot(a, b, acc, precision)
        return result.reshape(len(result), -1)

    return run


@rule(ops.mma.mma)
def mma(op: Operation) -> Run:
    shape, repeats = MmaShape(*op["shape"]), op["repeats"]
    counts = [value.type.shape for value in op.inputs]
    sizes = [
        (getattr(shape, name[0]) * repeats[rows], getattr(shape, name[1]) * repeats[columns])
        for name, (rows, columns) in ((o.value, _REPEATS[o]) for o in Operand)
    ]
    element_tables = [
        _elements(shape, operand, repeats[rows], repeats[columns])
        for operand, (rows, columns) in _REPEATS.items()
    ]
    for value, elements in zip(op.inputs, element_tables, strict=True):
        if value.type.shape != elements.shape[1:]:
            raise UnsupportedError(
                f"{repeats} repeats of {shape} take {elements.shape[1]} registers, not {value.type}"
            )
    holder_tables = [_holders(elements) for elements in element_tables]
    precision = op["input_precision"]

    def run(batch: ProgramBatch, *operands: RunValue) -> Array:
        require_whole_warps(batch, op)
        lanes, rows = thread_map_of(batch).lanes, len(batch)
        a, b, acc = (
            broadcast_rows(value, count, rows)
            .reshape(rows // lanes, -1)
            .take(holders, axis=1)
            .reshape(-1, *size)
            for value, count, holders, size in zip(
                operands, counts, holder_tables, sizes, strict=True
            )
        )
        result = semantics.dot(a, b, acc, precision)
        return result.reshape(rows // lanes, -1).take(element_tables[2], axis=1).reshape(rows, -1)

    return run


@lru_cache(maxsize=256)
def _elements(shape: MmaShape, operand: Operand, rows: int, columns: int) -> Array:
    """Return the row-major index of the element that each (lane, register) of a warp holds.

    The operand covers `rows` by `columns` instructions; `mma` documents their order.
    """
    table = matrix_fragment(shape, operand).select_ins("register", "lane").table()
    row, column = (table[name].T for name in ("dim0", "dim1"))
    height, width = (getattr(shape, axis) for axis in operand.value)
    # Repeats along the columns vary fastest for a and acc, those along the rows for b.
    over_rows, over_columns = np.arange(rows) * height, np.arange(columns) * width
    if operand is Operand.RIGHT:
        row = row[:, None, None, :] + over_rows[None, None, :, None]
        column = column[:, None, None, :] + over_columns[None, :, None, None]
    else:
        row = row[:, None, None, :] + over_rows[None, :, None, None]
        column = column[:, None, None, :] + over_columns[None, None, :, None]
    index: Array = (row * (width * columns) + column).reshape(len(row), -1)
    return index


def _holders(elements: Array) -> Array:
    """Return, for each element, the flat (lane, register) index that holds it."""
    flat = elements.ravel()
    holders = np.empty(flat.size, np.intp)
    holders[flat] = np.arange(flat.size)
    return holders
