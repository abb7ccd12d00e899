"""Inline the regions of reductions and scans on fragments: many groups of scalars at once.

These regions are pure, so both arms of an `if` are computed and one is selected. Called functions
are inlined, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tile.ir.core import Block, Operation, Value
from tile.ir.opdef import OpDef
from tile.ir.ops import arith, control
from tile.ir.types import with_element
from tile.simt.distribute.context import Context

Values = list[Value]


def inline_region(
    ctx: Context, region: Block, first: Sequence[Value], second: Sequence[Value]
) -> Values:
    """Return a region's combination of two groups of fragments, all of equal register counts."""
    return _Inlining(ctx, first[0]).block(region, [*first, *second])


class _Inlining:
    def __init__(self, ctx: Context, like: Value) -> None:
        self.ctx = ctx
        self.like = like.type  # a fragment with as many registers as all values have
        self.values: dict[Value, Value] = {}

    def block(self, block: Block, args: Sequence[Value] = ()) -> Values:
        """Inline the operations of a block, and return the operands of its terminator."""
        self.values.update(zip(block.args, args, strict=True))
        for op in block:
            if op.defn.terminator:
                return self.operands(op)
            results = _RULES.get(op.defn, _Inlining.plain)(self, op)
            self.values.update(zip(op.results, results, strict=True))
        raise AssertionError("a block without a terminator")

    def operands(self, op: Operation) -> Values:
        return [self.values[value] for value in op.inputs]

    def plain(self, op: Operation) -> Values:
        """Inline an elementwise operation or a constant."""
        types = [with_element(self.like, value.type.element) for value in op.results]
        attributes = dict(op.attributes)
        if op.defn.explicit is not None:
            (attributes[op.defn.explicit],) = types
        new = Operation(op.defn, self.operands(op), attributes, (), types, op.loc or self.ctx.loc)
        self.ctx.block.append(new)
        return new.results

    def both(self, op: Operation) -> Values:
        """Inline an `if`: compute both arms, and select."""
        condition = self.values[op.inputs[0]]
        arms = [self.block(region) for region in op.regions]
        return [self.ctx(arith.select, condition, x, y) for x, y in zip(*arms, strict=True)]

    def call(self, op: Operation) -> Values:
        return self.block(self.ctx.module[op["callee"]].body, self.operands(op))


_RULES: dict[OpDef, Callable[[_Inlining, Operation], Values]] = {
    arith.hint: _Inlining.operands,
    control.if_: _Inlining.both,
    control.call: _Inlining.call,
}
