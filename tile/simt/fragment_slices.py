"""Slices of fragments: compute some registers without the others."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from tile.ir.builder import Builder
from tile.ir.core import Operation, Value
from tile.ir.opdef import OpDef
from tile.ir.ops import arith
from tile.ir.types import Fragment
from tile.simt import ops
from tile.simt.distribute.context import count_of

Registers = tuple[int, ...]

# Operations that set all registers to one value.
_FILLED = frozenset({arith.const, ops.thread.fill})


def is_plain(op: Operation) -> bool:
    """Return True if each register of the result depends only on that register of the operands."""
    fragments = all(isinstance(value.type, Fragment) for value in (*op.inputs, *op.results))
    return fragments and op.defn.elementwise and op.defn.pure and len(op.results) == 1


def blocks(
    value: Value, extents: tuple[int, int], rows: Sequence[int], columns: Sequence[int]
) -> Registers:
    """Return the registers of an mma operand that belong to the given instruction rows and columns.

    `extents` is the number of instruction rows and columns.
    """
    each = count_of(value) // (extents[0] * extents[1])
    starts = [(row * extents[1] + column) * each for row in rows for column in columns]
    return tuple([start + number for start in starts for number in range(each)])


class FragmentSlices:
    """Slices of fragments, made by a builder.

    The results of the operations `apart`, which have no other users, are recomputed for each slice,
    as are the loads among them; for all other values, registers are picked.
    """

    def __init__(self, build: Builder, apart: Container[Operation]) -> None:
        self.build = build
        self.apart = apart
        self._known: dict[tuple[Value, Registers], Value] = {}

    def of(self, value: Value, registers: Registers) -> Value:
        """Return a fragment of some registers of a fragment, in this order."""
        needed = tuple(sorted({*registers}))
        fragment = self._sorted(value, needed)
        if needed == registers:
            return fragment
        positions = {register: position for position, register in enumerate(needed)}
        return self.pick(fragment, tuple([positions[register] for register in registers]))

    def pick(self, value: Value, registers: Registers) -> Value:
        """Pick the registers from a value that is computed already."""
        op = value.op
        if op is not None and op.defn is ops.thread.pick and len(op.inputs) == 1:
            earlier = op["registers"]
            return self.pick(op.inputs[0], tuple([earlier[register] for register in registers]))
        return self.build(ops.thread.pick, value, registers=registers)

    def _sorted(self, value: Value, registers: Registers) -> Value:
        if registers == tuple(range(count_of(value))):
            return value
        key = value, registers
        if key not in self._known:
            with self.build.at(value.op.loc if value.op is not None else self.build.loc):
                self._known[key] = self._made(value, registers)
        return self._known[key]

    def _made(self, value: Value, registers: Registers) -> Value:
        op = value.op
        if op is None or not (op in self.apart or op.defn in _FILLED):
            return self.pick(value, registers)
        if op.defn in _RULES:
            return _RULES[op.defn](self, op, registers)
        return self._plain(op, registers)

    def _plain(self, op: Operation, registers: Registers) -> Value:
        operands = [None if value is None else self.of(value, registers) for value in op.operands]
        ty = Fragment(len(registers), op.result.type.element)
        attributes = dict(op.attributes)
        if op.defn.explicit is not None:
            attributes[op.defn.explicit] = ty
        new = Operation(op.defn, operands, attributes, (), [ty], op.loc)
        self.build.block.insert(new, self.build.anchor)
        return new.result

    def _fill(self, op: Operation, registers: Registers) -> Value:
        return self.build(op.defn, op.inputs[0], count=len(registers))

    def _pick(self, op: Operation, registers: Registers) -> Value:
        if len(op.inputs) > 1:
            return self.pick(op.result, registers)
        chosen = op["registers"]
        return self.of(op.inputs[0], tuple([chosen[register] for register in registers]))

    def _load(self, op: Operation, registers: Registers) -> Value:
        """Load only the vectors that contain the registers."""
        size = op["vector"]
        vectors = tuple(sorted({register // size for register in registers}))
        offsets = self.of(op["offset"], vectors)
        load = self.build(op.defn, op["mem"], offsets, **op.attributes)
        positions = {vector: position * size for position, vector in enumerate(vectors)}
        loaded = tuple([positions[register // size] + register % size for register in registers])
        return load if len(loaded) == count_of(load) else self.pick(load, loaded)

    def _multiply(self, op: Operation, registers: Registers) -> Value:
        """Multiply only the instruction columns that contain the registers."""
        rows, columns, depth = op["repeats"]
        each = count_of(op.result) // (rows * columns)
        needed = sorted({register // each % columns for register in registers})
        if len(needed) == columns:
            return self.pick(op.result, registers)
        has = blocks(op.result, (rows, columns), range(rows), needed)
        b = self.of(op["b"], blocks(op["b"], (columns, depth), needed, range(depth)))
        attributes = {**op.attributes, "repeats": (rows, len(needed), depth)}
        mma = self.build(op.defn, op["a"], b, self.of(op["acc"], has), **attributes)
        if has == registers:
            return mma
        positions = {register: position for position, register in enumerate(has)}
        return self.pick(mma, tuple([positions[register] for register in registers]))


_RULES: dict[OpDef, Callable[[FragmentSlices, Operation, Registers], Value]] = {
    ops.thread.fill: FragmentSlices._fill,
    ops.thread.pick: FragmentSlices._pick,
    ops.thread.shared_load: FragmentSlices._load,
    ops.matrix.matrix_multiply: FragmentSlices._multiply,
}
