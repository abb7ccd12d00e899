"""A function on its way from tiles to what one thread holds of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from tile.analysis.axis_info import AxisInfoResult, axis_info
from tile.errors import CompilationError, stamp
from tile.ir.builder import Builder
from tile.ir.core import Block, Function, Module, Operation, Value
from tile.ir.opdef import OpDef
from tile.ir.ops import arith
from tile.ir.ops.arith import Predicate
from tile.ir.types import I32, Fragment, Tile, Type
from tile.simt import ops
from tile.simt.distribute.registers import Registers, register_bits
from tile.simt.distribute.resources import check_fits
from tile.simt.layouts.layout import LinearLayout
from tile.simt.target import SimtTarget

# Writes an operation anew for one thread; what takes the place of its results.
Rule = Callable[["Context", Operation], Sequence[Value]]


class Context(Builder):
    """Builds the operations of one thread, at the end of the block that is being rewritten.

    What depends on nothing but the thread's number, such as where it reads shared memory, is built
    by `once`: at the top level of the function, so outside of loops, and once for all its uses.
    """

    def __init__(
        self,
        module: Module,
        old: Function,
        target: SimtTarget,
        num_warps: int,
        rules: dict[OpDef, Rule],
    ) -> None:
        self.module = module
        self.old = old
        self.target = target
        self.num_warps = num_warps
        self.rules = rules
        self.values: dict[Value, Value] = {}
        self.known: dict[Any, Value] = {}
        self.types: dict[Type, Type] = {}
        self.new = self._function()
        self.top = Builder(self.new.body)
        super().__init__(self.new.body)

    def _function(self) -> Function:
        old = self.old
        new = Function(
            old.name,
            [self.type_of(value.type) for value in old.args],
            [value.name for value in old.args],
            [self.type_of(ty) for ty in old.result_types],
            kernel=old.kernel,
            noinline=old.noinline,
            loc=old.loc,
        )
        new.arguments = old.arguments
        self.values.update(zip(old.args, new.args, strict=True))
        return new

    @cached_property
    def facts(self) -> AxisInfoResult:
        """What is known of the tiles' contents, along their axes."""
        return axis_info(self.old)

    # What was, and what it is now.

    def type_of(self, ty: Type) -> Type:
        """What a thread has in place of a value of this type."""
        if not isinstance(ty, Tile):
            return ty
        found = self.types.get(ty)
        if found is None:
            assert isinstance(ty.layout, LinearLayout)
            found = Fragment(1 << register_bits(ty.layout), ty.of)
            self.types[ty] = found
        return found

    def of(self, value: Value) -> Value:
        """What took the place of a value."""
        return self.values[value]

    def operands(self, op: Operation) -> list[Value | None]:
        """What took the place of an operation's operands; None for one that is absent."""
        return [None if value is None else self.values[value] for value in op.operands]

    # Walking.

    def rewrite(self, block: Block) -> None:
        """Write the operations of a block anew."""
        for op in block:
            self.loc = op.loc
            check_fits(self, op)
            with stamp(op.loc):
                results = self.rules.get(op.defn, unknown)(self, op)
            for old, new in zip(op.results, results, strict=True):
                self.values[old] = new
                if not new.name:
                    new.name = old.name

    def region(self, block: Block) -> Block:
        """A region written anew, its arguments too."""
        new = Block([self.type_of(v.type) for v in block.args], [v.name for v in block.args])
        self.values.update(zip(block.args, new.args, strict=True))
        with self.into(new):
            self.rewrite(block)
        return new

    # Building.

    def same(self, op: Operation, regions: Sequence[Block] = ()) -> Sequence[Value]:
        """The same operation on what a thread has."""
        attributes = dict(op.attributes)
        types = [self.type_of(value.type) for value in op.results]
        explicit = op.defn.explicit
        if explicit is not None:
            attributes[explicit] = types[0] if explicit == "result" else tuple(types)
        new = Operation(op.defn, self.operands(op), attributes, regions, types, op.loc)
        self.block.append(new)
        return new.results

    def once(self, defn: OpDef, *operands: Value, **attributes: Any) -> Value:
        """An operation whose operands, if any, were built by `once`, too."""
        key = (defn, tuple(map(id, operands)), tuple(attributes.items()))
        found = self.known.get(key)
        if found is None:
            self.top.loc = self.loc
            found = self.known[key] = self.top(defn, *operands, **attributes)
        return found

    def index(self, layout: LinearLayout) -> Value:
        """Where a layout leads from this thread."""
        return self.once(ops.thread.linear_index, layout=layout)

    def number(self, value: int, ty: Type = I32) -> Value:
        """A constant integer, of a scalar or fragment type."""
        return self.once(arith.const, value=value, result=ty)

    def filled(self, condition: Value, count: int) -> Value:
        """A condition of this thread, for each of `count` registers."""
        return self.once(ops.thread.fill, condition, count=count)

    def any_bit(self, layout: LinearLayout) -> Value:
        """Whether a layout of (lane, warp) leads from this thread to anything but 0; an i1."""
        index = self.index(layout)
        return self.once(arith.cmp, index, self.number(0), predicate=Predicate.NE)

    def no_bit(self, layout: LinearLayout) -> Value:
        """The opposite of `any_bit`."""
        index = self.index(layout)
        return self.once(arith.cmp, index, self.number(0), predicate=Predicate.EQ)

    def xored(self, index: Value, mask: int) -> Value:
        """A number that `once` built, XORed with a constant."""
        if mask == 0:
            return index
        return self.once(arith.xor, index, self.number(mask, index.type))

    def pick(self, *fragments: Value, registers: Registers) -> Value:
        """Registers of fragments; the fragment itself where these are all of one, in order.

        What is picked from what was picked is picked from the first at once.
        """
        source = fragments[0].op
        if len(fragments) == 1 and source is not None and source.defn is ops.thread.pick:
            earlier = source["registers"]
            fragments = tuple(source.inputs)
            registers = tuple([earlier[register] for register in registers])
        if len(fragments) == 1 and registers == tuple(range(count_of(fragments[0]))):
            return fragments[0]
        return self(ops.thread.pick, *fragments, registers=registers)

    def and_(self, mask: Value | None, other: Value | None) -> Value | None:
        """Both masks, of one type, either of which may be absent."""
        if mask is None or other is None:
            return mask or other
        return self(arith.and_, mask, other)


def unknown(ctx: Context, op: Operation) -> Sequence[Value]:
    """What is no operation of threads."""
    raise CompilationError(
        f"`{op.name}` is nothing that threads can do by themselves; an earlier pass should have "
        "replaced it"
    )


def count_of(value: Value) -> int:
    """How many registers a fragment has."""
    assert isinstance(value.type, Fragment)
    return value.type.count


def bits_of_element(ty: Type) -> int:
    """The bits that an element takes in a register or in memory: 8 to 64."""
    return max(8, ty.element.bits)
