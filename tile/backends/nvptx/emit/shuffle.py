"""Shuffles of 32-bit registers between the lanes of a warp, and warp reductions."""

from __future__ import annotations

from collections.abc import Callable

from tile.backends.nvptx.emit.function_builder import FunctionBuilder
from tile.backends.nvptx.emit.inline_asm import assemble
from tile.backends.nvptx.emit.vectors import (
    as_integers,
    from_integers,
    pack,
    unpack,
)
from tile.codegen.llvm.function_builder import Rule
from tile.codegen.llvm.memory import from_memory, to_memory
from tile.codegen.llvm.types import llvm_type
from tile.ir.core import Operation
from tile.ir.op_definition import OpDef
from tile.ir.ops.reduce import ReduceKind
from tile.ir.types import F32, I1, I8, Pointer, Scalar, number_of
from tile.simt import ops

LAST_LANE = 31
Move = Callable[[str], str]


def shuffle_idx(builder: FunctionBuilder, op: Operation) -> None:
    """Read the register of a lane given by number."""
    lane = builder.scalar(op.inputs[1])
    _move_registers(builder, op, lambda register: _sync(builder, "idx", register, lane))


def shuffle_xor(builder: FunctionBuilder, op: Operation) -> None:
    """Read the register of the lane whose number differs by XOR with a mask."""
    _move_registers(builder, op, lambda register: _sync(builder, "bfly", register, str(op["mask"])))


def warp_reduce(builder: FunctionBuilder, op: Operation) -> None:
    """Emit one `redux` for each register."""
    element = number_of(op.result.type)
    ty, kind = llvm_type(element), _REDUX.get(op["kind"], str(op["kind"]))
    suffix = "b32"
    if kind in ("add", "min", "max"):
        suffix = "f32" if element is F32 else "s32" if element.is_int_signed() else "u32"
    nan = ".NaN" if op["propagate_nan"] and element is F32 else ""
    text = f"redux.sync.{kind}{nan}.{suffix} $0, $1, -1;"

    def combine(x: str) -> str:
        return assemble(builder, text, [ty], [(ty, x)], convergent=True)[0]

    builder.set(op, [combine(x) for x in builder.of(op.inputs[0])])


_REDUX = {ReduceKind.SUM: "add"}


def _sync(builder: FunctionBuilder, kind: str, register: str, lane: str) -> str:
    operands = (("i32", "-1"), ("i32", register), ("i32", lane), ("i32", str(LAST_LANE)))
    return builder.call(f"@llvm.nvvm.shfl.sync.{kind}.i32", "i32", *operands, pure=False)


def _move_registers(builder: FunctionBuilder, op: Operation, move: Move) -> None:
    x = op.inputs[0]
    element: Scalar | Pointer = x.type.element
    registers = builder.of(x)
    per_register = 32 // element.storage_bits
    packed_count = len(registers) - len(registers) % per_register if per_register > 1 else 0
    results: list[str] = []
    if packed_count:
        moved = [move(register) for _, register in pack(builder, element, registers[:packed_count])]
        results = unpack(builder, element, moved)
    for register in registers[packed_count:]:
        results.append(_move_element(builder, element, register, move))
    builder.set(op, results)


def _move_element(
    builder: FunctionBuilder, element: Scalar | Pointer, register: str, move: Move
) -> str:
    """Move an element of 32 bits or more, or one that is left over from packing."""
    stored = I8 if element is I1 else element
    (register,) = to_memory(builder, element, [register])
    moved = [move(register) for register in as_integers(builder, stored, register)]
    return from_memory(builder, element, [from_integers(builder, stored, moved)])[0]


RULES: dict[OpDef, Rule] = {
    ops.thread.shuffle_idx: shuffle_idx,
    ops.thread.shuffle_xor: shuffle_xor,
    ops.thread.warp_reduce: warp_reduce,
}
