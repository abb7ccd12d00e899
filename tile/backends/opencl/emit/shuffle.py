"""Emit shuffles and warp reductions, by sub-group functions or by inline PTX.

Sub-group functions take values of any type. PTX shuffles 32-bit words, to which other types are
converted.
"""

from __future__ import annotations

from tile.backends.opencl.emit.arith import Element
from tile.backends.opencl.emit.function_builder import FunctionBuilder, Rule, each
from tile.backends.opencl.emit.helper_functions import reduction
from tile.backends.opencl.emit.types import is_bits, is_integer, unsigned
from tile.ir.core import Operation
from tile.ir.op_definition import OpDef
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
    x, device = op.inputs[0], builder.source.device
    ty: Element = x.type.element
    c_type, is_register = builder.source.carrier(ty), is_integer(ty) or is_bits(ty, device.fp16)
    if device.subgroups:
        builder.source.extensions |= {"cl_khr_subgroups", "cl_khr_subgroup_shuffle"}
        function = f"sub_group_{name}"
    else:
        function = builder.use(f"lane_{name}_64" if ty.bits == 64 else f"lane_{name}")

    def move(register: str) -> str:
        if ty is I1:
            return f"{function}((uint){register}, {lane}) != 0"
        if isinstance(ty, Pointer):
            return f"({c_type}){function}((ulong){register}, {lane})"
        if device.subgroups:
            return f"{function}({f'({c_type})' if is_register else ''}{register}, {lane})"
        if is_register:
            word = f"{function}({register}, {lane})"
            return word if ty.bits >= 32 else f"({c_type}){word}"
        bits = unsigned(ty.bits)
        word = f"{function}(as_{bits}({register}), {lane})"
        return f"as_{c_type}({word if ty.bits >= 32 else f'({bits}){word}'})"

    each(builder, op, move, pure=False, operands=[x])


RULES: dict[OpDef, Rule] = {
    ops.thread.shuffle_idx: shuffle,
    ops.thread.shuffle_xor: shuffle_xor,
    ops.thread.warp_reduce: warp_reduce,
}
