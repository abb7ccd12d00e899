"""What loops with products of groups carry: sums of 16 bits go around two in a register.

The instructions have them so. If each had a phi of its own, every round would take them apart and
put them together, and would wait for products to do so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tile.backends.nvptx.emit.body import Body, Registers, types_of
from tile.backends.nvptx.emit.types import count_of
from tile.backends.nvptx.emit.words import pack, unpack, word_types
from tile.ir.core import Operation, Value
from tile.ir.types import Fragment
from tile.simt import ops


@dataclass(frozen=True)
class Carried:
    """How a `for` carries values: those with the numbers `packed` in words of 32 bits."""

    packed: frozenset[int]

    @classmethod
    def by(cls, loop: Operation) -> Carried:
        """As a loop does."""
        if not any(op.defn is ops.group.group_dot for op in loop.regions[0]):
            return cls(frozenset())
        results = enumerate(loop.results)
        return cls(frozenset([number for number, value in results if _is_narrow(value)]))

    def types(self, values: Sequence[Value]) -> list[str]:
        """The types of the phis, in order."""
        return [ty for number, value in enumerate(values) for ty in self._types(number, value)]

    def _types(self, number: int, value: Value) -> list[str]:
        if number not in self.packed:
            return types_of([value])
        return word_types(value.type.element, count_of(value.type))

    def registers(self, body: Body, number: int, value: Value) -> Registers:
        """A value as it goes into the phis."""
        if number not in self.packed:
            return body.of(value)
        return [word for _, word in pack(body, value.type.element, body.of(value))]

    def flat(self, body: Body, values: Sequence[Value]) -> Registers:
        """All of them, in order."""
        return [x for number, v in enumerate(values) for x in self.registers(body, number, v)]

    def assign(self, body: Body, values: Sequence[Value], registers: Registers) -> None:
        """Say which values the phis are."""
        source: Iterator[str] = iter(registers)
        for number, value in enumerate(values):
            own = [next(source) for _ in self._types(number, value)]
            packed = number in self.packed
            body.values[value] = unpack(body, value.type.element, own) if packed else own


def _is_narrow(value: Value) -> bool:
    ty = value.type
    return isinstance(ty, Fragment) and ty.element.itemsize == 2 and ty.count % 2 == 0
