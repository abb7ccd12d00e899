"""Emit shuffles and warp reductions, by sub-group functions or by inline PTX.

Sub-group functions take values of any type. PTX shuffles 32-bit words, to which other types are
converted.
"""

from __future__ import annotations

from tile.backends.opencl.emit.arith import Element
from tile.backends.opencl.emit.function_builder import FunctionBuilder, Rule, each
from tile.backends.opencl.emit.helper_functions import reduction
from tile.backends.opencl.emit.types import carrier, is_bits, is_integer, unsigned
from tile.ir.core import OpDef, Operation
from tile.ir.types import I1, Pointer
from tile.simt import ops


def shuffle(builder: FunctionBuilder, op: Operation) -> None:
    """Emit a read of the lane with a given number."""
    _emit_shuffle(builder, op, "shuffle", builder.scalar(op.inputs[1]))


def shuffle_xor(builder: FunctionBuilder, op: Operation) -> None:
    """Emit a read of the lane whose number differs by an XOR."""
    _emit_shuffle(builder, op, "shuffle_xor", f"{op['mask']}u")


def warp_reduce(builder: FunctionBuilder, op: Operation) -> None:
    """Emit a reduction over all lanes of a warp, of 32-bit integers (`Capabilities.simt`)."""
    name = builder.use(reduction(op["kind"], op.result.type.element.is_int_signed()))
    each(builder, op, lambda x: f"{name}({x})", pure=False)


def _emit_shuffle(builder: FunctionBuilder, op: Operation, name: str, lane: str) -> None:
    emit = _by_subgroup_function if builder.source.device.subgroups else _by_ptx
    x = op.inputs[0]

    def move(register: str) -> str:
        return emit(builder, x.type.element, name, register, lane)

    if builder.is_array(op.result):
        row = builder.array_of(x)
        builder.compute(op, lambda index: move(row.at(index)), pure=False)
    else:
        builder.let(op, [move(register) for register in builder.of(x)])


def _by_subgroup_function(
    builder: FunctionBuilder, ty: Element, name: str, x: str, lane: str
) -> str:
    builder.source.extensions |= {"cl_khr_subgroups", "cl_khr_subgroup_shuffle"}
    name, c_type = f"sub_group_{name}", builder.source.carrier(ty)
    if ty is I1:
        return f"{name}((uint){x}, {lane}) != 0"
    if isinstance(ty, Pointer):
        return f"({c_type}){name}((ulong){x}, {lane})"
    if is_integer(ty) or is_bits(ty, builder.source.device.fp16):
        return f"{name}(({carrier(ty, True) if is_integer(ty) else c_type}){x}, {lane})"
    return f"{name}({x}, {lane})"


def _by_ptx(builder: FunctionBuilder, ty: Element, name: str, x: str, lane: str) -> str:
    name = builder.use(f"lane_{name}_64" if ty.bits == 64 else f"lane_{name}")
    c_type = builder.source.carrier(ty)
    if ty is I1:
        return f"{name}((uint){x}, {lane}) != 0"
    if isinstance(ty, Pointer):
        return f"({c_type}){name}((ulong){x}, {lane})"
    if is_integer(ty) or is_bits(ty, builder.source.device.fp16):
        word = f"{name}({x}, {lane})"
        return word if ty.bits >= 32 else f"({c_type}){word}"
    bits = unsigned(ty.bits)
    word = f"{name}(as_{bits}({x}), {lane})"
    return f"as_{c_type}({word if ty.bits >= 32 else f'({bits}){word}'})"


RULES: dict[OpDef, Rule] = {
    ops.thread.shuffle_idx: shuffle,
    ops.thread.shuffle_xor: shuffle_xor,
    ops.thread.warp_reduce: warp_reduce,
}
