"""Asynchronous copies from global to local memory, by each work-item for itself."""

from __future__ import annotations

from tile.backends.opencl.emit.body import Body, Rule
from tile.backends.opencl.emit.shared import masks_of
from tile.ir.core import Operation
from tile.ir.opdef import OpDef
from tile.simt import ops


def shared_copy(body: Body, op: Operation) -> None:
    """A vector at a time, zeros where its mask is false; hints for caches are not written."""
    mem, offsets, pointers, *_ = op.inputs
    step = op["vector"]
    name = f"async_copy_{step * mem.type.element.itemsize}"
    places = body.of(offsets)
    active = "true" if op["active"] is None else body.scalar(op["active"])
    masks = masks_of(body, op, len(places))
    for offset, pointer, mask in zip(places, body.of(pointers)[::step], masks, strict=True):
        given = f"{body.scalar(mem)} + {offset}, {pointer}"
        if mask == "true":
            body.when(active, f"{body.use(name)}({given});")
        else:
            body.when(active, f"{body.use(f'{name}_if')}({given}, {mask});")


def copy_commit(body: Body, op: Operation) -> None:
    """Close a group."""
    body.line(f"{body.use('async_commit')}();")


def copy_wait(body: Body, op: Operation) -> None:
    """Wait for all groups but the last ones."""
    body.line(f"{body.use('async_wait')}({op['pending']});")


RULES: dict[OpDef, Rule] = {
    ops.thread.shared_copy: shared_copy,
    ops.shared.copy_commit: copy_commit,
    ops.shared.copy_wait: copy_wait,
}
