"""Random kernels, as hypothesis strategies or by dice: well typed, always in bounds, free of races, finite.

`modules()` draws a `Case`: a module at the TILE level with everything that it takes to run it. Every
choice is hypothesis', so a failure shrinks; `make` takes choices from elsewhere. What a case
promises, whatever was drawn:

- every access that a mask leaves on is inside its array, and what a mask leaves out never matters;
- programs write to regions of their own, or by atomic operations whose order cannot be seen; so all
  orders of programs give the same memory;
- loops end, integer divisors are odd, and no floating-point result depends on an order of summation
  (sums, products and dots are of small integers), so backends must agree to the bit, but for the
  payload of NaNs and the sign of a zero out of `min` or `max`, which never become visible;
- only arrays named in `Case.loose` hold results that may be off by some ulp.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tile.errors import Loc
from tile.ir import numerics
from tile.ir.builder import Builder
from tile.ir.core import Argument, Block, Function, Module, Value
from tile.ir.opdef import OpDef, Symbol
from tile.ir.ops import (
    arith,
    combine,
    control,
    debug,
    descriptor,
    index,
    linalg,
    memory,
    program,
    reduce,
    shape,
)
from tile.ir.ops import math as math_ops
from tile.ir.ops.arith import Predicate, Rounding
from tile.ir.ops.linalg import Precision
from tile.ir.ops.memory import CacheModifier, Eviction, Order, RMWKind, Scope
from tile.ir.ops.reduce import ArgKind, ReduceKind
from tile.ir.printer import print_module
from tile.ir.types import (
    ALL,
    BF16,
    F16,
    F32,
    F64,
    FLOATS,
    FP8,
    I1,
    I8,
    I32,
    I64,
    INTEGERS,
    U8,
    U32,
    U64,
    Descriptor,
    Padding,
    Pointer,
    Scalar,
    Tile,
    Type,
    with_element,
    with_shape,
)

Shape = tuple[int, ...]
Pick = Callable[[int], int]  # a number from 0 to below another

WITNESSES = 6  # values stored in the end, so that little of what was computed goes unseen
SLOTS = 4  # places that a program has to store tiles in


@dataclass(frozen=True)
class Sizes:
    """How large things are. Powers of two."""

    shapes: tuple[Shape, ...]  # of values
    elements: int  # of every array that is only read, and of every slot
    largest: int  # elements of a tile of `shapes`, and of the tiles stored in the end
    longer: tuple[int, ...]  # axes that are taken away again
    inner: tuple[int, ...]  # of products
    counted: tuple[Shape, ...]  # tiles of which there are histograms
    most: int  # elements of any tile

    @property
    def region(self) -> int:
        """Elements of an array that one program owns."""
        return SLOTS * self.elements + WITNESSES * self.largest


SMALL = Sizes(
    shapes=(
        *((), (1,), (4,), (8,), (16,), (1, 4), (4, 1), (2, 8), (8, 2), (4, 4)),
        *((2, 1, 4), (2, 2, 2), (1, 1), (4, 2, 1)),
    ),
    elements=64,
    largest=16,
    longer=(1, 2, 4),
    inner=(1, 2, 4),
    counted=((1,), (8,), (16,)),
    most=64,
)
# Tiles that several warps share.
LARGE = Sizes(
    shapes=(
        *((), (512,), (256,), (1024,), (16, 32), (64, 8), (32, 32), (4, 8, 16), (8, 1, 64)),
        *((1,), (64,), (1, 256), (512, 1), (2, 16, 16)),
    ),
    elements=1024,
    largest=1024,
    longer=(2, 8, 64),
    inner=(16, 32),
    counted=((256,), (512,)),
    most=2048,
)
BUDGET = 150  # operations of a function, after which no more is made than is needed
GRIDS = ((1, 1, 1), (2, 1, 1), (5, 1, 1), (2, 2, 1), (1, 3, 1), (2, 1, 2), (3, 2, 1))
SHARED = 16  # elements of an array that all programs update
MOST_STATEMENTS = 3  # in a nested block


class Case:
    """A kernel with a grid and arguments. No dataclass, so that hypothesis shows its text."""

    def __init__(
        self,
        module: Module,
        grid: tuple[int, int, int],
        inputs: list[Any],
        seed: int = 0,
        loose: frozenset[str] = frozenset(),
    ) -> None:
        self.module = module
        self.grid = grid
        self.inputs = inputs
        self.seed = seed
        self.loose = loose

    def __repr__(self) -> str:
        shown = "".join(f"{v}\n" for v in self.inputs if not isinstance(v, np.ndarray))
        return f"{print_module(self.module)}\ngrid {self.grid}, seed {self.seed}, scalars\n{shown}"

    def arguments(self) -> list[Any]:
        """The arguments, arrays copied."""
        return [x.copy() if isinstance(x, np.ndarray) else x for x in self.inputs]

    @property
    def names(self) -> list[str]:
        return [value.name for value in self.module.kernel.args]


@dataclass
class Callee:
    """A device function: what it takes besides the pointers of its caller."""

    function: Function
    pointers: list[Type]


@dataclass
class Visible:
    """The values that a block may use, by type, and how many elements lie behind a pointer."""

    values: dict[Type, list[Value]] = field(default_factory=dict)
    room: dict[Value, int] = field(default_factory=dict)  # pointers to read from
    own: list[tuple[Value, Scalar]] = field(default_factory=list)  # a program's own region


def _below(count: int, cache: dict[int, Any] = {}) -> Any:  # noqa: B006
    if count not in cache:
        cache[count] = st.integers(0, count - 1)
    return cache[count]


class Writer:
    """Writes one function; `pick` makes every choice."""

    def __init__(
        self,
        pick: Pick,
        function: Function,
        callees: Sequence[Callee],
        sizes: Sizes,
    ) -> None:
        self.pick = pick
        self.sizes = sizes
        self.function = function
        self.callees = list(callees)
        self.build = Builder(function.body)
        function.loc = Loc("kernel.py", 1, 0, 3)
        self.scopes = [Visible()]
        self.depth = 0
        self.lines = 0
        self.elements: tuple[Scalar, ...] = (I32,)

    # -- choices

    def chance(self, outof: int) -> bool:
        """True once in `outof` times; hypothesis shrinks towards False."""
        return self.pick(outof) == outof - 1

    def number(self, low: int, high: int) -> int:
        return low + self.pick(high - low + 1)

    def choose(self, choices: Sequence[Any]) -> Any:
        return choices[self.pick(len(choices))]

    def element(self) -> Scalar:
        chosen: Scalar = self.choose(self.elements)
        return chosen

    def type(self) -> Type:
        return with_shape(self.choose(self.sizes.shapes), self.element())

    # -- scopes

    @contextmanager
    def block(self, block: Block) -> Iterator[None]:
        self.scopes.append(Visible())
        self.depth += 1
        with self.build.into(block):
            yield
        self.depth -= 1
        self.scopes.pop()

    def keep(self, value: Value, name: str = "") -> Value:
        value.name = value.name or name or self.choose(("", "x", "y", "x_1", "v", "acc"))
        self.scopes[-1].values.setdefault(value.type, []).append(value)
        return value

    def known(self, ty: Type) -> list[Value]:
        return [v for scope in self.scopes for v in scope.values.get(ty, ())]

    def readable(self, pointee: Scalar) -> list[tuple[Value, int]]:
        """Scalar pointers with the elements that lie behind them."""
        wanted = Pointer(pointee)
        return [(v, n) for s in self.scopes for v, n in s.room.items() if v.type == wanted]

    def owned(self) -> list[tuple[Value, Scalar]]:
        return [pair for scope in self.scopes for pair in scope.own]

    # -- making values

    def emit(self, defn: OpDef, *operands: Value | None, **attributes: Any) -> Value:
        self.place()
        return self.build(defn, *operands, **attributes)

    def place(self) -> None:
        """Give what comes next a location."""
        self.lines += 1
        self.build.loc = Loc("kernel.py", self.lines, 4, 9 if self.lines % 3 else 0, "kernel")
        if self.lines % 5 == 0:
            self.build.loc = self.build.loc.called_from(Loc("kernel.py", 1, self.lines % 2))

    def constant(self, value: float, ty: Type) -> Value:
        self.place()
        return self.build.constant(value, ty)

    def value(self, ty: Type, depth: int = 2) -> Value:
        """A value of a type: one that is there, or a new one out of at most `depth` operations."""
        known = self.known(ty)
        if known and not self.chance(2):
            return known[-1 - self.pick(len(known))]
        if depth <= 0 or self.lines > BUDGET:
            return known[-1] if known else self.leaf(ty)
        makers = [m for applies, m in MAKERS if applies(self, ty)]
        made: Value = self.choose(makers)(self, ty, depth - 1)
        assert made.type == ty, f"made {made.type} instead of {ty}"
        return self.keep(made)

    def leaf(self, ty: Type) -> Value:
        """A constant, or a number from where the program stands."""
        element = ty.element
        assert isinstance(element, Scalar)
        if ty == I32 and self.chance(2):
            defn = self.choose((program.program_id, program.num_programs))
            return self.emit(defn, axis=self.number(0, 2))
        if element == I32 and ty.rank == 1 and self.chance(2):
            return self.arange(ty, 0)
        return self.constant(self.literal(element), ty)

    def literal(self, element: Scalar) -> float:
        if element.is_bool():
            return bool(self.number(0, 1))
        if element.is_floating():
            return float(self.choose((0.0, 1.0, 2.0, -1.0, 0.5, -3.0, 1.25, 16.0)))
        low, high = element.min_value, element.max_value
        return int(self.choose((0, 1, 2, 3, 5, 7, 8, high, high - 1, low, low + 1)))

    def elementwise(self, ty: Type, depth: int) -> Value:
        element = ty.element
        assert isinstance(element, Scalar)
        if element in FLOATS:
            table = FLOAT_BINARY
        else:
            table = BOOL_BINARY if element.is_bool() else INTEGER_BINARY
        defn = self.choose(table)
        x, y = self.value(ty, depth), self.value(ty, depth)
        if defn in (arith.div, arith.rem) and not element.is_floating():
            y = self.emit(arith.or_, y, self.constant(1, ty))
        attributes = {}
        if defn in (arith.min_, arith.max_):
            attributes["propagate_nan"] = self.chance(2)
        made = self.emit(defn, x, y, **attributes)
        return self.one_zero(made) if attributes else made

    def one_zero(self, value: Value) -> Value:
        """A float without its negative zero, where min and max leave the sign open."""
        if value.type.element not in FLOATS:
            return value
        return self.emit(arith.add, value, self.constant(0.0, value.type))

    def unary(self, ty: Type, depth: int) -> Value:
        element = ty.element
        if element in FLOATS:
            table = FLOAT_UNARY if element in (F32, F64) else (arith.neg, math_ops.abs_)
        else:
            table = (arith.not_,) if element == I1 else (arith.not_, arith.neg, math_ops.abs_)
        return self.emit(self.choose(table), self.value(ty, depth))

    def fma(self, ty: Type, depth: int) -> Value:
        return self.emit(arith.fma, *(self.value(ty, depth) for _ in range(3)))

    def mulhi(self, ty: Type, depth: int) -> Value:
        return self.emit(arith.mulhi, self.value(ty, depth), self.value(ty, depth))

    def compare(self, ty: Type, depth: int) -> Value:
        element = self.choose([e for e in self.elements if e not in FP8])
        of = with_element(ty, element)
        predicate = self.choose(tuple(Predicate))
        return self.emit(
            arith.cmp, self.value(of, depth), self.value(of, depth), predicate=predicate
        )

    def select(self, ty: Type, depth: int) -> Value:
        condition = self.value(with_element(ty, I1), depth)
        return self.emit(arith.select, condition, self.value(ty, depth), self.value(ty, depth))

    def cast(self, ty: Type, depth: int) -> Value:
        source, to = self.element(), ty.element
        x = self.value(with_element(ty, source), depth)
        narrows = source.is_floating() and to.is_floating() and to.bits < source.bits
        rounding = self.choose(tuple(Rounding)) if narrows and to not in FP8 else Rounding.RTNE
        return self.emit(arith.cast, x, to=to, rounding=rounding)

    def bitcast(self, ty: Type, depth: int) -> Value:
        element = ty.element
        assert isinstance(element, Scalar)
        sources = [e for e in self.elements if e.bits == element.bits and e not in FP8]
        source = self.choose(sources)
        x = self.value(with_element(ty, source), depth)
        if source in FLOATS:  # the bits of a NaN are anyone's
            number = self.emit(arith.cmp, x, x, predicate=Predicate.EQ)
            x = self.emit(arith.select, number, x, self.constant(1.0, x.type))
        return self.emit(arith.bitcast, x, to=element)

    def hint(self, ty: Type, depth: int) -> Value:
        ones = (1,) * max(1, ty.rank)
        claims = {n: ones for n in ("divisible", "contiguous", "constant") if self.chance(2)}
        return self.emit(arith.hint, self.value(ty, depth), **claims)

    def index(self, ty: Type, depth: int) -> Value:
        """What kernels do to index: a ramp along some axes, scaled, shifted by the program."""
        if ty.rank == 1 and self.chance(2):
            return self.arange(ty, depth)
        if self.chance(3):  # an axis along which nothing varies, after all
            start = self.number(-3, 7)
            line = self.emit(shape.arange, start=start, end=start + 1)
            return self.along(line, ty.shape, self.number(0, ty.rank - 1))
        steps = [self.choose((0, 1, 2, -1, 16)) for _ in ty.shape]
        start = self.value(I32, depth) if self.chance(2) else None
        return self.ramps(ty, steps, start)

    def arange(self, ty: Type, depth: int) -> Value:
        start = self.choose((0, 0, 1, 8, -3, 1000, I32.min_value))
        return self.emit(shape.arange, start=start, end=start + ty.shape[0])

    def splat(self, ty: Type, depth: int) -> Value:
        return self.emit(shape.splat, self.value(ty.element, depth), shape=ty.shape)

    def broadcast(self, ty: Type, depth: int) -> Value:
        small = tuple(1 if self.chance(2) else extent for extent in ty.shape)
        x = self.value(with_shape(small, ty.element), depth)
        return self.emit(shape.broadcast, x, shape=ty.shape)

    def expand_dims(self, ty: Type, depth: int) -> Value:
        axis = self.choose([k for k, extent in enumerate(ty.shape) if extent == 1])
        small = (*ty.shape[:axis], *ty.shape[axis + 1 :])
        x = self.value(with_shape(small, ty.element), depth)
        return self.emit(shape.expand_dims, x, axis=axis - ty.rank)

    def reshape(self, ty: Type, depth: int) -> Value:
        numel = math.prod(ty.shape)
        before = self.choose([s for s in self.sizes.shapes if s and math.prod(s) == numel])
        x = self.value(with_shape(before, ty.element), depth)
        return self.emit(shape.reshape, x, shape=ty.shape)

    def trans(self, ty: Type, depth: int) -> Value:
        order = self.permutation(ty.rank)
        before = tuple(ty.shape[order.index(axis)] for axis in range(ty.rank))
        return self.emit(
            shape.trans, self.value(with_shape(before, ty.element), depth), order=order
        )

    def permutation(self, rank: int) -> tuple[int, ...]:
        rest, order = list(range(rank)), []
        while rest:
            order.append(rest.pop(self.pick(len(rest))))
        return tuple(order)

    # -- along axes

    def longer(self, ty: Type) -> tuple[Type, int]:
        """A type with one axis more, and that axis."""
        axis = self.number(0, ty.rank)
        free = self.sizes.most // math.prod(ty.shape)
        extent = self.choose([n for n in self.sizes.longer if n <= free] or (1,))
        dims = (*ty.shape[:axis], extent, *ty.shape[axis:])
        return with_shape(dims, ty.element), axis - ty.rank - 1

    def small(self, ty: Type, depth: int, most: int = 3) -> Value:
        """Numbers from 0 to `most`, of which even 8 bits hold sums exactly."""
        of = with_element(ty, I32)
        x = self.emit(arith.and_, self.value(of, depth), self.constant(most, of))
        return x if ty == of else self.emit(arith.cast, x, to=ty.element)

    def reduce(self, ty: Type, depth: int) -> Value:
        of, axis = self.longer(ty)
        kind, x = self.reducible(of, depth)
        attributes = {}
        if kind in (ReduceKind.MAX, ReduceKind.MIN):
            attributes["propagate_nan"] = self.chance(2)
        made = self.emit(reduce.reduce, x, axis=axis, kind=kind, **attributes)
        return self.one_zero(made)

    def reducible(self, of: Type, depth: int) -> tuple[ReduceKind, Value]:
        element = of.element
        assert isinstance(element, Scalar)
        kinds = [k for k in ReduceKind if k.bitwise is not element.is_floating()]
        if element.is_int() and element != I1:
            kinds = list(ReduceKind)
        kind = self.choose([k for k in kinds if element != I1 or k.bitwise])
        exact = element.is_int() or kind in (ReduceKind.MAX, ReduceKind.MIN)
        most = 1 if kind is ReduceKind.PROD else 3
        return kind, self.value(of, depth) if exact else self.small(of, depth, most)

    def scan(self, ty: Type, depth: int) -> Value:
        axis = -self.number(1, ty.rank)
        kind, x = self.reducible(ty, depth)
        made = self.emit(reduce.scan, x, axis=axis, kind=kind, reverse=self.chance(2))
        return self.one_zero(made)

    def arg_reduce(self, ty: Type, depth: int) -> Value:
        """The index where it has the type, else the value."""
        elements = [e for e in self.elements if e in (*INTEGERS, *FLOATS)]
        element = ty.element if ty.element != I32 else self.choose(elements)
        of, axis = self.longer(with_element(ty, element))
        self.place()
        op = self.build.op(
            reduce.arg_reduce,
            self.value(of, depth),
            axis=axis,
            kind=self.choose(tuple(ArgKind)),
            tie_break_left=self.chance(2),
        )
        return op.results[1] if ty.element == I32 else self.one_zero(op.results[0])

    def dot(self, ty: Type, depth: int) -> Value:
        element = ty.element
        factors = {I32: (I8, U8), F16: (F16, *FP8), F32: (F16, BF16, F32, *FP8), F64: (F64,)}
        factor = self.choose(factors[element])  # type: ignore[index]
        inner = self.choose(self.sizes.inner)
        *batch, m, n = ty.shape
        a = self.small(with_shape((*batch, m, inner), factor), depth)
        b = self.small(with_shape((*batch, inner, n), factor), depth)
        acc = self.value(ty, depth) if element == I32 else self.small(ty, depth)
        precision = self.choose(tuple(Precision)) if factor == F32 else Precision.IEEE
        return self.emit(linalg.dot, a, b, acc, input_precision=precision)

    # -- elements moved, by position or by value

    def flip(self, ty: Type, depth: int) -> Value:
        return self.emit(shape.flip, self.value(ty, depth), axis=-self.number(1, ty.rank))

    def join(self, ty: Type, depth: int) -> Value:
        half = with_shape(ty.shape[:-1], ty.element)
        return self.emit(shape.join, self.value(half, depth), self.value(half, depth))

    def split(self, ty: Type, depth: int) -> Value:
        pairs = self.value(with_shape((*ty.shape, 2), ty.element), depth)
        self.place()
        op = self.build.op(shape.split, pairs)
        return op.results[self.number(0, 1)]

    def gather(self, ty: Type, depth: int) -> Value:
        axis = self.number(0, ty.rank - 1)
        extent = self.choose((1, 2, 4, 8))
        source = with_shape((*ty.shape[:axis], extent, *ty.shape[axis + 1 :]), ty.element)
        of = with_element(ty, self.choose((I32, I64)))
        place = self.emit(arith.and_, self.value(of, depth), self.constant(extent - 1, of))
        return self.emit(index.gather, self.value(source, depth), place, axis=axis - ty.rank)

    def histogram(self, ty: Type, depth: int) -> Value:
        of = Tile(self.choose(self.sizes.counted), self.choose((I32, U8, I64)))
        mask = self.maybe_mask(of, depth)
        return self.emit(index.histogram, self.value(of, depth), mask, bins=ty.shape[0])

    def sort(self, ty: Type, depth: int) -> Value:
        axis = self.number(0, ty.rank - 1)
        more = self.choose((1, 1, 2))
        source = list(ty.shape)
        source[axis] *= more
        x = self.one_zero(self.value(with_shape(source, ty.element), depth))
        count = ty.shape[axis] if more > 1 or self.chance(3) else None
        descending = self.chance(2)
        return self.emit(index.sort, x, axis=axis - ty.rank, descending=descending, count=count)

    # -- combining by a region

    def reduce_by(self, ty: Type, depth: int) -> Value:
        of, axis = self.longer(ty)
        return self.combined(combine.reduce_by, of, depth, axis=axis)

    def scan_by(self, ty: Type, depth: int) -> Value:
        rest = {"axis": -self.number(1, ty.rank), "reverse": self.chance(2)}
        return self.combined(combine.scan_by, ty, depth, **rest)

    def combined(self, defn: OpDef, of: Type, depth: int, **attributes: Any) -> Value:
        """Combine by a region that is associative, and commutative unless it scans."""
        element = of.element
        assert isinstance(element, Scalar)
        styles = [Writer.in_one_step]
        if element in INTEGERS:
            styles += [Writer.lesser_by_if, Writer.lesser_with_index]
        if defn is combine.scan_by:
            styles += [Writer.later]
            styles += [Writer.composition] if element in INTEGERS else []
        style = self.choose(styles) if element not in FP8 else Writer.later
        region = Block()
        with self.build.into(region):
            types, yielded = style(self, of, region)
            self.build.op(control.yield_, *yielded)
        operands = [self.value(ty, depth) for ty in types]
        self.place()
        op = self.build.op(defn, *operands, regions=(region,), **attributes)
        return op.results[0]

    def in_one_step(self, of: Type, region: Block) -> Any:
        element = of.element
        a, b = (region.add_arg(element) for _ in range(2))
        if element in FLOATS:
            made = self.emit(self.choose((arith.min_, arith.max_)), a, b)
            made = self.one_zero(made)
        elif element == I1:
            made = self.emit(self.choose((arith.and_, arith.or_, arith.xor)), a, b)
        else:
            made = self.emit(self.choose(ASSOCIATIVE), a, b)
        return [of], [made]

    def lesser_by_if(self, of: Type, region: Block) -> Any:
        a, b = (region.add_arg(of.element) for _ in range(2))
        less = self.emit(arith.cmp, a, b, predicate=self.choose((Predicate.LT, Predicate.GE)))
        arms = Block(), Block()
        for arm, value in zip(arms, (a, b), strict=True):
            with self.build.into(arm):
                self.build.op(control.yield_, value)
        made = self.build.op(control.if_, less, regions=arms).result
        return [of], [made]

    def lesser_with_index(self, of: Type, region: Block) -> Any:
        a, i, b, j = (region.add_arg(e) for e in (of.element, I32, of.element, I32))
        less = self.emit(arith.cmp, a, b, predicate=Predicate.LT)
        same = self.emit(arith.cmp, a, b, predicate=Predicate.EQ)
        first = self.emit(arith.cmp, i, j, predicate=Predicate.LE)
        take = self.emit(arith.or_, less, self.emit(arith.and_, same, first))
        yielded = [self.emit(arith.select, take, a, b), self.emit(arith.select, take, i, j)]
        return [of, with_element(of, I32)], yielded

    def later(self, of: Type, region: Block) -> Any:
        pair = [region.add_arg(of.element) for _ in range(2)]
        return [of], [self.choose(pair)]

    def composition(self, of: Type, region: Block) -> Any:
        """One affine map after another: a * x + b, then c * x + d."""
        a, b, c, d = (region.add_arg(of.element) for _ in range(4))
        scaled = self.emit(arith.mul, b, c)
        yielded = [self.emit(arith.mul, a, c), self.emit(arith.add, scaled, d)]
        return [of, of], yielded

    # -- memory

    def pointer(self, pointee: Scalar) -> tuple[Value, int]:
        """A scalar pointer and the elements behind it."""
        base, room = self.choose(self.readable(pointee))
        if room > 16 and self.chance(3):
            half = room // 2
            ty = self.choose((I32, I64, U32))
            offset = self.emit(arith.and_, self.value(ty, 1), self.constant(half - 1, ty))
            base = self.emit(memory.addptr, base, offset, stride=pointee.itemsize)
            room = half
        if room >= self.sizes.elements and self.chance(6):
            other, more = self.choose(self.readable(pointee))
            if more >= room:
                base = self.emit(arith.select, self.value(I1, 1), base, other)
        self.scopes[-1].room[base] = room
        return base, room

    def load(self, ty: Type, depth: int) -> Value:
        element = ty.element
        assert isinstance(element, Scalar)
        base, room = self.pointer(element)
        fits = math.prod(ty.shape) <= room
        style = self.choose((self.gathered, self.stepped, self.packed if fits else self.stepped))
        offset, mask = style(ty, room, depth)
        pointers = self.emit(memory.addptr, self.at(base, ty), offset, stride=element.itemsize)
        cache = self.choose(tuple(CacheModifier)[:4])
        eviction = self.choose(tuple(Eviction))
        volatile = self.chance(8)
        rest = {"cache": cache, "eviction": eviction, "volatile": volatile}
        if mask is None:
            return self.emit(memory.load, pointers, **rest)
        other = self.value(ty, depth)
        if self.chance(2):
            return self.emit(memory.load, pointers, mask, other, **rest)
        loaded = self.emit(memory.load, pointers, mask, **rest)
        return self.emit(arith.select, mask, loaded, other)

    def boxable(self, ty: Type) -> bool:
        """Whether a tile can be a box of an array that begins at a multiple of 16 bytes."""
        element = ty.element
        assert isinstance(element, Scalar)
        wide = ty.rank > 0 and ty.shape[-1] * element.itemsize >= Descriptor.ALIGNMENT
        return wide and element != I1 and element in {e for _, e in self.aligned()}

    def aligned(self) -> list[tuple[Value, Scalar]]:
        """Arrays that are only read; those of a kernel, which begin where memory was allotted."""
        if not self.function.kernel:
            return []
        args = [v for v in self.function.args if v.name.startswith("in_")]
        return [(v, v.type.element.pointee) for v in args]

    def described(self, base: Value, room: int, ty: Type, *, apart: bool) -> Value:
        """A descriptor within `room` elements of `base`, its elements apart from each other."""
        element = ty.element
        assert isinstance(element, Scalar)
        step = Descriptor.ALIGNMENT // element.itemsize
        extents = [self.number(0 if self.chance(8) else 1, min(room, 40))]
        strides: list[int] = []
        reach = max(1, extents[0])  # elements from the first to the last
        for _ in ty.shape[1:]:
            least = -(-reach // step) if apart else 0
            strides.insert(0, step * self.number(least, least + 3))
            most = 1 + (room - reach) // max(1, strides[0])
            extents.insert(0, self.number(1, max(1, min(most, 9))))
            reach += (extents[0] - 1) * strides[0]
        sizes = [self.constant(n, I32) for n in extents] + [self.constant(s, I64) for s in strides]
        padding = Padding.NAN if element.is_floating() and self.chance(3) else Padding.ZERO
        return self.emit(descriptor.make_descriptor, base, *sizes, block=ty.shape, padding=padding)

    def starts(self, rank: int) -> list[Value]:
        """Where a box begins: near the array, or anywhere."""
        found = []
        for _ in range(rank):
            start = self.value(I32, 1)
            if not self.chance(4):
                low = self.emit(arith.and_, start, self.constant(15, I32))
                start = self.emit(arith.sub, low, self.constant(self.choose((0, 0, 4)), I32))
            found.append(start)
        return found

    def box(self, ty: Type, depth: int) -> Value:
        """A load by a descriptor."""
        base, _ = self.choose([pair for pair in self.aligned() if pair[1] == ty.element])
        room = self.sizes.elements
        desc = self.described(base, room, ty, apart=False)
        starts = self.starts(ty.rank)
        return self.emit(descriptor.descriptor_load, desc, *starts)

    def at(self, base: Value, ty: Type) -> Value:
        return self.emit(shape.splat, base, shape=ty.shape) if ty.rank else base

    def gathered(self, ty: Type, room: int, depth: int) -> tuple[Value, Value | None]:
        """Any offsets, cut down to the room or masked."""
        of = with_element(ty, self.choose((I32, I32, I64, U32)))
        offset = self.value(of, depth)
        if self.chance(2):
            return offset, self.inside(offset, room, depth)
        return self.emit(arith.and_, offset, self.constant(room - 1, of)), self.maybe_mask(
            ty, depth
        )

    def stepped(self, ty: Type, room: int, depth: int) -> tuple[Value, Value | None]:
        """Offsets that grow evenly along each axis, masked to the room."""
        steps = [self.number(-3, 9) for _ in ty.shape]
        start = self.emit(arith.and_, self.value(I32, depth), self.constant(room - 1, I32))
        offset = self.ramps(ty, steps, start)
        return offset, self.inside(offset, room, depth)

    def packed(self, ty: Type, room: int, depth: int) -> tuple[Value, Value | None]:
        """Neighbouring elements, axes in any order; all inside."""
        steps = [0] * ty.rank
        reach = 1
        for axis in self.permutation(ty.rank):
            steps[axis] = reach
            reach *= ty.shape[axis]
        start = None
        if reach < room and self.chance(2):
            free = room - reach  # at least half of the room, since both are powers of two
            most = 1 << (free.bit_length() - 1)
            start = self.emit(arith.and_, self.value(I32, depth), self.constant(most - 1, I32))
        return self.ramps(ty, steps, start), self.maybe_mask(ty, depth)

    def ramps(self, ty: Type, steps: Sequence[int], start: Value | None) -> Value:
        """Offsets `start` + the sum of `steps[k]` * index k."""
        of = with_element(ty, I32)
        total = self.at(start, of) if start is not None else None
        for axis, step in enumerate(steps):
            if ty.shape[axis] == 1 and (total is not None or axis < ty.rank - 1):
                continue
            line = self.emit(shape.arange, start=0, end=ty.shape[axis])
            if step != 1:
                line = self.emit(arith.mul, line, self.constant(step, line.type))
            line = self.along(line, ty.shape, axis)
            total = line if total is None else self.emit(arith.add, total, line)
        return total if total is not None else self.constant(0, of)

    def along(self, line: Value, dims: Shape, axis: int) -> Value:
        """A tile of rank 1 along one axis of a shape."""
        value = line
        for _ in range(axis):
            value = self.emit(shape.expand_dims, value, axis=-1 - value.type.rank)
        for _ in range(len(dims) - axis - 1):
            value = self.emit(shape.expand_dims, value, axis=-1)
        return self.emit(shape.broadcast, value, shape=dims) if value.type.shape != dims else value

    def inside(self, offset: Value, room: int, depth: int) -> Value:
        ty = offset.type
        low = self.emit(arith.cmp, offset, self.constant(0, ty), predicate=Predicate.GE)
        high = self.emit(arith.cmp, offset, self.constant(room, ty), predicate=Predicate.LT)
        mask = self.emit(arith.and_, low, high)
        if self.chance(3):
            mask = self.emit(arith.and_, mask, self.value(mask.type, depth))
        return mask

    def maybe_mask(self, ty: Type, depth: int) -> Value | None:
        of = with_element(ty, I1)
        if self.chance(2):
            return None
        if ty.rank == 0 or self.chance(2):
            return self.value(of, depth)
        axis = self.number(0, ty.rank - 1)  # one end of an axis
        line = self.emit(shape.arange, start=0, end=ty.shape[axis])
        limit = self.at(self.value(I32, depth), line.type)
        if self.chance(2):
            limit = self.constant(self.number(0, ty.shape[axis]), line.type)
        predicate = self.choose(tuple(Predicate))
        compared = self.emit(arith.cmp, line, limit, predicate=predicate)
        return self.along(compared, ty.shape, axis)

    # -- statements

    def statements(self, count: int) -> None:
        for _ in range(count if self.lines < BUDGET else 0):
            self.choose(STATEMENTS if self.depth < 3 else SIMPLE_STATEMENTS)(self)

    def compute(self) -> None:
        self.keep(self.value(self.type(), 3))

    def store(self) -> None:
        base, element = self.choose(self.owned())
        ty = with_shape(self.choose(self.sizes.shapes), element)
        if self.boxable(ty) and self.chance(4):
            self.store_box(base, ty)
            return
        slot = self.number(0, SLOTS - 1) * self.sizes.elements
        offset, mask = self.packed(ty, self.sizes.elements, 1)
        if slot:
            offset = self.emit(arith.add, offset, self.constant(slot, offset.type))
        pointers = self.emit(memory.addptr, self.at(base, ty), offset, stride=element.itemsize)
        value = self.value(ty, 3)
        self.place()
        self.build.op(memory.store, pointers, value, mask, eviction=self.choose(tuple(Eviction)))

    def store_box(self, base: Value, ty: Type) -> None:
        desc = self.described(base, SLOTS * self.sizes.elements, ty, apart=True)
        value, starts = self.value(ty, 3), self.starts(ty.rank)
        self.place()
        self.build.op(descriptor.descriptor_store, desc, value, *starts)

    def update(self) -> None:
        """An atomic operation on what all programs share; one kind to an array."""
        shared = [v for v in self.function.args if v.name.startswith("shared_")]
        if not shared:
            return
        base = self.choose(shared)
        element = base.type.element.pointee
        ty = with_shape(self.choose(self.sizes.shapes), element)
        offset = self.emit(
            arith.and_,
            self.value(with_element(ty, I32)),
            self.constant(SHARED - 1, with_element(ty, I32)),
        )
        pointers = self.emit(memory.addptr, self.at(base, ty), offset, stride=element.itemsize)
        mask = self.maybe_mask(ty, 1)
        value = self.small(ty, 1) if element.is_floating() else self.value(ty)
        self.emit(
            memory.atomic_rmw,
            pointers,
            value,
            mask,
            kind=RMWKind(base.name.split("_")[1]),
            order=self.choose(tuple(Order)),
            scope=self.choose(tuple(Scope)),
        )

    def note(self) -> None:
        """A barrier, an assumption that holds, or an assertion that does."""
        which = self.number(0, 2)
        self.place()
        if which == 0:
            self.build.op(memory.barrier)
            return
        ty = with_element(self.type() if which == 2 else I32, I32)
        x = self.value(ty)
        true = self.emit(arith.cmp, x, x, predicate=self.choose((Predicate.EQ, Predicate.LE)))
        if which == 1:
            self.build.op(debug.assume, true)
        else:
            mask = self.value(true.type) if self.chance(2) else None
            self.build.op(debug.device_assert, true, mask, message="always")

    def carried(self) -> list[Value]:
        return [self.value(self.type()) for _ in range(self.number(0, 3))]

    def nested(self, block: Block, results: Sequence[Type], count: int) -> None:
        """Fill a block that yields values of some types."""
        with self.block(block):
            for value in block.args:
                self.keep(value)
            self.statements(count)
            yielded = [self.value(ty) for ty in results]
            self.place()
            self.build.op(control.yield_, *yielded)

    def if_(self) -> None:
        condition = self.value(I1)
        results = [self.type() for _ in range(self.number(0, 2))]
        then, orelse = Block(), Block()
        self.nested(then, results, self.number(0, MOST_STATEMENTS))
        self.nested(orelse, results, self.number(0, 2))
        self.finish(control.if_, condition, regions=(then, orelse))

    def finish(self, defn: OpDef, *operands: Value, **rest: Any) -> None:
        self.place()
        for value in self.build.op(defn, *operands, **rest).results:
            self.keep(value)

    def for_(self) -> None:
        ty = self.choose((I32, I32, I64, U32, I8))
        upper = self.emit(arith.and_, self.value(ty), self.constant(3, ty))
        lower, step = self.constant(0, ty), self.constant(1, ty)
        style = self.number(0, 3)
        if style == 1 and ty.signed:  # downwards, perhaps not at all
            lower, upper = upper, self.constant(self.number(-2, 2), ty)
            step = self.constant(-1, ty)
        elif style == 2:  # from a bound, by a bound
            start = self.emit(arith.and_, self.value(ty), self.constant(1, ty))
            lower, upper = start, self.emit(arith.add, start, upper)
            one = self.emit(arith.and_, self.value(ty), self.constant(1, ty))
            step = self.emit(arith.add, one, step)
        elif style == 3:
            upper = self.constant(self.number(0, 3), ty)
        inits = self.carried()
        body = Block([ty, *(v.type for v in inits)], ["i"])
        self.nested(body, [v.type for v in inits], self.number(0, MOST_STATEMENTS))
        wishes = {"num_stages": self.number(0, 3)} if self.chance(3) else {}
        self.finish(control.for_, lower, upper, step, *inits, regions=(body,), **wishes)

    def while_(self) -> None:
        """Counts down a carried number, and may stop before for another reason."""
        limit = self.emit(arith.and_, self.value(I32), self.constant(3, I32))
        inits = [limit, *self.carried()]
        types = [v.type for v in inits]
        test, body = Block(types), Block(types)
        with self.block(test):
            for value in test.args:
                self.keep(value)
            zero = self.constant(0, I32)
            more = self.emit(arith.cmp, test.args[0], zero, predicate=Predicate.GT)
            if self.chance(3):
                more = self.emit(arith.and_, more, self.value(I1))
            self.build.op(control.condition, more)
        with self.block(body):
            for value in body.args:
                self.keep(value)
            self.statements(self.number(0, MOST_STATEMENTS))
            yielded = [self.value(ty) for ty in types[1:]]
            left = self.emit(arith.sub, body.args[0], self.constant(1, I32))
            self.build.op(control.yield_, left, *yielded)
        self.finish(control.while_, *inits, regions=(test, body))

    def call(self) -> None:
        if not self.callees:
            return self.compute()
        callee = self.choose(self.callees)
        function = callee.function
        arguments = []
        for value in function.args:
            if value.name.startswith("own_"):
                arguments.append(next(p for p, _ in self.owned() if p.type == value.type))
            elif value.name.startswith("in_"):
                fitting = [
                    p for p, n in self.readable(value.type.pointee) if n >= self.sizes.elements
                ]
                arguments.append(self.choose(fitting))
            else:
                arguments.append(self.value(value.type))
        results = function.result_types
        return self.finish(control.call, *arguments, callee=Symbol(function.name), results=results)

    def witness(self) -> None:
        """Store some of the values that this block computed."""
        sizes = self.sizes
        kept = [v for values in self.scopes[-1].values.values() for v in values]
        owned = {element: base for base, element in self.scopes[0].own}
        kept = [v for v in kept if v.type.element in owned and v.op is not None]
        kept = [v for v in kept if math.prod(v.type.shape) <= self.sizes.largest]
        for slot in range(min(WITNESSES, len(kept))):
            value = kept.pop(self.pick(len(kept)))
            element = value.type.element
            steps = [math.prod(value.type.shape[k + 1 :]) for k in range(value.type.rank)]
            start = self.constant(SLOTS * sizes.elements + slot * sizes.largest, I32)
            offset = self.ramps(value.type, steps, start)
            base = self.at(owned[element], value.type)
            pointers = self.emit(memory.addptr, base, offset, stride=element.itemsize)
            self.build.op(memory.store, pointers, value)

    def probe(self, out: Value) -> None:
        """Results that are not exact, each stored at once in a place where that is allowed."""
        for index in range(self.number(0, 3)):
            ty = Tile((8,), F32)
            # The function's own domain decides nothing else: clamp to where all are tame.
            x = self.emit(
                arith.min_,
                self.emit(arith.max_, self.value(ty), self.constant(0.125, ty)),
                self.constant(16.0, ty),
            )
            y = self.emit(self.choose(LOOSE_UNARY), x)
            if self.chance(2):
                total = self.emit(reduce.reduce, y, axis=-1, kind=ReduceKind.SUM)
                y = self.emit(shape.splat, total, shape=(8,))
            pid = self.linear_program()
            row = self.emit(arith.mul, pid, self.constant(32, I32))
            row = self.emit(arith.add, row, self.constant(8 * index, I32))
            lanes = self.emit(shape.arange, start=0, end=8)
            offset = self.emit(arith.add, self.at(row, lanes.type), lanes)
            pointers = self.emit(memory.addptr, self.at(out, ty), offset, stride=4)
            self.build.op(memory.store, pointers, y)

    def linear_program(self) -> Value:
        """The number of the program: x + X * (y + Y * z)."""
        total = self.emit(program.program_id, axis=2)
        for axis in (1, 0):
            extent = self.emit(program.num_programs, axis=axis)
            total = self.emit(arith.mul, total, extent)
            total = self.emit(arith.add, total, self.emit(program.program_id, axis=axis))
        return total


INTEGER_BINARY = (
    *(arith.add, arith.sub, arith.mul, arith.div, arith.rem, arith.min_, arith.max_),
    *(arith.and_, arith.or_, arith.xor, arith.shl, arith.shr),
)
ASSOCIATIVE = (arith.add, arith.mul, arith.xor, arith.and_, arith.or_, arith.min_, arith.max_)
FLOAT_BINARY = (
    *(arith.add, arith.sub, arith.mul, arith.div, arith.div_rn, arith.rem),
    *(arith.min_, arith.max_),
)
BOOL_BINARY = (arith.add, arith.sub, arith.mul, arith.and_, arith.or_, arith.xor)
FLOAT_UNARY = (arith.neg, math_ops.abs_, math_ops.floor, math_ops.ceil, math_ops.sqrt_rn)
LOOSE_UNARY = (
    *(math_ops.exp, math_ops.exp2, math_ops.log, math_ops.log2, math_ops.sin, math_ops.cos),
    *(math_ops.tanh, math_ops.erf, math_ops.sqrt, math_ops.rsqrt),
)


def _numeric(writer: Writer, ty: Type) -> bool:
    return ty.element not in FP8


def _of(*elements: Scalar) -> Callable[[Writer, Type], bool]:
    return lambda writer, ty: ty.element in elements


def _always(writer: Writer, ty: Type) -> bool:
    return True


def _tile(writer: Writer, ty: Type) -> bool:
    return ty.rank > 0


def _combinable(writer: Writer, ty: Type) -> bool:
    return _numeric(writer, ty) and 0 < ty.rank


# Whether a maker can make a value of a type, and the maker; twice for those that matter more.
MAKERS: tuple[tuple[Callable[[Writer, Type], bool], Callable[..., Value]], ...] = (
    (_always, lambda writer, ty, depth: writer.leaf(ty)),
    (_numeric, Writer.elementwise),
    (_numeric, Writer.elementwise),
    (_numeric, Writer.unary),
    (_of(*FLOATS), Writer.fma),
    (_of(I32, I64, U32, U64), Writer.mulhi),
    (_of(I1), Writer.compare),
    (_of(I1), Writer.compare),
    (_always, Writer.select),
    (_always, Writer.cast),
    (
        lambda w, ty: (
            _numeric(w, ty)
            and ty.element != I1
            and any(e.bits == ty.element.bits and e not in FP8 for e in w.elements)
        ),
        Writer.bitcast,
    ),
    (_always, Writer.hint),
    *(((lambda w, ty: ty.element == I32 and ty.rank > 0, Writer.index),) * 5),
    (_tile, Writer.flip),
    (lambda w, ty: ty.rank > 0 and ty.shape[-1] == 2, Writer.join),
    (lambda w, ty: ty.rank < 3, Writer.split),
    (_tile, Writer.gather),
    (lambda w, ty: ty.element == I32 and ty.rank == 1, Writer.histogram),
    (_combinable, Writer.sort),
    (lambda w, ty: _numeric(w, ty) and ty.rank < 3, Writer.reduce_by),
    (_tile, Writer.scan_by),
    (_tile, Writer.splat),
    (_tile, Writer.broadcast),
    (lambda w, ty: ty.rank > 1 and 1 in ty.shape, Writer.expand_dims),
    (
        lambda w, ty: (
            ty.rank > 0 and any(s and math.prod(s) == math.prod(ty.shape) for s in w.sizes.shapes)
        ),
        Writer.reshape,
    ),
    (_tile, Writer.trans),
    (lambda w, ty: _numeric(w, ty) and ty.rank < 3, Writer.reduce),
    (_combinable, Writer.scan),
    (lambda w, ty: _numeric(w, ty) and ty.element != I1 and ty.rank < 3, Writer.arg_reduce),
    (lambda w, ty: ty.element in (I32, F16, F32, F64) and ty.rank in (2, 3), Writer.dot),
    (lambda w, ty: w.boxable(ty), Writer.box),
    (lambda w, ty: bool(w.readable(ty.element)), Writer.load),  # type: ignore[arg-type]
    (lambda w, ty: bool(w.readable(ty.element)), Writer.load),  # type: ignore[arg-type]
)
SIMPLE_STATEMENTS = (
    *(Writer.compute, Writer.compute, Writer.store, Writer.store, Writer.update),
    *(Writer.note, Writer.call),
)
STATEMENTS = (*SIMPLE_STATEMENTS, Writer.if_, Writer.if_, Writer.for_, Writer.while_)

ATOMICS = {
    I32: ("add", "max", "min", "and", "or", "xor"),
    U32: ("add", "max", "min", "xor"),
    I64: ("add", "max"),
    F32: ("add",),
}


def _numbers(seed: int, element: Scalar, count: int) -> Any:
    """Input data: numbers of every size, the odd ones of floats too."""
    random = np.random.default_rng(seed)
    dtype = numerics.numpy_dtype(element)
    if element.is_bool():
        return random.random(count) < 0.5
    if element.is_floating():
        values = (random.standard_normal(count) * 4).astype(np.float32)
        values = np.where(random.random(count) < 0.3, np.round(values), values)
        odd = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, 1e-3, 448.0], np.float32)
        chosen = random.random(count) < 0.2
        values[chosen] = odd[random.integers(0, len(odd), int(chosen.sum()))]
        return values.astype(dtype)
    info = np.iinfo(dtype)
    values = random.integers(info.min, info.max, count, dtype, endpoint=True)
    small = random.random(count) < 0.6
    values[small] = random.integers(0, 20, int(small.sum())).astype(dtype)
    return values


@st.composite
def modules(draw: Any, functions: bool = True, sizes: Sizes = SMALL) -> Case:
    """A random kernel with its grid and arguments, all by hypothesis' choice; see the top."""
    return make(lambda count: int(draw(_below(count))), functions, sizes)


