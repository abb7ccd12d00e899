"""Emit accesses to shared memory: one array in local memory, and typed pointers into it.

Asynchronous copies (PTX `cp.async`) from global to local memory are issued one per work-item.
"""

from __future__ import annotations

from collections.abc import Callable

from tile.backends.opencl.emit.function_builder import FunctionBuilder, Rule
from tile.backends.opencl.emit.memory import (
    LOCAL,
    dereference,
    from_memory,
    read_all,
    read_vector,
    signed,
    write,
)
from tile.backends.opencl.emit.register_arrays import Index
from tile.backends.opencl.emit.types import is_literal, value_of
from tile.codegen.emitter import forward, is_operand_load
from tile.ir.core import Operation, Value
from tile.ir.op_definition import OpDef
from tile.ir.shared_type import shared_of
from tile.simt import ops

SHARED = "shared"


def local_alloc(builder: FunctionBuilder, op: Operation) -> None:
    """Emit a buffer at the offset that shared-memory allocation assigned."""
    kind = builder.source.stored(op.result.type.element)
    name = builder.names.new(op.result.name or "buffer")
    at = f"({SHARED} + {op['offset']})" if op["offset"] else SHARED
    builder.line(f"{LOCAL} {kind} *{name} = ({LOCAL} {kind} *){at};")
    builder.set(op, [name])


def local_subview(builder: FunctionBuilder, op: Operation) -> None:
    """Emit the subview of a multi-buffer for an iteration."""
    mem, iteration = op.inputs
    ty = shared_of(mem.type)
    if ty.stages == 1:
        builder.set(op, builder.of(mem))
        return
    number, shift = builder.scalar(iteration), op["stage_offset"] % ty.stages
    if is_literal(number):
        stage = str((value_of(number) + shift) % ty.stages)
    else:
        stage = f"({number} + {shift}) % {ty.stages}" if shift else f"{number} % {ty.stages}"
    kind = builder.source.stored(ty.of)
    name = builder.names.new(op.result.name or "stage")
    builder.line(f"{LOCAL} {kind} *{name} = {builder.scalar(mem)} + {stage} * {ty.numel};")
    builder.set(op, [name])


def shared_load(builder: FunctionBuilder, op: Operation) -> None:
    """Emit a load in vectors, which are aligned to their size.

    An operand that is multiplied in local memory (`Capabilities.dot_from_local`) is not loaded
    here: its uses read local memory.
    """
    mem, offset = op.inputs
    ty, step = mem.type.element, op["vector"]
    address = _address(builder, op, offset, op.result)

    def one(index: Index) -> str:
        return from_memory(builder, ty, dereference(address(index)))

    deferred = builder.source.device.dot_from_local and step == 1 and builder.is_array(op.result)
    if deferred and is_operand_load(op):
        builder.defer(op, one, cost=1)
    else:
        read_all(
            builder, op, one, lambda index: read_vector(builder, ty, LOCAL, address(index), step)
        )


def _address(
    builder: FunctionBuilder, op: Operation, offset: Value, like: Value
) -> Callable[[Index], str]:
    """Return the function from the first register of a vector to its address."""
    buffer, offsets = builder.scalar(op.inputs[0]), builder.column(offset, like)
    vector = op["vector"].bit_length() - 1
    return lambda index: f"{buffer} + {signed(builder, offsets.at(index.down(vector)))}"


def shared_store(builder: FunctionBuilder, op: Operation) -> None:
    """Emit a store in vectors, each under its mask."""
    mem, offset, value, *_ = op.inputs
    step = op["vector"]
    address, masks = _address(builder, op, offset, value), builder.mask_column(op, value)
    values, vector = builder.column(value, value), step.bit_length() - 1
    for index in builder.vectors(value, step):
        pointer, mask = address(index), masks.at(index.down(vector))
        registers = [values.at(index.plus(i)) for i in range(step)]
        write(builder, mem.type.element, LOCAL, pointer, registers, mask)


def shared_atomic_inc(builder: FunctionBuilder, op: Operation) -> None:
    """Emit an atomic increment."""
    buffer, offsets = builder.scalar(op.inputs[0]), builder.of(op.inputs[1])
    for offset, mask in zip(offsets, builder.masks(op, len(offsets)), strict=True):
        builder.when(mask, f"atomic_inc({buffer} + {offset});")


def shared_cp_async(builder: FunctionBuilder, op: Operation) -> None:
    """Emit one copy per vector, which writes zeros if its mask is false. Ignore cache hints."""
    mem = op.inputs[0]
    step = op["vector"]
    name = f"async_copy_{step * mem.type.element.itemsize}"
    offsets, pointers = (builder.of(value) for value in op.inputs[1:3])
    active = "true" if op["active"] is None else builder.scalar(op["active"])
    masks = builder.masks(op, len(offsets))
    for offset, pointer, mask in zip(offsets, pointers[::step], masks, strict=True):
        arguments = f"{builder.scalar(mem)} + {offset}, {pointer}"
        if mask == "true":
            builder.when(active, f"{builder.use(name)}({arguments});")
        else:
            builder.when(active, f"{builder.use(f'{name}_if')}({arguments}, {mask});")


def cp_async_commit_group(builder: FunctionBuilder, op: Operation) -> None:
    """Commit the copies since the last commit as one group."""
    builder.line(f"{builder.use('async_commit')}();")


def cp_async_wait_group(builder: FunctionBuilder, op: Operation) -> None:
    """Wait until at most `pending` groups are in flight."""
    builder.line(f"{builder.use('async_wait')}({op['pending']});")


RULES: dict[OpDef, Rule] = {
    ops.shared.local_alloc: local_alloc,
    ops.shared.local_subview: local_subview,
    ops.shared.local_trans: forward,
    ops.shared.local_reshape: forward,
    ops.thread.shared_load: shared_load,
    ops.thread.shared_store: shared_store,
    ops.thread.shared_atomic_inc: shared_atomic_inc,
    ops.thread.shared_cp_async: shared_cp_async,
    ops.shared.cp_async_commit_group: cp_async_commit_group,
    ops.shared.cp_async_wait_group: cp_async_wait_group,
}
