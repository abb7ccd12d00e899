"""The table of THREAD rules, and the rules of operations that concern one thread alone."""

from __future__ import annotations

import numpy as np

from tile.backends.interp import rules as tile_rules
from tile.backends.interp.bytecode import Run, rule_in, runs_in
from tile.backends.interp.fault_report import first_true
from tile.backends.interp.program_batch import ProgramBatch
from tile.backends.interp.rules import print_line
from tile.backends.interp.simulator.fault_report import require_whole_programs
from tile.backends.interp.simulator.launch import chunk_of, launch_of, thread_map_of
from tile.backends.interp.simulator.rules import cluster, shared, tma, warp, wgmma
from tile.backends.interp.simulator.rules import memory as memory_rules
from tile.backends.interp.simulator.threads import index_table, tiles_of
from tile.backends.interp.translate import Rules
from tile.backends.interp.values import Array, RunValue, array_of, broadcast_rows, full
from tile.errors import OutOfBoundsError
from tile.ir.core import Operation
from tile.ir.ops import memory as memory_ops
from tile.ir.types import Fragment, Type
from tile.simt import ops
from tile.simt.layouts.linear_layout import LinearLayout

RULES: Rules = {
    **tile_rules.RULES,
    **memory_rules.RULES,
    **tma.RULES,
    **cluster.RULES,
    **warp.RULES,
    **wgmma.RULES,
    **shared.RULES,
}
rule, runs = rule_in(RULES), runs_in(RULES)
runs_by_program = runs_in(RULES, require_whole_programs)


@runs(ops.thread.thread_id)
def thread_id(op: Operation, batch: ProgramBatch) -> Array:
    return thread_map_of(batch).number


@rule(ops.thread.layout_index)
def layout_index(op: Operation) -> Run:
    indices = index_table(op["layout"])
    if not isinstance(op.result.type, Fragment):
        indices = indices[:, 0]

    def run(batch: ProgramBatch) -> Array:
        result: Array = indices[thread_map_of(batch).thread]
        return result

    return run


@runs(ops.thread.opaque)
def opaque(op: Operation, batch: ProgramBatch, x: RunValue) -> RunValue:
    return x


@runs(ops.thread.frag_splat)
def fill(op: Operation, batch: ProgramBatch, x: RunValue) -> Array:
    return array_of(x)[:, None]


@rule(ops.thread.frag_shuffle)
def pick(op: Operation) -> Run:
    registers = np.array(op["registers"])
    shapes = [value.type.shape for value in op.inputs]

    def run(batch: ProgramBatch, *xs: RunValue) -> Array:
        arrays = [full(x, shape) for x, shape in zip(xs, shapes, strict=True)]
        if len(arrays) == 1:
            return arrays[0].take(registers, axis=1)
        rows = max(len(array) for array in arrays)
        joined = np.concatenate([np.broadcast_to(a, (rows, a.shape[1])) for a in arrays], axis=1)
        return joined.take(registers, axis=1)

    return run


@rule(ops.thread.frag_gather)
def frag_gather(op: Operation) -> Run:
    x_shape, index_shape = (value.type.shape for value in op.inputs)
    (count,) = x_shape

    def run(batch: ProgramBatch, x: RunValue, index: RunValue) -> Array:
        values, numbers = full(x, x_shape), full(index, index_shape)
        wrong = (numbers < 0) | (numbers >= count)
        if wrong.any():
            row, register = first_true(wrong)
            where = batch.launch.element((register,), int(batch.rows[row]))
            raise OutOfBoundsError(
                f"frag_gather reads register {int(numbers[row, register])} of {count}",
                loc=op.loc,
                notes=[where],
            )
        rows = max(len(values), len(numbers))
        values, numbers = (np.broadcast_to(a, (rows, a.shape[1])) for a in (values, numbers))
        return np.take_along_axis(values, numbers, axis=1)

    return run


@runs(ops.thread.frag_extract)
def element(op: Operation, batch: ProgramBatch, x: RunValue) -> Array:
    array = array_of(x)
    return array[:, op["register"] if array.shape[1] > 1 else 0]


@runs_by_program(memory_ops.barrier)
def barrier(op: Operation, batch: ProgramBatch) -> None:
    chunk_of(batch).order.barrier(op, thread_map_of(batch).programs)
    chunk_of(batch).memory.barrier(op, thread_map_of(batch))
    launch = launch_of(batch)
    if launch.races is not None:
        launch.races.barrier(np.unique(launch.programs_of(batch.rows)))


@runs_by_program(ops.order.warpgroup_barrier)
def warpgroup_barrier(op: Operation, batch: ProgramBatch) -> None:
    chunk_of(batch).memory.warpgroup_barrier(op, thread_map_of(batch))


@runs_by_program(ops.order.order_wait)
def order_wait(op: Operation, batch: ProgramBatch) -> None:
    chunk_of(batch).order.wait(op, thread_map_of(batch).programs)


@runs_by_program(ops.order.order_arrive)
def order_arrive(op: Operation, batch: ProgramBatch) -> None:
    chunk_of(batch).order.arrive(op, thread_map_of(batch).programs)


@runs(ops.thread.thread_print)
def thread_print(op: Operation, batch: ProgramBatch, *values: RunValue) -> None:
    """Assemble tiles from fragments, and print a line for each program."""
    thread_map = thread_map_of(batch)
    if op["layouts"]:
        require_whole_programs(batch, op)
    layouts, shapes = iter(op["layouts"]), iter(ops.thread.printed_shapes(op))
    parts = []
    for value, operand in zip(values, op.inputs, strict=True):
        layout = next(layouts) if isinstance(operand.type, Fragment) else None
        layoutless, part = _tiles(value, operand.type, layout, len(batch))
        if not layoutless:
            part = part[(slice(None), *map(slice, next(shapes)))]
        parts.append((layoutless, part))
    first = np.flatnonzero(np.diff(thread_map.program, prepend=-1))
    for number, row in enumerate(first):
        index = int(launch_of(batch).programs_of(batch.rows[row : row + 1])[0])
        texts = [part[row if layoutless else number] for layoutless, part in parts]
        print_line(op, batch, index, texts)


def _tiles(
    value: RunValue, kind: Type, layout: LinearLayout | None, rows: int
) -> tuple[bool, Array]:
    """Return (True, values by row) for a scalar, and (False, tiles by program) for a fragment."""
    array = broadcast_rows(value, kind.shape, rows)
    if layout is None:
        return True, array
    return False, tiles_of(array, index_table(layout), layout.shape)