def make(pick: Pick, functions: bool = True, sizes: Sizes = SMALL) -> Case:
    """A kernel with its grid and arguments, as `pick` chooses."""
    grid = GRIDS[pick(len(GRIDS))]
    programs = math.prod(grid)
    chosen = [ALL[pick(len(ALL))] for _ in range(1 + pick(3))]
    elements = tuple(dict.fromkeys((I32, I1, *chosen)))
    seed = pick(1000)
    names: list[str] = []
    types: list[Type] = []
    inputs: list[Any] = []
    for index, element in enumerate((*elements, I32)):
        names.append(f"in_{element}_{index}")
        types.append(Pointer(element))
        inputs.append(_numbers(seed + index, element, sizes.elements))
    for element in elements:
        names.append(f"out_{element}")
        types.append(Pointer(element))
        inputs.append(_numbers(seed + 99, element, programs * sizes.region))
    for element in elements:
        if element in ATOMICS:
            kind = ATOMICS[element][pick(len(ATOMICS[element]))]
            names.append(f"shared_{kind}_{element}")
            types.append(Pointer(element))
            inputs.append(
                (_numbers(seed + 50, I32, SHARED) & 3).astype(numerics.numpy_dtype(element))
            )
    for element in elements:
        if element not in FP8:
            names.append(f"n_{element}")
            types.append(element)
            inputs.append(_numbers(seed + 7, element, 1)[0])
    names.append("probe")
    types.append(Pointer(F32))
    inputs.append(np.zeros(programs * 32, np.float32))

    kernel = Function("kernel", types, names, kernel=True)
    kernel.arguments = [_promise(ty, value) for ty, value in zip(types, inputs, strict=True)]
    module = Module()
    callees: list[Callee] = []
    if functions:
        for index in range(pick(3)):
            callees.append(_callee(pick, f"helper{index}", elements, callees, sizes))
    writer = Writer(pick, kernel, callees, sizes)
    writer.elements = elements
    scope = writer.scopes[0]
    for value in kernel.args:
        if value.name.startswith("in_"):
            scope.room[value] = sizes.elements
        elif value.name.startswith("n_"):
            writer.keep(value)
    row = writer.emit(arith.mul, writer.linear_program(), writer.constant(sizes.region, I32))
    for value in kernel.args:
        if value.name.startswith("out_"):
            element = value.type.element.pointee
            own = writer.emit(memory.addptr, value, row, stride=element.itemsize)
            scope.own.append((own, element))
            scope.room[own] = SLOTS * sizes.elements  # a power of two
    writer.statements(1 + pick(6))
    writer.store()
    writer.witness()
    writer.probe(kernel.args[-1])
    writer.build.op(control.return_)
    for callee in callees:
        module.add(callee.function)
    module.add(kernel)
    return Case(module, grid, inputs, seed, frozenset({"probe"}))


