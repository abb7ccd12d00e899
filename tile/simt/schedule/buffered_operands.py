"""Operands of dots that threads load from buffers in shared memory, and slices of these buffers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tile.ir.core import Operation, Value
from tile.ir.op_definition import OpDef
from tile.ir.ops import shape
from tile.simt.ops import shared
from tile.simt.ops.layout_inference import LayoutBuilder

# Operations that relabel a tile, which views of its buffer replace.
RELABELED = frozenset({shape.trans, shape.reshape, shape.expand_dims})


@dataclass(frozen=True)
class BufferedOperand:
    """The load of a whole operand from a buffer, and the operations `between` it and the dot."""

    load: Operation
    between: tuple[Operation, ...]

    @classmethod
    def of(cls, operand: Value, through: Collection[OpDef]) -> BufferedOperand | None:
        """Return how an operand is loaded, if it is, with operations `through` some kinds."""
        between: list[Operation] = []
        op = operand.op
        while op is not None and op.defn in through:
            between.insert(0, op)
            op = op.inputs[0].op
        if op is None or op.defn is not shared.local_load or op["mask"]:
            return None
        return cls(op, tuple(between))

    @property
    def is_single(self) -> bool:
        """True if nothing else uses what is loaded."""
        return all(len(list(op.result.uses)) == 1 for op in (self.load, *self.between))

    def buffer(self, build: LayoutBuilder) -> Value:
        """Return a view of the buffer with the operand's axes."""
        mem: Value = self.load["mem"]
        for op in self.between:
            if op.defn is shape.trans:
                mem = build(shared.local_trans, mem, order=op["order"])
            elif op.defn in RELABELED:
                mem = build(shared.local_reshape, mem, shape=tuple(op.result.type.shape))
        return mem

    def erase(self) -> None:
        """Erase the load and the operations between, unless they have other users."""
        for op in (*reversed(self.between), self.load):
            if not op.result.uses:
                op.erase()
