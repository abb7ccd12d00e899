"""The lowering of a function from tiles to fragments: its builder and the new values.

Tiles that would take far more registers in each thread than the target has are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

from tile.analysis.axis_info import AxisInfoResult, axis_info
from tile.errors import CompilationError, OutOfResourcesError, stamp
from tile.ir.builder import Builder
from tile.ir.core import Block, Function, Operation, Value
from tile.ir.effects import constant_of, is_pure
from tile.ir.module import Module
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith, memory
from tile.ir.ops.arith import Predicate
from tile.ir.types import I32, Fragment, Tile, Type, count_of
from tile.simt import ops
from tile.simt.layouts.axes import Registers, register_bits
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.ops.layout_inference import register_count
from tile.simt.target import SimtTarget

# Builds an operation for one thread, and returns the values that replace its results.
Rule = Callable[["Context", Operation], Sequence[Value]]


class Context(Builder):
    """Builds the operations of one thread, at the end of the block that is being rewritten.

    Values that depend only on the thread's number, such as offsets in shared memory, are built by
    `once`: at the top level of the function, so outside of loops, and once for all uses.
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
        self.built: dict[Any, Value] = {}
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
    def axes(self) -> AxisInfoResult:
        """The axis info of the function's tiles, for the width of accesses."""
        return axis_info(self.old)

    @cached_property
    def wrapping_axes(self) -> AxisInfoResult:
        """The axis info that also holds if integers overflow, for values that are computed."""
        return axis_info(self.old, wraps=True)

    @cached_property
    def for_addresses(self) -> frozenset[Value]:
        """The values of the function that only addresses and masks of accesses depend on."""
        return address_values(self.old)

    def constant_runs(self, value: Value) -> tuple[int, ...]:
        """Return the length of the aligned runs of equal elements along each axis of a tile."""
        runs = self.axes.of(value).constant  # if integers overflow, they are no longer
        exact = value in self.for_addresses or constant_of(value) is not None
        return runs if exact or max(runs) == 1 else self.wrapping_axes.of(value).constant

    # -- types and values

    def type_of(self, ty: Type) -> Type:
        """Return the type of a thread's part of a value: a fragment for a tile."""
        if not isinstance(ty, Tile):
            return ty
        fragment = self.types.get(ty)
        if fragment is None:
            assert isinstance(ty.layout, LinearLayout)
            fragment = Fragment(1 << register_bits(ty.layout), ty.of)
            self.types[ty] = fragment
        return fragment

    def of(self, value: Value) -> Value:
        """Return the value that replaces `value`."""
        return self.values[value]

    def operands(self, op: Operation) -> list[Value | None]:
        """Return the values that replace an operation's operands; None for an absent one."""
        return [None if value is None else self.values[value] for value in op.operands]

    # -- walk

    def rewrite(self, block: Block) -> None:
        """Lower the operations of a block."""
        for op in block:
            self.loc = op.loc
            check_fits(self, op)
            with stamp(op.loc):
                results = self._rule(op)(self, op)
            for old, new in zip(op.results, results, strict=True):
                self.values[old] = new
                if not new.name:
                    new.name = old.name

    def _rule(self, op: Operation) -> Rule:
        """Return the rule of an operation; without one, it is cloned if that is correct.

        It is if the operation is elementwise, or neither takes nor returns a tile.
        """
        rule = self.rules.get(op.defn)
        if rule is not None:
            return rule
        tiles = (isinstance(value.type, Tile) for value in (*op.inputs, *op.results))
        return Context.clone if op.defn.elementwise or not any(tiles) else not_lowered

    def region(self, block: Block) -> Block:
        """Return a lowered region, with lowered arguments."""
        new = Block([self.type_of(v.type) for v in block.args], [v.name for v in block.args])
        self.values.update(zip(block.args, new.args, strict=True))
        with self.into(new):
            self.rewrite(block)
        return new

    # -- build

    def clone(self, op: Operation) -> Sequence[Value]:
        """Build the same operation on a thread's operands, with lowered regions."""
        regions = [self.region(region) for region in op.regions]
        types = [self.type_of(value.type) for value in op.results]
        return self.copy(op, self.operands(op), types, regions).results

    def once(self, defn: OpDef, *operands: Value, **attributes: Any) -> Value:
        """Build an operation at the top level, or return it if it has been built.

        Its operands must have been built by `once`, too.
        """
        key = (defn, tuple(map(id, operands)), tuple(attributes.items()))
        value = self.built.get(key)
        if value is None:
            self.top.loc = self.loc
            value = self.built[key] = self.top(defn, *operands, **attributes)
        return value

    def index(self, layout: LinearLayout) -> Value:
        """Return the images of this thread's registers under a layout."""
        return self.once(ops.thread.layout_index, layout=layout)

    def number(self, value: int, ty: Type = I32) -> Value:
        """Return a constant integer, of a scalar or fragment type."""
        return self.once(arith.const, value=value, result=ty)

    def splat(self, condition: Value, count: int) -> Value:
        """Return a fragment of `count` registers of a condition of this thread."""
        return self.once(ops.thread.frag_splat, condition, count=count)

    def any_bit(self, layout: LinearLayout) -> Value:
        """Return, as an i1, whether this thread's image under a (lane, warp) layout is not 0."""
        index = self.index(layout)
        return self.once(arith.cmp, index, self.number(0), predicate=Predicate.NE)

    def no_bit(self, layout: LinearLayout) -> Value:
        """Return the negation of `any_bit`."""
        index = self.index(layout)
        return self.once(arith.cmp, index, self.number(0), predicate=Predicate.EQ)

    def xored(self, index: Value, mask: int) -> Value:
        """Return an integer that `once` built, XORed with a constant."""
        if mask == 0:
            return index
        return self.once(arith.xor, index, self.number(mask, index.type))

    def pick(self, *fragments: Value, registers: Registers) -> Value:
        """Return the given registers of fragments, numbered through all fragments, as a fragment.

        If these are all registers of one fragment in order, that is the fragment itself. A
        `frag_shuffle` of a `frag_shuffle` is folded into one.
        """
        source = fragments[0].op
        if len(fragments) == 1 and source is not None and source.defn is ops.thread.frag_shuffle:
            earlier = source["registers"]
            fragments = tuple(source.inputs)
            registers = tuple([earlier[register] for register in registers])
        if len(fragments) == 1 and registers == tuple(range(count_of(fragments[0].type))):
            return fragments[0]
        return self(ops.thread.frag_shuffle, *fragments, registers=registers)

    def and_(self, mask: Value | None, other: Value | None) -> Value | None:
        """Return the AND of two masks of one type; either may be absent."""
        if mask is None or other is None:
            return mask or other
        return self(arith.and_, mask, other)