def _promise(ty: Type, value: Any) -> Argument:
    """What is true of an argument, as a launch would find out."""
    if isinstance(ty, Pointer):
        return Argument()  # copies of the arrays may lie anywhere
    return Argument(16 if ty.element.is_int() and ty != I1 and int(value) % 16 == 0 else 1)


def _callee(
    pick: Pick,
    name: str,
    elements: tuple[Scalar, ...],
    callees: list[Callee],
    sizes: Sizes,
) -> Callee:
    """A device function that may read, store in its program's region, and call those before it."""

    def some_type() -> Type:
        return with_shape(sizes.shapes[pick(len(sizes.shapes))], elements[pick(len(elements))])

    plain = [some_type() for _ in range(pick(4))]
    results = [some_type() for _ in range(pick(3))]
    names = [f"{prefix}_{e}" for prefix in ("in", "own") for e in elements]
    pointers: list[Type] = [Pointer(e) for _ in range(2) for e in elements]
    function = Function(
        name,
        [*pointers, *plain],
        [*names, *("" for _ in plain)],
        results,
        noinline=pick(2) == 1,
    )
    writer = Writer(pick, function, callees, sizes)
    writer.elements = elements
    scope = writer.scopes[0]
    for value in function.args:
        if value.name.startswith("in_"):
            scope.room[value] = sizes.elements
        elif value.name.startswith("own_"):
            scope.own.append((value, value.type.element.pointee))
            scope.room[value] = SLOTS * sizes.elements
        else:
            writer.keep(value, "parameter")
    writer.statements(writer.number(0, 3))
    writer.build.op(control.return_, *(writer.value(ty) for ty in results))
    return Callee(function, pointers)
