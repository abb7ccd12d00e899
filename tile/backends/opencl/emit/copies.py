"""Emit asynchronous copies (PTX `cp.async`) from global to local memory, one per work-item."""

from __future__ import annotations

from tile.backends.opencl.emit.body import FunctionBuilder, Rule
from tile.backends.opencl.emit.shared import masks_of
from tile.ir.core import Operation
from tile.ir.opdef import OpDef
from tile.simt import ops


def shared_copy(builder: FunctionBuilder, op: Operation) -> None:
    """Emit one copy per vector, which writes zeros if its mask is false. Ignore cache hints."""
    mem = op.inputs[0]
    step = op["vector"]
    name = f"async_copy_{step * mem.type.element.itemsize}"
    offsets, pointers = (builder.of(value) for value in op.inputs[1:3])
    active = "true" if op["active"] is None else builder.scalar(op["active"])
    masks = masks_of(builder, op, len(offsets))
    for offset, pointer, mask in zip(offsets, pointers[::step], masks, strict=True):
        arguments = f"{builder.scalar(mem)} + {offset}, {pointer}"
        if mask == "true":
            builder.when(active, f"{builder.use(name)}({arguments});")
        else:
            builder.when(active, f"{builder.use(f'{name}_if')}({arguments}, {mask});")


def copy_commit(builder: FunctionBuilder, op: Operation) -> None:
    """Commit the copies since the last commit as one group."""
    builder.line(f"{builder.use('async_commit')}();")


def copy_wait(builder: FunctionBuilder, op: Operation) -> None:
    """Wait until at most `pending` groups are in flight."""
    builder.line(f"{builder.use('async_wait')}({op['pending']});")


RULES: dict[OpDef, Rule] = {
    ops.thread.shared_copy: shared_copy,
    ops.shared.copy_commit: copy_commit,
    ops.shared.copy_wait: copy_wait,
}
