"""Loop-carried 16-bit accumulators of wgmma, packed two to a 32-bit register.

wgmma has them packed. With a phi for each element, every iteration would unpack and repack them,
and would wait for the wgmmas in flight to do so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tile.backends.nvptx.emit.body import FunctionBuilder, Registers, types_of
from tile.backends.nvptx.emit.types import count_of
from tile.backends.nvptx.emit.words import pack, packed_types, unpack
from tile.ir.core import Operation, Value
from tile.ir.types import Fragment
from tile.simt import ops


@dataclass(frozen=True)
class LoopCarried:
    """The representation of values that a `for` carries.

    Values with the numbers in `packed` are in 32-bit registers, two elements in each.
    """

    packed: frozenset[int]

    @classmethod
    def of(cls, loop: Operation) -> LoopCarried:
        """Return the representation that a loop uses."""
        if not any(op.defn is ops.group.group_dot for op in loop.regions[0]):
            return cls(frozenset())
        results = enumerate(loop.results)
        return cls(frozenset([number for number, value in results if _is_narrow(value)]))

    def types(self, values: Sequence[Value]) -> list[str]:
        """Return the types of the phis, in order."""
        return [ty for number, value in enumerate(values) for ty in self._types(number, value)]

    def _types(self, number: int, value: Value) -> list[str]:
        if number not in self.packed:
            return types_of([value])
        return packed_types(value.type.element, count_of(value.type))

    def registers(self, builder: FunctionBuilder, number: int, value: Value) -> Registers:
        """Return the registers of a value as the phis take them."""
        if number not in self.packed:
            return builder.of(value)
        return [register for _, register in pack(builder, value.type.element, builder.of(value))]

    def flat(self, builder: FunctionBuilder, values: Sequence[Value]) -> Registers:
        """Return the registers of all values as the phis take them, in order."""
        return [x for number, v in enumerate(values) for x in self.registers(builder, number, v)]

    def assign(
        self, builder: FunctionBuilder, values: Sequence[Value], registers: Registers
    ) -> None:
        """Set the registers of values from those of the phis."""
        source: Iterator[str] = iter(registers)
        for number, value in enumerate(values):
            own = [next(source) for _ in self._types(number, value)]
            packed = number in self.packed
            builder.values[value] = unpack(builder, value.type.element, own) if packed else own


def _is_narrow(value: Value) -> bool:
    ty = value.type
    return isinstance(ty, Fragment) and ty.element.itemsize == 2 and ty.count % 2 == 0
