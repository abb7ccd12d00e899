"""Shuffles and reductions among the lanes of a warp."""

from __future__ import annotations

from functools import lru_cache, partial, reduce

import numpy as np

from tile.backends.interp.code import Rules, Run
from tile.backends.interp.thread.declare import rule_in
from tile.backends.interp.thread.faults import require_whole_warps
from tile.backends.interp.thread.launch import thread_map_of
from tile.backends.interp.values import Array, RunValue, array_of, broadcast_rows
from tile.backends.interp.wave import Wave
from tile.errors import ExecutionError
from tile.ir import numerics
from tile.ir.core import Operation
from tile.ir.ops.reduce import EXTREMES
from tile.simt import ops
from tile.simt.decompose.regions import KINDS

RULES: Rules = {}
rule = rule_in(RULES)


@rule(ops.thread.shuffle)
def shuffle(op: Operation) -> Run:
    def run(batch: Wave, x: RunValue, lane: RunValue) -> Array:
        require_whole_warps(batch, op)
        size = thread_map_of(batch).lanes
        array, lanes = array_of(x), broadcast_rows(lane, (), len(batch))
        wrong = (lanes < 0) | (lanes >= size)
        if wrong.any():
            row = int(wrong.argmax())
            raise ExecutionError(
                f"shuffle reads lane {int(lanes[row])} of a warp of {size}",
                loc=op.loc,
                notes=[f"in {batch.launch.program(int(batch.rows[row]))}"],
            )
        return _from(array, np.arange(len(batch)) // size * size + lanes)

    return run


@rule(ops.thread.shuffle_xor)
def shuffle_xor(op: Operation) -> Run:
    mask = op["mask"]

    def run(batch: Wave, x: RunValue) -> Array:
        require_whole_warps(batch, op)
        if mask >= thread_map_of(batch).lanes:
            raise ExecutionError(
                f"shuffle_xor by {mask} exceeds a warp of {thread_map_of(batch).lanes}", loc=op.loc
            )
        return _from(array_of(x), _partners(len(batch), mask))

    return run


@rule(ops.thread.lane_reduce)
def lane_reduce(op: Operation) -> Run:
    combine = KINDS[op["kind"]]
    extreme = op["kind"] in EXTREMES
    attributes = {"propagate_nan": op["propagate_nan"]} if extreme else {}
    shape = op.inputs[0].type.shape
    assert combine.meaning is not None
    semantics = partial(combine.meaning, **attributes)

    def run(batch: Wave, x: RunValue) -> Array:
        require_whole_warps(batch, op)
        lanes = thread_map_of(batch).lanes
        array = broadcast_rows(x, shape, len(batch))
        with numerics.quiet():
            total = reduce(semantics, array.reshape(-1, lanes, *shape).swapaxes(0, 1))
        result: Array = np.repeat(total, lanes, axis=0)
        return result

    return run


@lru_cache(maxsize=256)
def _partners(rows: int, mask: int) -> Array:
    """Return, for each row, the row of the lane whose number differs in the bits of `mask`."""
    return np.arange(rows) ^ mask


def _from(array: Array, rows: Array) -> Array:
    """Return the values of other rows; an array of one row, which all rows share, is unchanged."""
    return array if len(array) == 1 else array.take(rows, axis=0)
