"""Random functions of integers and pointers with loops and branches.

Hypothesis chooses a seed and a size, which it can shrink; the rest follows from them, since functions
drawn choice by choice stay too small to combine facts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from hypothesis import strategies as st

from tile.ir.builder import Builder, create
from tile.ir.core import Argument, Block, Function, Value
from tile.ir.ops import arith, control, debug, memory, program, shape
from tile.ir.ops import math as math_ops
from tile.ir.ops.arith import Predicate
from tile.ir.types import I1, I8, I32, U32, Pointer, Scalar, Tile, Type, with_element

SHAPES = ((), (8,), (1, 8), (8, 1), (8, 4), (4, 8), (2, 4, 4))
BINARY = (
    *(arith.add, arith.sub, arith.mul, arith.div, arith.rem, arith.min_, arith.max_),
    *(arith.and_, arith.or_, arith.xor, arith.shl, arith.shr),
)
UNARY = (arith.neg, arith.not_, math_ops.abs_)
NUMBERS = (0, 1, 2, 3, 4, 5, 7, 8, 12, 16, 64, -1, -4, -8, -3)


class Maker:
    """Builds one function."""

    def __init__(self, seed: int, size: int, element: Scalar) -> None:
        self.random = Random(seed)
        self.size = size
        self.element = element
        types: list[Type] = [element, element, Pointer(I32)]
        self.function = Function("f", types, ["x", "y", "p"], kernel=True)
        divisible = [self.random.choice([1, 4, 16]) for _ in types]
        self.function.arguments = [Argument(d) for d in divisible]
        self.build = Builder(self.function.body)

    def make(self) -> Function:
        values = [*self.function.args, self.build(program.program_id, axis=0)]
        self.ops(values, 2, self.size)
        self.build.op(control.return_)
        return self.function

    def ops(self, values: list[Value], depth: int, count: int) -> None:
        for _ in range(count):
            choices = [self.number, self.range, self.binary, self.binary, self.binary]
            choices += [self.unary, self.move, self.move, self.compare, self.select, self.pointer]
            choices += [self.cast, self.if_, self.for_, self.while_, self.assume] if depth else []
            made = self.random.choice(choices)(values, depth)
            values.extend(made)

    def pick(self, values: list[Value], accepts: Any) -> Value | None:
        """A value of an accepted type, the later ones more often."""
        fitting = [value for value in values if accepts(value.type)]
        if not fitting:
            return None
        index = self.random.randint(0, len(fitting) - 1)
        return fitting[max(index, self.random.randint(0, len(fitting) - 1))]

    def number_type(self, ty: Type) -> bool:
        return isinstance(ty.element, Scalar) and ty.element.is_int() and ty.element != I1

    def shaped(self, value: Value, dims: tuple[int, ...]) -> Value | None:
        """A scalar as a tile of a shape, or a value that has that shape."""
        if value.type.shape == dims:
            return value
        return self.build(shape.splat, value, shape=dims) if value.type.rank == 0 else None

    def number(self, values: list[Value], depth: int) -> list[Value]:
        dims = self.random.choice(SHAPES)
        ty = Tile(dims, self.element) if dims else self.element
        return [self.build.constant(self.draw(NUMBERS) % 128 if not self.element.signed else self.draw(NUMBERS), ty)]

    def range(self, values: list[Value], depth: int) -> list[Value]:
        extent = self.random.choice([4, 8, 16])
        start = self.random.choice([0, 3, 8, -8])
        made = self.build(shape.arange, start=start, end=start + extent)
        return [made if self.element == I32 else self.build(arith.cast, made, to=self.element)]

    def pair(self, values: list[Value]) -> tuple[Value, Value] | None:
        x = self.pick(values, self.number_type)
        if x is None:
            return None
        y = self.pick(values, lambda ty: ty == x.type or (ty == x.type.element))
        if y is None:
            return None
        shaped = self.shaped(y, x.type.shape)
        return None if shaped is None else (x, shaped)

    def binary(self, values: list[Value], depth: int) -> list[Value]:
        pair = self.pair(values)
        if pair is None:
            return []
        return [self.build(self.random.choice(BINARY), *pair)]

    def unary(self, values: list[Value], depth: int) -> list[Value]:
        x = self.pick(values, self.number_type)
        return [] if x is None else [self.build(self.random.choice(UNARY), x)]

    def cast(self, values: list[Value], depth: int) -> list[Value]:
        x = self.pick(values, self.number_type)
        if x is None:
            return []
        middle = self.random.choice([U32, I8, I32])
        return [self.build(arith.cast, self.build(arith.cast, x, to=middle), to=self.element)]

    def move(self, values: list[Value], depth: int) -> list[Value]:
        x = self.pick(values, lambda ty: True)
        assert x is not None
        dims = x.type.shape
        if not dims:
            return [self.build(shape.splat, x, shape=self.random.choice(SHAPES[1:]))]
        if dims.count(1):
            wide = tuple(8 if d == 1 else d for d in dims)
            return [self.build(shape.broadcast, x, shape=wide)]
        if len(dims) == 1 and self.random.random() < 0.5:
            return [self.build(shape.expand_dims, x, axis=self.random.choice([-1, -2]))]
        if self.random.random() < 0.5:
            order = tuple(self.random.sample(range(len(dims)), len(dims)))
            return [self.build(shape.trans, x, order=order)]
        count = x.type.numel if isinstance(x.type, Tile) else 1
        splits = [(count,), (2, count // 2), (count // 4, 4), (2, 1, count // 2)]
        return [self.build(shape.reshape, x, shape=self.random.choice(splits))]

    def compare(self, values: list[Value], depth: int) -> list[Value]:
        pair = self.pair(values)
        if pair is None:
            return []
        predicate = self.random.choice(list(Predicate))
        return [self.build(arith.cmp, *pair, predicate=predicate)]

    def select(self, values: list[Value], depth: int) -> list[Value]:
        pair = self.pair(values)
        if pair is None:
            return []
        wanted = with_element(pair[0].type, I1)
        condition = self.pick(values, lambda ty: ty in (wanted, I1))
        if condition is None:
            return []
        shaped = self.shaped(condition, pair[0].type.shape)
        return [] if shaped is None else [self.build(arith.select, shaped, *pair)]

    def pointer(self, values: list[Value], depth: int) -> list[Value]:
        p = self.pick(values, lambda ty: isinstance(ty.element, Pointer))
        assert p is not None
        offset = self.pick(
            values, lambda ty: self.number_type(ty) and (ty.shape == p.type.shape or ty.rank == 0)
        )
        if offset is None:
            return []
        shaped = self.shaped(offset, p.type.shape)
        return [] if shaped is None else [self.build(memory.addptr, p, shaped, stride=4)]

    def truth(self, values: list[Value]) -> Value | None:
        return self.pick(values, lambda ty: ty == I1)

    def assume(self, values: list[Value], depth: int) -> list[Value]:
        condition = self.truth(values)
        if condition is not None:
            self.build.op(debug.assume, condition)
        return []

    def inside(self, block: Block, values: list[Value], depth: int) -> list[Value]:
        """Fill a block up to its terminator; all that may be used there."""
        visible = list(values)
        with self.build.into(block):
            self.ops(visible, depth - 1, self.random.randint(0, 5))
        return visible

    def same_types(self, values: list[Value], like: list[Value]) -> list[Value]:
        picked = [self.pick(values, lambda ty, wanted=value.type: ty == wanted) for value in like]
        return [value for value in picked if value is not None]

    def if_(self, values: list[Value], depth: int) -> list[Value]:
        condition = self.truth(values)
        if condition is None:
            return []
        like = [self.pick(values, lambda ty: True) for _ in range(self.random.randint(0, 2))]
        chosen = [value for value in like if value is not None]
        regions = []
        for _ in range(2):
            block = Block()
            block.append(create(control.yield_, self.same_types(self.inside(block, values, depth), chosen)))
            regions.append(block)
        return self.build.op(control.if_, condition, regions=regions).results

    def carried(self, values: list[Value]) -> list[Value]:
        picked = [self.pick(values, lambda ty: True) for _ in range(self.random.randint(0, 3))]
        return [value for value in picked if value is not None]

    def for_(self, values: list[Value], depth: int) -> list[Value]:
        inits = self.carried(values)
        lower = self.build.constant(self.random.choice([0, 1, 4]), self.element)
        upper = self.build.constant(self.random.choice([0, 3, 8]), self.element)
        step = self.build.constant(self.random.choice([1, 2, 4]), self.element)
        body = Block([self.element, *(value.type for value in inits)])
        visible = self.inside(body, [*values, *body.args], depth)
        body.append(create(control.yield_, self.same_types(visible, inits)))
        return self.build.op(control.for_, lower, upper, step, *inits, regions=[body]).results

    def while_(self, values: list[Value], depth: int) -> list[Value]:
        """A loop that counts to a bound, so that it ends, and carries other values besides."""
        inits = [self.build.constant(0, self.element), *self.carried(values)]
        types = [value.type for value in inits]
        test, body = Block(types), Block(types)
        with self.build.into(test):
            bound = self.build.constant(self.random.randint(0, 6), self.element)
            less = self.build(arith.cmp, test.args[0], bound, predicate=Predicate.LT)
            self.build.op(control.condition, less)
        visible = self.inside(body, [*values, *body.args], depth)
        with self.build.into(body):
            one = self.build.constant(1, self.element)
            following = self.build(arith.add, body.args[0], one)
            self.build.op(control.yield_, following, *self.same_types(visible, inits[1:]))
        return self.build.op(control.while_, *inits, regions=[test, body]).results


@st.composite
def functions(draw: Any, element: Scalar = I32) -> Function:
    """A kernel of two integers of a type and a pointer."""
    return Maker(draw, element).make()
