"""Carry values through loops in a second layout, where that costs less than conversions.

A loop that carries indices, such as the rows of its next block, often uses them in several layouts:
for the addresses of tiles, of vectors, and for masks. An index is computed in each of them:

    for .. iter(%a = %x) : #a {               %y = convert_layout %x : #b
      %m = cmp %a, %n : #a                    for .. iter(%a = %x, %b = %y) : #a, #b {
      %c = convert_layout %m : #b               %c = cmp %b, %o : #b
      ..                                        ..
      %s = add %a, %t : #a                      %s = add %a, %t : #a
                                                %r = add %b, %u : #b
      yield %s                                  yield %s, %r
    }                                         }
"""

from __future__ import annotations

from collections.abc import Iterable

from tile.ir.core import Function, Operation, Value
from tile.ir.ops import control
from tile.ir.types import Tile
from tile.simt.assign.layout_cost import RematerializationPlan, conversion_cost
from tile.simt.layouts.dims import REGISTER
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.ops.layout import convert_layout
from tile.simt.ops.layout_inference import is_flexible, layout_of, operand_layout, tile_type
from tile.simt.tuning import TuningConstants
from tile.transforms.region_utils import add_loop_carried

Key = tuple[Value, LinearLayout]


def duplicate_carried(function: Function, tuning: TuningConstants) -> bool:
    """Replace conversions in loops by loop-carried values; return True if there was one."""
    loops = [op for op in function.walk() if op.defn is control.for_]
    changed = [_Loop(loop, tuning).run() for loop in loops]
    return any(changed)


class _Loop:
    """A loop, and the loop-carried values that are copies of others in other layouts."""

    def __init__(self, loop: Operation, tuning: TuningConstants) -> None:
        self.loop = loop
        self.tuning = tuning
        (self.body,) = loop.regions
        self.copies: dict[Key, Value] = {}

    def run(self) -> bool:
        """Replace the conversions of the body that cost more; return True if there was one."""
        changed = False
        for op in [op for op in self.body if op.defn is convert_layout]:
            keys = self._carried(op.inputs[0], layout_of(op.result))
            if keys:
                changed |= self._replace(op, keys)
        return changed

    def _carried(self, value: Value, layout: LinearLayout) -> set[Key]:
        """Return what a value would be computed from in a layout, of what the loop carries."""
        keys: set[Key] = set()
        worklist, seen = [(value, layout)], 0
        while worklist and seen < self.tuning.rematerialized_ops:
            value, layout = worklist.pop()
            op = value.op
            if value.block is not self.body or layout_of(value) == layout:
                continue
            seen += 1
            if op is None:
                keys.add((value, layout))
            elif op.defn is convert_layout:
                worklist.append((op.inputs[0], layout))
            elif is_flexible(op):
                taken = operand_layout(op, layout)
                worklist += [(x, taken) for x in op.inputs if isinstance(x.type, Tile)]
        return keys

    def _replace(self, op: Operation, keys: set[Key]) -> bool:
        """Compute the result of a conversion in its layout if that costs less."""
        value, layout = op.inputs[0], layout_of(op.result)
        new = [_Copy(self, key) for key in keys if key not in self.copies]
        plan = self.plan({*self.copies, *keys}, op)
        cost = self.tuning.loop_weight * plan.cost(value, layout) + sum(copy.cost for copy in new)
        conversion = conversion_cost(tile_type(value), layout_of(value), layout, self.tuning)
        if cost >= self.tuning.loop_weight * conversion:
            return False
        for copy in new:
            self.copies[copy.key] = copy.make()
        plan.made.update(self.copies)
        op.replace_by([plan.make(value, layout)])
        return True

    def plan(self, keys: Iterable[Key], instead: Operation | None = None) -> RematerializationPlan:
        """Return a plan for the body, where the loop carries these values."""
        return RematerializationPlan(self.tuning, self.body, instead, frozenset(keys))


class _Copy:
    """A loop-carried value in a second layout, not yet made."""

    def __init__(self, parent: _Loop, key: Key) -> None:
        self.parent = parent
        self.key = key
        value, layout = key
        loop, tuning = parent.loop, parent.tuning
        assert loop.block is not None
        self.yielded = parent.body.yielded[value.index - 1]
        self.init = loop.inputs[2 + value.index]
        self.next = parent.plan([*parent.copies, key])
        self.before = RematerializationPlan(tuning, loop.block)
        self.cost = self.before.cost(self.init, layout)
        self.cost += tuning.loop_weight * self.next.cost(self.yielded, layout)
        registers = tile_type(value).of.bytes_of(1 << layout.in_bits(REGISTER)) // 4
        if registers > tuning.replicated_registers:
            self.cost = float("inf")

    def make(self) -> Value:
        """Add the value to the loop."""
        layout = self.key[1]

        def advance(args: list[Value]) -> list[Value]:
            self.next.made.update({**self.parent.copies, self.key: args[0]})
            return [self.next.make(self.yielded, layout)]

        init = self.before.make(self.init, layout)
        (arg,) = add_loop_carried(self.parent.loop, [init], advance)
        return arg
