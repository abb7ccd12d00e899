"""Builder of operations: an insertion point, a current location, and inferred result types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

from tile.errors import stamp
from tile.ir.core import Block, Operation, Value
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith
from tile.ir.types import Type, number_of
from tile.location import Loc


def create(
    defn: OpDef,
    operands: Sequence[Value | None] = (),
    attributes: dict[str, Any] | None = None,
    regions: Sequence[Block] = (),
    loc: Loc | None = None,
) -> Operation:
    """Create an operation in no block, with result types inferred by its declaration.

    Raises `TypeRuleError`, located at `loc`, if the type rule rejects the operands.
    """
    with stamp(loc):
        complete = defn.complete(attributes or {})
        padded = list(operands)
        if defn.variadic is None:
            padded += [None] * (len(defn.operands) - len(padded))
        types = [None if value is None else value.type for value in padded]
        results = defn.infer(types, complete, regions)
    return Operation(defn, padded, complete, regions, results, loc)


class Builder:
    """Creates operations at an insertion point: before `anchor`, or at the end of `block`."""

    def __init__(
        self, block: Block, anchor: Operation | None = None, loc: Loc | None = None
    ) -> None:
        self.block = block
        self.anchor = anchor
        self.loc = loc

    @classmethod
    def before(cls, op: Operation) -> Self:
        """Return a builder that inserts before `op` and uses its location."""
        assert op.block is not None
        return cls(op.block, op, op.loc)

    @classmethod
    def after(cls, op: Operation) -> Self:
        """Return a builder that inserts after `op` and uses its location."""
        assert op.block is not None
        return cls(op.block, op.next, op.loc)

    @contextmanager
    def at(self, loc: Loc | None) -> Iterator[None]:
        """Give new operations this location inside the `with` block."""
        outer, self.loc = self.loc, loc
        try:
            yield
        finally:
            self.loc = outer

    @contextmanager
    def into(self, block: Block) -> Iterator[None]:
        """Insert at the end of another block inside the `with` block."""
        outer = self.block, self.anchor
        self.block, self.anchor = block, None
        try:
            yield
        finally:
            self.block, self.anchor = outer

    def op(
        self,
        defn: OpDef,
        *operands: Value | None,
        regions: Sequence[Block] = (),
        **attributes: Any,
    ) -> Operation:
        """Insert an operation."""
        return self.block.insert(create(defn, operands, attributes, regions, self.loc), self.anchor)

    def __call__(
        self,
        defn: OpDef,
        *operands: Value | None,
        regions: Sequence[Block] = (),
        **attributes: Any,
    ) -> Value:
        """Insert an operation that has one result, and return the result."""
        return self.op(defn, *operands, regions=regions, **attributes).result

    def copy(
        self,
        op: Operation,
        operands: Sequence[Value | None],
        types: Sequence[Type],
        regions: Sequence[Block] = (),
    ) -> Operation:
        """Insert the same operation on other operands, with results of other types.

        The types are not inferred, and stated where the operation declares them in an attribute.
        """
        attributes = dict(op.attributes)
        if op.defn.explicit is not None:
            attributes[op.defn.explicit] = (
                types[0] if op.defn.explicit == "result" else tuple(types)
            )
        new = Operation(op.defn, operands, attributes, regions, types, op.loc or self.loc)
        return self.block.insert(new, self.anchor)

    def constant(self, value: bool | int | float, ty: Type) -> Value:
        """Insert a constant of a scalar or tile type, with the number converted to its element."""
        element = number_of(ty)
        if element.is_floating():
            value = float(value)
        elif element.is_bool():
            value = bool(value)
        return self(arith.const, value=value, result=ty)
