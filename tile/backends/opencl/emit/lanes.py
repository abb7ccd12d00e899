"""Shuffles: registers of other lanes of the sub-group."""

from __future__ import annotations

from collections.abc import Callable

from tile.backends.opencl.emit.body import Body, Rule
from tile.backends.opencl.emit.types import carrier, is_bits, is_integer
from tile.ir.core import Operation
from tile.ir.opdef import OpDef
from tile.ir.types import I1, Pointer
from tile.simt import ops


def shuffle(body: Body, op: Operation) -> None:
    """What a lane by number has."""
    lane = body.scalar(op.inputs[1])
    _shuffled(body, op, lambda x: f"sub_group_shuffle({x}, {lane})")


def shuffle_xor(body: Body, op: Operation) -> None:
    """What the lane across has."""
    mask = op["mask"]
    _shuffled(body, op, lambda x: f"sub_group_shuffle_xor({x}, {mask}u)")


def _shuffled(body: Body, op: Operation, move: Callable[[str], str]) -> None:
    ty = op.inputs[0].type.element
    held = body.source.carrier(ty)

    def moved(x: str) -> str:
        if ty is I1:
            return f"{move(f'(uint){x}')} != 0"
        if isinstance(ty, Pointer):
            return f"({held}){move(f'(ulong){x}')}"
        if is_integer(ty) or is_bits(ty, body.source.device.fp16):
            return move(f"({carrier(ty, True) if is_integer(ty) else held}){x}")
        return move(x)

    body.source.extensions |= {"cl_khr_subgroups", "cl_khr_subgroup_shuffle"}
    x = op.inputs[0]
    if body.rolled(op.result):
        row = body.row(x)
        body.compute(op, lambda index: moved(row.at(index)), pure=False)
    else:
        body.let(op, [moved(register) for register in body.of(x)])


RULES: dict[OpDef, Rule] = {
    ops.thread.shuffle: shuffle,
    ops.thread.shuffle_xor: shuffle_xor,
}
