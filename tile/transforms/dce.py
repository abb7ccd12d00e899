"""Dead code elimination."""

from __future__ import annotations

from collections.abc import Iterable

from tile.analysis.call_graph import CallGraph
from tile.ir.core import Block, Function, Operation, Value
from tile.ir.effects import ends, is_removable
from tile.ir.module import Module
from tile.ir.op_definition import Trait
from tile.ir.ops import control
from tile.ir.passes import module_pass
from tile.transforms.region_utils import first_carried, shrink, stop_passing


@module_pass("dce", before=None)
def dce(module: Module) -> None:
    """Remove dead operations, dead results and carried values, and functions that are not called.

    Liveness starts at observable effects: stores, prints, a function's results. A carried value
    that only computes its own next value is therefore dead. In a module with kernels, functions
    that no kernel calls are removed. A loop that is not proven to end is live, with the values that
    control its exit: what follows must not run before it ends.

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
    """Remove the functions that no kernel calls, directly or indirectly, and unused declarations.

    A module without kernels keeps all functions that it defines.
    """
    if module.kernels and len(module.functions) > 1:
        used = CallGraph(module).reachable(module.kernels)
        for function in module:
            if function not in used:
                del module.functions[function.name]
    if module.declarations:
        called = {op["callee"] for op in module.walk() if op.defn is control.call}
        for name in module.declarations.keys() - called:
            del module.declarations[name]


def remove_dead(function: Function) -> None:
    """Remove the dead operations and values of a function."""
    live = _Live()
    live.block(function.body)
    live.propagate()
    _sweep(function.body, live)


def retain(block: Block, roots: Iterable[Operation]) -> None:
    """Remove all operations of a block except `roots` and those that these depend on.

    Operations with effects are removed, too.
    """
    live = _Live()
    for op in roots:
        live.mark(op)
    live.propagate()
    _sweep(block, live)


def dependences(
    values: Iterable[Value], ops: Iterable[Operation]
) -> tuple[set[Operation], set[Value]]:
    """Return the operations and values that some values depend on, and if and how often `ops` run.

    Each is one of these itself.
    """
    live = _Live()
    for op in ops:
        live.mark(op)
    live.need(values)
    live.propagate()
    return live.ops, live.values


class _Live:
    """The operations and values on which observable effects depend."""

    def __init__(self) -> None:
        self.ops: set[Operation] = set()
        self.values: set[Value] = set()
        self.worklist: list[Value] = []

    def block(self, block: Block) -> None:
        """Mark the observable operations of a block and of nested regions."""
        for op in block:
            if op.defn.isolated:  # pure, whatever it calls
                continue
            if op.regions:
                if op.has_trait(Trait.LOOP) and not ends(op):
                    self.mark(op)
                for region in op.regions:
                    self.block(region)
            elif op.defn is control.return_ or not (op.defn.terminator or is_removable(op)):
                self.mark(op)

    def mark(self, op: Operation) -> None:
        """Mark an operation, its parents, and the values that control if and how often they run."""
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
        """Mark all operands and results of a combining operation; each may depend on any other."""
        self.need([*op.inputs, *op.results])
        for region in op.regions:
            self.need(region.args)
            if region.last is not None:
                self.need(region.last.inputs)

    def need(self, values: Iterable[Value]) -> None:
        for value in values:
            if value not in self.values:
                self.values.add(value)
                self.worklist.append(value)

    def propagate(self) -> None:
        while self.worklist:
            value = self.worklist.pop()
            owner = value.owner
            op = owner if isinstance(owner, Operation) else owner.parent
            if op is None:  # a parameter
                continue
            self.mark(op)
            if op.regions and not op.defn.isolated:
                self.carried(op, value)

    def carried(self, op: Operation, value: Value) -> None:
        """Mark a result or carried value in all regions of the operation."""
        index, first = control.carried_position(value), first_carried(op)
        if index is None:
            return
        if op.defn.variadic is not None:
            self.need([op.inputs[len(op.defn.operands) + index]])
        for region in op.regions:
            self.need(region.args[first + index : first + index + 1])
            if region.last is not None and region.last.defn is control.yield_:
                self.need([region.last.inputs[index]])
        self.need([op.results[index]])


def _sweep(block: Block, live: _Live) -> None:
    """Erase dead operations, users first. The block's terminator has only live operands."""
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
