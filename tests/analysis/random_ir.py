"""Random functions of integers and pointers with loops and branches.

Hypothesis chooses a seed and a size, which it can shrink; the rest follows from them, since functions
drawn choice by choice stay too small to combine facts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from hypothesis import strategies as st

from tile.ir.builder import Builder, create
from tile.ir.core import Block, Function, Value
from tile.ir.ops import arith, control, debug, memory, program, shape
from tile.ir.ops import math as math_ops
from tile.ir.ops.arith import Predicate
from tile.ir.parameters import Argument
from tile.ir.types import I1, I8, I16, I32, U16, U32, Pointer, Scalar, Tile, Type, with_element

BINARY = (
    *(arith.add, arith.add, arith.sub, arith.mul, arith.div, arith.rem, arith.rem, arith.div),
    *(arith.min_, arith.max_, arith.and_, arith.and_, arith.or_, arith.xor, arith.shl, arith.shr),
)
UNARY = (arith.neg, arith.not_, math_ops.abs_)
NUMBERS = (0, 1, 2, 3, 4, 5, 7, 8, 12, 15, 16, 24, -1, -4, -8, -3)
EXTENTS = (4, 8, 16)

Made = Sequence[Value]
Accepts = Callable[[Type], bool]


class Maker:
    """The builder of one function."""

    def __init__(
        self, seed: int, size: int, element: Scalar, returning: bool, overflowing: bool
    ) -> None:
        self.random = Random(seed)
        self.returning = returning
        self.overflowing = overflowing
        self.size = size
        self.element = element
        types: list[Type] = [element, element, Pointer(I32)]
        self.function = Function("f", types, ["x", "y", "p"], kernel=True)
        self.function.arguments = [Argument(self.random.choice([1, 4, 16])) for _ in types]
        self.build = Builder(self.function.body)

    def make(self) -> Function:
        pid = self.build(program.program_id, axis=0)
        values = [*self.function.args, self.build(arith.cast, pid, to=self.element)]
        values.extend(self.range(values, 0))
        self.ops(values, 2, self.size)
        results = self.random.sample(values, min(8, len(values))) if self.returning else []
        self.function.kernel = not self.returning
        self.function.result_types = tuple(value.type for value in results)
        self.build.op(control.return_, *results)
        return self.function

    def ops(self, values: list[Value], depth: int, count: int) -> None:
        choices = [self.number, self.range, self.select] + [self.compare, self.index] * 3
        choices += [self.binary] * 6 + [self.move] * 4 + [self.pointer] * 2
        choices += [self.unary, self.cast, self.hint, self.multiple]
        if depth:
            choices += [self.if_, self.for_, self.while_, self.assume]
        for _ in range(count):
            values.extend(self.random.choice(choices)(values, depth))

    # -- picking

    def pick(self, values: Sequence[Value], accepts: Accepts) -> Value | None:
        """Return a value of an accepted type; later ones are more likely."""
        fitting = [value for value in values if accepts(value.type)]
        return max(self.random.choices(fitting, k=2), key=fitting.index) if fitting else None

    def any_of(self, values: Sequence[Value], most: int) -> list[Value]:
        return [self.random.choice(values) for _ in range(self.random.randint(0, most))]

    def is_number(self, ty: Type) -> bool:
        return isinstance(ty.element, Scalar) and ty.element.is_int() and ty.element != I1

    def shaped(self, value: Value, ty: Type) -> Value:
        """A scalar as a tile of that type's shape."""
        if value.type.shape == ty.shape:
            return value
        return self.build(shape.splat, value, shape=ty.shape)

    def filled(self, ty: Type) -> Value:
        element = ty.element
        assert isinstance(element, Scalar)
        number = self.random.choice(NUMBERS)
        if self.overflowing and self.random.random() < 0.25:
            number = element.max_value - abs(number)
        return self.build.constant(number if element.signed else abs(number), ty)

    def pair(self, values: Sequence[Value]) -> tuple[Value, Value] | None:
        x = self.pick(values, self.is_number)
        if x is None:
            return None
        ty = x.type
        y = self.pick(values, lambda other: other in (ty, ty.element))
        constant = y is None or self.random.random() < 0.3
        other = self.filled(ty) if constant or y is None else self.shaped(y, ty)
        return (x, other) if self.random.random() < 0.8 else (other, x)

    # -- operations; each method returns the new values

    def number(self, values: Sequence[Value], depth: int) -> Made:
        return [self.filled(self.element)]

    def range(self, values: Sequence[Value], depth: int) -> Made:
        start = self.random.choice([0, 0, 3, 8, -8])
        made = self.build(shape.arange, start=start, end=start + self.random.choice(EXTENTS))
        return [self.build(arith.cast, made, to=self.element)]

    def index(self, values: Sequence[Value], depth: int) -> Made:
        """Offsets of a block, as kernels compute them."""
        start = self.pick(values, lambda ty: ty == self.element)
        if start is None:
            return []
        (counting,) = self.range(values, depth)
        first = self.build(arith.mul, start, self.filled(self.element))
        return [self.build(arith.add, self.shaped(first, counting.type), counting)]

    def binary(self, values: Sequence[Value], depth: int) -> Made:
        pair = self.pair(values)
        return [] if pair is None else [self.build(self.random.choice(BINARY), *pair)]

    def unary(self, values: Sequence[Value], depth: int) -> Made:
        x = self.pick(values, self.is_number)
        return [] if x is None else [self.build(self.random.choice(UNARY), x)]

    def cast(self, values: Sequence[Value], depth: int) -> Made:
        x = self.pick(values, self.is_number)
        if x is None:
            return []
        middle = self.random.choice([U32, I8, I16, U16, I32])
        return [self.build(arith.cast, self.build(arith.cast, x, to=middle), to=self.element)]

    def hint(self, values: Sequence[Value], depth: int) -> Made:
        """Insert a hint that claims nothing."""
        x = self.random.choice(values)
        ones = (1,) * max(1, x.type.rank)
        return [self.build(arith.hint, x, divisible=ones, contiguous=ones)]

    def move(self, values: Sequence[Value], depth: int) -> Made:
        x = self.random.choice(values)
        dims = x.type.shape
        if self.random.random() < 0.15:
            return self.paired(values, x)
        if not dims:
            return [self.build(shape.splat, x, shape=(self.random.choice(EXTENTS),))]
        if dims.count(1) and self.random.random() < 0.7:
            wide = tuple(4 if extent == 1 else extent for extent in dims)
            return [self.build(shape.broadcast, x, shape=wide)]
        if len(dims) == 1 and self.random.random() < 0.5:
            return [self.build(shape.expand_dims, x, axis=self.random.choice([-1, -2]))]
        if self.random.random() < 0.4:
            order = tuple(self.random.sample(range(len(dims)), len(dims)))
            return [self.build(shape.trans, x, order=order)]
        assert isinstance(x.type, Tile)
        n = x.type.numel
        splits = [(n,), (n,), (2, n // 2), (n // 4, 4), (2, 1, n // 2), (2, n // 4, 2)]
        fitting = [dims for dims in splits if 0 not in dims]
        return [self.build(shape.reshape, x, shape=self.random.choice(fitting))]

    def paired(self, values: Sequence[Value], x: Value) -> Made:
        """Insert a join, a split or a flip."""
        if x.type.shape[-1:] == (2,):
            return self.build.op(shape.split, x).results
        if x.type.rank and self.random.random() < 0.5:
            return [self.build(shape.flip, x, axis=-1)]
        if x.type.rank > 2:
            return []
        return [self.build(shape.join, x, *self.like(values, [x]))]

    def compare(self, values: Sequence[Value], depth: int) -> Made:
        pair = self.pair(values)
        if pair is None:
            return []
        predicate = self.random.choice(list(Predicate))
        return [self.build(arith.cmp, *pair, predicate=predicate)]

    def select(self, values: Sequence[Value], depth: int) -> Made:
        pair = self.pair(values)
        if pair is None:
            return []
        ty = pair[0].type
        condition = self.pick(values, lambda other: other in (with_element(ty, I1), I1))
        return (
            []
            if condition is None
            else [self.build(arith.select, self.shaped(condition, ty), *pair)]
        )

    def pointer(self, values: Sequence[Value], depth: int) -> Made:
        p = self.pick(values, lambda ty: isinstance(ty.element, Pointer))
        offset = self.pick(values, lambda ty: self.is_number(ty))
        if p is None or offset is None or () not in (p.type.shape, offset.type.shape):
            return []
        ty = p.type if p.type.rank else offset.type
        return [self.build(memory.addptr, self.shaped(p, ty), self.shaped(offset, ty), stride=4)]

    def assume(self, values: Sequence[Value], depth: int) -> Made:
        condition = self.pick(values, lambda ty: ty == I1)
        if condition is not None and self.random.random() < 0.3:
            self.build.op(debug.assume, condition)
        return []

    def multiple(self, values: Sequence[Value], depth: int) -> Made:
        """Insert a test that a scalar is a multiple, by its remainder or low bits; often assume it."""
        x = self.pick(values, lambda ty: self.is_number(ty) and not ty.rank)
        if x is None:
            return []
        by, number = self.random.choice(((arith.rem, 8), (arith.rem, 12), (arith.and_, 3)))
        rest = self.build(by, x, self.build.constant(number, x.type))
        zero = self.build.constant(0, x.type)
        pair = (rest, zero) if self.random.random() < 0.8 else (zero, rest)
        predicate = self.random.choice((arith.Predicate.EQ, arith.Predicate.NE))
        condition = self.build(arith.cmp, *pair, predicate=predicate)
        if depth and self.random.random() < 0.5:
            self.build.op(debug.assume, condition)
        return [condition]

    # -- control flow

    def inside(self, block: Block, values: Sequence[Value], depth: int) -> list[Value]:
        """Fill a block up to its terminator and return the values visible there."""
        visible = [*values, *block.args]
        with self.build.into(block):
            self.ops(visible, depth - 1, self.random.randint(0, 6))
        return visible

    def like(self, values: Sequence[Value], wanted: Sequence[Value]) -> list[Value]:
        """Return values of the same types as others, which are candidates themselves."""
        picked = [self.pick(values, lambda ty, to=value.type: ty == to) for value in wanted]
        return [value for value in picked if value is not None]

    def if_(self, values: Sequence[Value], depth: int) -> Made:
        condition = self.pick(values, lambda ty: ty == I1)
        if condition is None:
            return []
        chosen = self.any_of(values, 2)
        regions = [Block(), Block()]
        for block in regions:
            yielded = self.like(self.inside(block, values, depth), chosen)
            block.append(create(control.yield_, yielded))
        return self.build.op(control.if_, condition, regions=regions).results

    def for_(self, values: Sequence[Value], depth: int) -> Made:
        inits = self.any_of(values, 3)
        bounds = self.bounds(values)
        body = Block([self.element, *(value.type for value in inits)])
        visible = self.inside(body, values, depth)
        body.append(create(control.yield_, self.like(visible, inits)))
        return self.build.op(control.for_, *bounds, *inits, regions=[body]).results

    def bounds(self, values: Sequence[Value]) -> list[Value]:
        """Return lower bound, upper bound and step: few iterations, up or down, constant or not."""
        low, high = self.random.choice([0, 1, 4, 8]), self.random.choice([0, 3, 8])
        step = self.random.choice([1, 2, 4])
        least, most = (self.build.constant(number, self.element) for number in (low, high))
        x = self.pick(values, lambda ty: ty == self.element)
        if x is not None and self.random.random() < 0.5:
            least = self.build(arith.max_, x, least)
        if x is not None and self.random.random() < 0.5:
            most = self.build(arith.min_, x, most)
        if self.element.signed and self.random.random() < 0.3:
            return [most, least, self.build.constant(-step, self.element)]
        return [least, most, self.build.constant(step, self.element)]

    def while_(self, values: Sequence[Value], depth: int) -> Made:
        """Insert a loop that counts to a bound, so that it ends, and carries other values as well."""
        inits = [self.build.constant(0, self.element), *self.any_of(values, 3)]
        types = [value.type for value in inits]
        test, body = Block(types), Block(types)
        with self.build.into(test):
            bound = self.build.constant(self.random.randint(0, 6), self.element)
            less = self.build(arith.cmp, test.args[0], bound, predicate=Predicate.LT)
            self.build.op(control.condition, less)
        visible = self.inside(body, values, depth)
        with self.build.into(body):
            one = self.build.constant(1, self.element)
            following = self.build(arith.add, body.args[0], one)
            self.build.op(control.yield_, following, *self.like(visible, inits[1:]))
        return self.build.op(control.while_, *inits, regions=[test, body]).results


def functions(
    element: Scalar = I32, *, returning: bool = False, overflowing: bool = False
) -> st.SearchStrategy[Function]:
    """Return a strategy of kernels of two integers and a pointer, or of functions with results.

    overflowing: include constants close to the greatest number of the type.
    """

    def made(seed: int, size: int) -> Function:
        return Maker(seed, size, element, returning, overflowing).make()

    return st.builds(made, st.integers(0, 1 << 40), st.integers(1, 60))