def not_lowered(ctx: Context, op: Operation) -> Sequence[Value]:
    """Raise the error for an operation without a rule."""
    raise CompilationError(
        f"`{op.name}` has no lowering to threads; an earlier pass should have replaced it"
    )


def check_fits(ctx: Context, op: Operation) -> None:
    """Raise `OutOfResourcesError` if a result is more than a thread can hold."""
    for value in op.results:
        if register_count(value) > _limit(ctx):
            raise _too_large(ctx, op, value)


def _limit(ctx: Context) -> int:
    """Return how many registers a tile may take; one with more than exist spills."""
    return ctx.target.registers * ctx.target.tuning.max_oversubscription


def _too_large(ctx: Context, op: Operation, value: Value) -> OutOfResourcesError:
    target = ctx.target
    tiles = sorted(_tiles_at(ctx, op), key=register_count, reverse=True)
    scale = 1
    while register_count(tiles[0]) // scale > target.registers:
        scale *= 2
    warps, max_warps = ctx.num_warps * scale, target.max_threads // target.warp_size
    scaled = register_count(tiles[0]) // scale
    advice = (
        f"with num_warps = {warps} instead of {ctx.num_warps} it is {scaled}"
        if warps <= max_warps
        else f"with the most warps, {max_warps}, that is still too much: make the tile smaller"
    )
    return OutOfResourcesError(
        f"{_describe(value)} takes {register_count(value)} registers of 32 bits in each thread; "
        f"{target} has {target.registers}, and a tile may take up to {_limit(ctx)}; {advice}",
        required=register_count(value),
        limit=_limit(ctx),
        name="registers",
        loc=op.loc,
        notes=[f"{_describe(v)}: {register_count(v)} registers a thread" for v in tiles],
    )


def _tiles_at(ctx: Context, op: Operation) -> Iterable[Value]:
    """Yield the tiles that are made on the source line of an operation."""
    for other in ctx.old.walk():
        if other is op or (op.loc and other.loc and _line(other) == _line(op)):
            yield from (value for value in other.results if isinstance(value.type, Tile))


def _line(op: Operation) -> tuple[str, int]:
    return ("", 0) if op.loc is None else (op.loc.file, op.loc.line)


def _describe(value: Value) -> str:
    shape = "x".join(map(str, value.type.shape))
    line = value.op.loc.line if value.op is not None and value.op.loc is not None else "?"
    name = f"`{value.name}`" if value.name else "a tile"
    return f"line {line}: {name} of {shape} {value.type.element}"


# The operands that are addresses, offsets or masks.
_OPERANDS = {memory.addptr: (1,), memory.load: (0, 1), memory.store: (0, 2)}


def address_values(function: Function) -> frozenset[Value]:
    """Return the results of operations of which all uses are on the way to an access.

        %q = div %x, %n          // one: it is of use for the address alone
        %p = addptr %base, %q
        %y = load %p

    Values that loops carry or branches return are left out.
    """
    leading: set[Value] = set()
    for op in reversed(list(function.walk())):
        for value in op.results:
            uses = list(value.uses)
            if uses and all(_leads_to_access(user, index, leading) for user, index in uses):
                leading.add(value)
    return frozenset(leading)


def _leads_to_access(user: Operation, index: int, leading: set[Value]) -> bool:
    """Return True if an operand is of use for accesses alone, given the results that are."""
    if index in _OPERANDS.get(user.defn, ()):
        return True
    return is_pure(user) and not user.regions and leading.issuperset(user.results)
