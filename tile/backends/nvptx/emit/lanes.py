"""Shuffles: registers of other lanes of the warp, 32 bits at a time; and what all lanes combine."""

from __future__ import annotations

from collections.abc import Callable

from tile.backends.nvptx.emit.assembler import assemble
from tile.backends.nvptx.emit.body import Body, Rule
from tile.backends.nvptx.emit.types import is_signed, llvm_type, number_of
from tile.backends.nvptx.emit.words import (
    as_integers,
    from_integers,
    from_memory,
    pack,
    to_memory,
    unpack,
)
from tile.ir.core import Operation
from tile.ir.opdef import OpDef
from tile.ir.ops.reduce import ReduceKind
from tile.ir.types import F32, I1, I8, Pointer, Scalar
from tile.simt import ops

LAST_LANE = 31
Move = Callable[[str], str]


def shuffle(body: Body, op: Operation) -> None:
    """What a lane by number has."""
    lane = body.scalar(op.inputs[1])
    _shuffled(body, op, lambda word: _sync(body, "idx", word, lane))


def shuffle_xor(body: Body, op: Operation) -> None:
    """What the lane across has."""
    _shuffled(body, op, lambda word: _sync(body, "bfly", word, str(op["mask"])))


def lane_reduce(body: Body, op: Operation) -> None:
    """One instruction for each register."""
    element = number_of(op.result.type)
    ty, kind = llvm_type(element), _REDUX.get(op["kind"], str(op["kind"]))
    suffix = "b32"
    if kind in ("add", "min", "max"):
        suffix = "f32" if element is F32 else "s32" if is_signed(element) else "u32"
    missing = ".NaN" if op["propagate_nan"] and element is F32 else ""
    text = f"redux.sync.{kind}{missing}.{suffix} $0, $1, -1;"

    def combine(x: str) -> str:
        return assemble(body, text, [ty], [(ty, x)], convergent=True)[0]

    body.set(op, [combine(x) for x in body.of(op.inputs[0])])


_REDUX = {ReduceKind.SUM: "add"}


def _sync(body: Body, kind: str, word: str, lane: str) -> str:
    operands = (("i32", "-1"), ("i32", word), ("i32", lane), ("i32", str(LAST_LANE)))
    return body.call(f"@llvm.nvvm.shfl.sync.{kind}.i32", "i32", *operands, pure=False)


def _shuffled(body: Body, op: Operation, move: Move) -> None:
    x = op.inputs[0]
    element: Scalar | Pointer = x.type.element
    registers = body.of(x)
    together = 32 // (8 * element.itemsize)
    whole = len(registers) - len(registers) % together if together > 1 else 0
    results: list[str] = []
    if whole:
        words = [move(word) for _, word in pack(body, element, registers[:whole])]
        results = unpack(body, element, words)
    for register in registers[whole:]:
        results.append(_one(body, element, register, move))
    body.set(op, results)


def _one(body: Body, element: Scalar | Pointer, register: str, move: Move) -> str:
    """A register that fills a word or more, or is left over."""
    held = I8 if element is I1 else element
    (register,) = to_memory(body, element, [register])
    words = [move(word) for word in as_integers(body, held, register)]
    return from_memory(body, element, [from_integers(body, held, words)])[0]


RULES: dict[OpDef, Rule] = {
    ops.thread.shuffle: shuffle,
    ops.thread.shuffle_xor: shuffle_xor,
    ops.thread.lane_reduce: lane_reduce,
}
