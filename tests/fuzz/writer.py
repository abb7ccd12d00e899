"""Writes the function of a random kernel: choices, scopes, and values of a type."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.fuzz.sizes import BUDGET, Sizes
from tile.ir.builder import Builder
from tile.ir.core import Block, Function, Value
from tile.ir.op_definition import OpDef
from tile.ir.types import I32, Pointer, Scalar, Type, with_shape
from tile.location import Loc

Pick = Callable[[int], int]  # a number from 0 to below another
# Whether a maker can make a value of a type, and the maker: of a type, out of some operations more.
Maker = tuple[Callable[["Writer", Type], bool], Callable[["Writer", Type, int], Value]]


@dataclass
class Callee:
    """A device function: what it takes besides the pointers of its caller."""

    function: Function
    pointers: list[Type]


@dataclass
class Visible:
    """The values that a block may use, by type, and how many elements lie behind a pointer."""

    values: dict[Type, list[Value]] = field(default_factory=dict)
    extents: dict[Value, int] = field(default_factory=dict)  # pointers to read from
    own: list[tuple[Value, Scalar]] = field(default_factory=list)  # a program's own region


class Writer:
    """Writes one function; `pick` makes every choice, `makers` make values, the first of any type."""

    def __init__(
        self,
        pick: Pick,
        function: Function,
        callees: Sequence[Callee],
        sizes: Sizes,
        makers: Sequence[Maker],
    ) -> None:
        self.pick = pick
        self.sizes = sizes
        self.makers = makers
        self.function = function
        self.callees = list(callees)
        self.build = Builder(function.body)
        function.loc = Loc("kernel.py", 1, 0, 3)
        self.scopes = [Visible()]
        self.depth = 0
        self.lines = 0
        self.elements: tuple[Scalar, ...] = (I32,)

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

    def values_of(self, ty: Type) -> list[Value]:
        return [v for scope in self.scopes for v in scope.values.get(ty, ())]

    def readable(self, pointee: Scalar) -> list[tuple[Value, int]]:
        """Scalar pointers with the elements that lie behind them."""
        wanted = Pointer(pointee)
        return [(v, n) for s in self.scopes for v, n in s.extents.items() if v.type == wanted]

    def owned(self) -> list[tuple[Value, Scalar]]:
        return [pair for scope in self.scopes for pair in scope.own]

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
        values_of = self.values_of(ty)
        if values_of and not self.chance(2):
            return values_of[-1 - self.pick(len(values_of))]
        if depth <= 0 or self.lines > BUDGET:
            return values_of[-1] if values_of else self.makers[0][1](self, ty, 0)
        makers = [m for applies, m in self.makers if applies(self, ty)]
        made: Value = self.choose(makers)(self, ty, depth - 1)
        assert made.type == ty, f"made {made.type} instead of {ty}"
        return self.keep(made)
