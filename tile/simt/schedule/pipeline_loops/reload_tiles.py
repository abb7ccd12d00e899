"""Read tiles of an iteration from their buffers again where registers are short.

Threads that reduce a row wait for each other. Meanwhile, what they have computed of the row and use
again takes registers. Where it is computed from tiles that copies have brought to shared memory, it
is computed again behind the wait:

    %x = local_load %s                      %x = local_load %s
    %y = mul %x, %x                         %y = mul %x, %x
    %t = reduce_region %y                   %t = reduce_region %y
    %u = convert_layout %t                  %u = convert_layout %t
    %v = reduce_region %u                   %v = reduce_region %u
                                            %x_1 = local_load %s
    %z = sub %x, %v                         %z = sub %x_1, %v

The stage of an iteration is not filled anew before the next one's wait, so that all operations of
the iteration can read it.
"""

from __future__ import annotations

from functools import cached_property

from tile.ir.core import Block, Operation, Value, clone
from tile.ir.effects import is_pure
from tile.ir.ops import arith, shape
from tile.simt.memory.expose_shared import shared_conversion
from tile.simt.ops import shared
from tile.simt.ops.layout import convert_layout
from tile.simt.schedule.resources import tile_registers
from tile.simt.target import SimtTarget

_REPEATED = frozenset({shape.broadcast, shape.expand_dims, shape.splat})


def reload_tiles(body: Block, target: SimtTarget) -> None:
    """Compute tiles of a loop's body anew behind its waits, from the buffers that it reads."""
    _Reloading(body, target).run()


def is_read_again(load: Operation, target: SimtTarget) -> bool:
    """Return True if what is computed of a loaded tile would be, were it in a buffer.

    Not for a tile that is used behind a wait alone: that was loaded early, which takes registers.
    """
    assert load.block is not None
    reloading = _Reloading(load.block, target, load)
    first = next((op for op in reloading.ops if load.result in op.inputs), None)
    if first is None or reloading.waits[first] > reloading.waits[load]:
        return False
    uses = ((value, op) for op in reloading.ops for value in op.inputs)
    return any(
        reloading.is_held(value, op) and value.op is not None and reloading.is_cheap(value)
        for value, op in uses
        if value.block is load.block and reloading.cost(value)
    )


class _Reloading:
    """The operations of a body, and the values that are computed again for them.

    source: an operation that loads a tile as if from a buffer.
    """

    def __init__(self, body: Block, target: SimtTarget, source: Operation | None = None) -> None:
        self.body, self.target, self.source = body, target, source
        self.ops = list(body)
        self.costs: dict[Value, int | None] = {}
        self.copies: dict[tuple[Value, int], Value] = {}

    def run(self) -> None:
        for op in self.ops:
            for index, value in enumerate(op.operands):
                if value is not None and self.is_held(value, op) and self.is_cheap(value):
                    op.set_operand(index, self.copy(value, op, self.waits[op]))

    @cached_property
    def waits(self) -> dict[Operation, int]:
        """The number of waits in front of each operation.

        Conversions through shared memory that do not depend on each other are one wait: the last.
        """
        last: list[Operation] = []
        behind: set[Value] = set()
        for op in self.ops:
            depends = not behind.isdisjoint(op.inputs)
            if op.defn is convert_layout and shared_conversion(op, self.target) is not None:
                if depends or not last:
                    last.append(op)
                    behind = set()
                last[-1] = op
                behind.update(op.results)
            elif depends:
                behind.update(op.results)
        waits, count = {}, 0
        for op in self.ops:
            waits[op] = count
            count += op in last
        return waits

    def is_held(self, value: Value, op: Operation) -> bool:
        """Return True if a tile takes registers until an operation, for what computes it again.

        It is computed before a wait that is in front of the operation, or is a float of the
        loop's operands that is widened before the loop.
        """
        made = value.op
        if made is None or tile_registers(value) <= 1:
            return False
        if made.block is not self.body:
            return _is_widened(made)
        return self.waits[made] < self.waits[op]

    def is_cheap(self, value: Value) -> bool:
        cost = self.cost(value)
        return cost is not None and cost <= self.target.tuning.recomputed_ops

    def cost(self, value: Value) -> int | None:
        """Return what it takes to compute an element again; None if that is not possible.

        Values that take no more than a register are held.
        """
        op = value.op
        if op is None or op.block is not self.body or tile_registers(value) <= 1:
            return 0
        if value not in self.costs:
            self.costs[value] = None
            if op.defn is shared.local_load or op is self.source:
                self.costs[value] = 1
            elif is_pure(op) and (op.defn.elementwise or op.defn in _REPEATED):
                parts = [self.cost(operand) for operand in op.inputs]
                if None not in parts:
                    own = 0 if op.defn in _REPEATED else self.target.tuning.op_cost(op)
                    self.costs[value] = own + sum(part for part in parts if part is not None)
        return self.costs[value]

    def copy(self, value: Value, before: Operation, wait: int) -> Value:
        """Return a tile computed again behind a wait, in front of an operation or earlier."""
        op = value.op
        if not self.is_held(value, before):
            return value
        assert op is not None
        if (value, wait) not in self.copies:
            operands = {operand: self.copy(operand, before, wait) for operand in op.inputs}
            new = self.body.insert(clone(op, operands), before)
            self.waits[new] = wait
            self.copies[value, wait] = new.result
        return self.copies[value, wait]


def _is_widened(op: Operation) -> bool:
    """Return True for a cast of floats to wider ones, which take more registers."""
    if op.defn is not arith.cast or not op.inputs[0].type.element.is_floating():
        return False
    return tile_registers(op.inputs[0]) < tile_registers(op.result)
