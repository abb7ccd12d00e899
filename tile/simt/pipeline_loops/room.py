"""The shared memory that is left for the buffers of a loop.

Loops inside a loop take theirs while its own buffers are in use, and so do functions called in it.
So room is given to the innermost loops first, which run most often, and to functions before those
that call them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable

from tile.ir.core import Block, Function, Operation
from tile.ir.opdef import OpDef
from tile.ir.ops import control
from tile.ir.types import Shared
from tile.simt.expose_factors import stored_factors
from tile.simt.expose_shared import conversion_bytes, exchange_bytes
from tile.simt.ops.group import group_dot
from tile.simt.ops.layout import convert_layout, exchange
from tile.simt.ops.shared import alloc
from tile.simt.plan_shared import FACTOR_ALIGNMENT
from tile.simt.product_pieces import is_cut, is_read_in_pieces, stored_bytes
from tile.simt.target import SimtTarget

ALIGNMENT = 128  # of any buffer but factors of products by groups, at most

Factor = tuple[Operation, int]  # a product, and which of its factors
Served = Operation | Factor  # a conversion, or a factor


class Room:
    """The shared memory of a program, and what loops and functions so far take of it, in bytes."""

    def __init__(self, target: SimtTarget) -> None:
        self.target = target
        self.loops: dict[Operation, int] = {}
        self.functions: dict[str, int] = {}

    def left(self, loop: Operation, served: Collection[Served] = ()) -> int:
        """What the buffers of a loop can take.

        The conversions and factors `served` do not count: they come to be reads of those buffers.
        """
        return self.target.shared_bytes - self._regions(loop.regions, served) - _used_by(loop)

    def take(self, loop: Operation, buffers: int, served: Collection[Served] = ()) -> None:
        """Give so much to the buffers of a loop."""
        self.loops[loop] = buffers + self._regions(loop.regions, served)

    def finish(self, function: Function) -> None:
        """All loops of a function have what they get."""
        self.functions[function.name] = self._regions([function.body], ())

    def _regions(self, regions: Iterable[Block], served: Collection[Served]) -> int:
        """What operations take: buffers that are there all the time, others one after the other."""
        most, buffers = 0, 0
        for region in regions:
            for op in region:
                if op.defn is alloc:
                    assert isinstance(op.result.type, Shared)
                    buffers += aligned(op.result.type.bytes)
                elif op.defn is group_dot:
                    buffers += _factors(op, served)
                elif op not in served:
                    most = max(most, self._operation(op, served))
        return most + buffers

    def _operation(self, op: Operation, served: Collection[Served]) -> int:
        if op in self.loops:
            return self.loops[op]
        if is_cut(op, self.target):
            return aligned(stored_bytes(op, served, self.target))
        if is_read_in_pieces(op, self.target):
            return 0
        rule = _RULES.get(op.defn)
        if rule is not None:
            return rule(self, op)
        return self._regions(op.regions, ()) if op.regions else 0


def _used_by(loop: Operation) -> int:
    """What the buffers take that were made in front of a loop and that it uses."""
    inside = set(loop.walk())
    used = {value: value.type for op in inside for value in op.inputs if value.op not in inside}
    return sum(aligned(ty.bytes) for ty in used.values() if isinstance(ty, Shared))


def _factors(op: Operation, served: Collection[Served]) -> int:
    """What the factors of a product take that are still to be stored."""
    kept = ((op, index) for index in stored_factors(op))
    return sum(factor_bytes(factor) for factor in kept if factor not in served)


def factor_bytes(factor: Factor) -> int:
    """What the buffer of a factor takes."""
    product, index = factor
    ty = product.inputs[index].type
    return aligned(math.prod(ty.shape) * ty.element.itemsize, FACTOR_ALIGNMENT)


_RULES: dict[OpDef, Callable[[Room, Operation], int]] = {
    convert_layout: lambda room, op: aligned(conversion_bytes(op, room.target)),
    exchange: lambda room, op: aligned(exchange_bytes(op, room.target)),
    control.call: lambda room, op: room.functions.get(op["callee"], 0),
}


def aligned(size: int, alignment: int = ALIGNMENT) -> int:
    """The size with what may have to be left free before it."""
    return -(-size // alignment) * alignment
