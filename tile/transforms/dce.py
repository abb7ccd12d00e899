"""Dead code elimination."""

from __future__ import annotations

from collections.abc import Iterable

from tile.analysis.call_graph import CallGraph
from tile.ir.core import Block, Function, Module, Operation, Value
from tile.ir.effects import is_removable
from tile.ir.ops import control
from tile.ir.passes import module_pass
from tile.ir.termination import LOOPS, ends
from tile.transforms.regions import shrink, stop_passing


@module_pass("dce", before=None)
def dce(module: Module) -> None:
    """Remove operations that nothing depends on, values nobody needs, and functions not called.

    What counts is found from what is observable: stores, prints, what a function returns. So a
    value that a loop carries only to compute its own next round goes, too. A module with kernels
    keeps those and the functions they call. A loop that is not proven to end is kept, with what
    decides when it ends: what follows must not run before.

        %d = mul %x, %x : f32                                    store %p, %x
        %r = for %i = %a to %b step %c iter(%k = %x) : f32 {
          %k2 = add %k, %x : f32
          yield %k2
        }
        store %p, %x
    """
    remove_uncalled(module)
    for function in module:
        remove_dead(function)


def remove_uncalled(module: Module) -> None:
    """Remove the functions that no kernel calls, directly or not.

    None, where there is no kernel.
    """
    if module.kernels:
        used = CallGraph(module).reachable(module.kernels)
        for function in module:
            if function not in used:
                del module.functions[function.name]


def remove_dead(function: Function) -> None:
    """Remove what a function computes for nobody."""
    live = _Live()
    live.block(function.body)
    live.spread()
    _sweep(function.body, live)


class _Live:
    """The operations and values that something observable depends on."""

    def __init__(self) -> None:
        self.ops: set[Operation] = set()
        self.values: set[Value] = set()
        self.waiting: list[Value] = []

    def block(self, block: Block) -> None:
        """Start from what is observable in a block and the regions inside."""
        for op in block:
            if op.defn.isolated:  # which is pure, whatever it calls
                continue
            if op.regions:
                if op.defn in LOOPS and not ends(op):
                    self.mark(op)
                for region in op.regions:
                    self.block(region)
            elif op.defn is control.return_ or not (op.defn.terminator or is_removable(op)):
                self.mark(op)

    def mark(self, op: Operation) -> None:
        """Keep an operation, those around it, and what decides whether and how often they run."""
        if op in self.ops:
            return
        self.ops.add(op)
        self.need(op.inputs[: len(op.defn.operands)] if op.regions else op.inputs)
        if op.defn.isolated:
            self.whole(op)
        for region in op.regions:
            if region.last is not None and region.last.defn is control.condition:
                self.mark(region.last)
        if op.parent is not None:
            self.mark(op.parent)

    def whole(self, op: Operation) -> None:
        """Keep all that a combining operation takes and gives: any part may decide on another."""
        self.need([*op.inputs, *op.results])
        for region in op.regions:
            self.need(region.args)
            if region.last is not None:
                self.need(region.last.inputs)

    def need(self, values: Iterable[Value]) -> None:
        for value in values:
            if value not in self.values:
                self.values.add(value)
                self.waiting.append(value)

    def spread(self) -> None:
        while self.waiting:
            value = self.waiting.pop()
            owner = value.owner
            op = owner if isinstance(owner, Operation) else owner.parent
            if op is None:  # a parameter
                continue
            self.mark(op)
            if op.regions and not op.defn.isolated:
                self.carried(op, value)

    def carried(self, op: Operation, value: Value) -> None:
        """A value that goes through regions: all places where it does are needed."""
        first = 1 if op.defn is control.for_ else 0
        index = value.index if value.owner is op else value.index - first
        if index < 0:  # the count of a `for`
            return
        fixed = len(op.defn.operands)
        if op.defn.variadic is not None:
            self.need([op.inputs[fixed + index]])
        for region in op.regions:
            self.need(region.args[first + index : first + index + 1])
            if region.last is not None and region.last.defn is control.yield_:
                self.need([region.last.inputs[index]])
        self.need([op.results[index]])


def _sweep(block: Block, live: _Live) -> None:
    """Erase what is not live, users first. The block's terminator passes on nothing that is not."""
    for op in reversed(list(block)):
        if op.defn.terminator:
            continue
        if op not in live.ops:
            op.erase()
        elif op.regions:
            dropped = [i for i, value in enumerate(op.results) if value not in live.values]
            stop_passing(op, dropped)
            for region in op.regions:
                _sweep(region, live)
            shrink(op, dropped)
