"""Shuffles: registers of other lanes, by functions of sub-groups or by assembly.

Sub-groups move values of any type; assembly moves words of 32 bits, as which all else is spelled.
"""

from __future__ import annotations

from tile.backends.opencl.emit.arith import Element
from tile.backends.opencl.emit.assembly import reduction
from tile.backends.opencl.emit.body import Body, Rule, each
from tile.backends.opencl.emit.types import carrier, is_bits, is_integer, is_signed, unsigned
from tile.ir.core import Operation
from tile.ir.opdef import OpDef
from tile.ir.types import I1, Pointer
from tile.simt import ops


def shuffle(body: Body, op: Operation) -> None:
    """What a lane by number has."""
    _shuffled(body, op, "shuffle", body.scalar(op.inputs[1]))


def shuffle_xor(body: Body, op: Operation) -> None:
    """What the lane across has."""
    _shuffled(body, op, "shuffle_xor", f"{op['mask']}u")


def lane_reduce(body: Body, op: Operation) -> None:
    """What all lanes of a warp have, combined; integers of 32 bits, as `Capabilities.simt` says."""
    name = body.use(reduction(op["kind"], is_signed(op.result.type.element)))
    each(body, op, lambda x: f"{name}({x})", pure=False)


def _shuffled(body: Body, op: Operation, what: str, lane: str) -> None:
    moved = _by_subgroups if body.source.device.subgroups else _by_words
    x = op.inputs[0]

    def move(register: str) -> str:
        return moved(body, x.type.element, what, register, lane)

    if body.rolled(op.result):
        row = body.row(x)
        body.compute(op, lambda index: move(row.at(index)), pure=False)
    else:
        body.let(op, [move(register) for register in body.of(x)])


def _by_subgroups(body: Body, ty: Element, what: str, x: str, lane: str) -> str:
    body.source.extensions |= {"cl_khr_subgroups", "cl_khr_subgroup_shuffle"}
    name, held = f"sub_group_{what}", body.source.carrier(ty)
    if ty is I1:
        return f"{name}((uint){x}, {lane}) != 0"
    if isinstance(ty, Pointer):
        return f"({held}){name}((ulong){x}, {lane})"
    if is_integer(ty) or is_bits(ty, body.source.device.fp16):
        return f"{name}(({carrier(ty, True) if is_integer(ty) else held}){x}, {lane})"
    return f"{name}({x}, {lane})"


def _by_words(body: Body, ty: Element, what: str, x: str, lane: str) -> str:
    name = body.use(f"lane_{what}_64" if ty.bits == 64 else f"lane_{what}")
    held = body.source.carrier(ty)
    if ty is I1:
        return f"{name}((uint){x}, {lane}) != 0"
    if isinstance(ty, Pointer):
        return f"({held}){name}((ulong){x}, {lane})"
    if is_integer(ty) or is_bits(ty, body.source.device.fp16):
        word = f"{name}({x}, {lane})"
        return word if ty.bits >= 32 else f"({held}){word}"
    bits = unsigned(ty.bits)
    word = f"{name}(as_{bits}({x}), {lane})"
    return f"as_{held}({word if ty.bits >= 32 else f'({bits}){word}'})"


RULES: dict[OpDef, Rule] = {
    ops.thread.shuffle: shuffle,
    ops.thread.shuffle_xor: shuffle_xor,
    ops.thread.lane_reduce: lane_reduce,
}
