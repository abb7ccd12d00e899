"""Warnings about spin loops on plain loads, which may never observe other programs' writes.

    %v = while iter(%a = %x) : i32 {           // the exit depends on %a, which is %b of the last
      %t = cmp %a, %zero {predicate = eq} : i1 // iteration, and %b depends only on a load whose
      condition %t                             // address is the same in every iteration
    } do {
      %b = load %p : i32
      yield %b
    }

A load that is not volatile may be hoisted out of the loop, or served by a cache that is not
coherent. The loop is a spin loop if a comparison that controls its exit depends on such loads and
on no other value that changes while the loop runs: `while i < load(n)` reads a bound and does not
wait.
"""

from __future__ import annotations

from collections.abc import Iterator

from tile.analysis.alias import Alias, module_aliases
from tile.ir.core import Block, Operation, Value
from tile.ir.effects import is_pure
from tile.ir.module import Module
from tile.ir.ops import arith, control, memory
from tile.ir.ops.memory import CacheModifier
from tile.ir.passes import module_pass
from tile.ir.types import I1
from tile.tracebacks import warn

LOGIC = frozenset({arith.and_, arith.or_, arith.xor, arith.not_, arith.select})


@module_pass("warn-spin-loops")
def warn_spin_loops(module: Module) -> None:
    """Warn about loops that wait for another program by a plain load.

    The IR is unchanged. A load that is not volatile may be hoisted, or served by a cache that is
    not coherent with the writes of other multiprocessors.

        while {
          %v = load %flag : i32          // warning: volatile=True, or an atomic operation
          %t = cmp %v, %zero {predicate = eq} : i1
          condition %t
        } do {
          yield
        }
    """
    for loop, load in spin_loops(module):
        warn(
            "a GPU may never observe the change that this loop waits for: it reads by a plain "
            f"load, at {load.loc}, which may be hoisted out of the loop; read by "
            "tl.load(..., volatile=True), or by an atomic operation such as tl.atomic_add(ptr, 0), "
            "which also orders the accesses after it",
            loop.loc,
        )


def spin_loops(module: Module) -> Iterator[tuple[Operation, Operation]]:
    """Yield the `while` loops that spin on plain loads, each with its first such load."""
    if not any(op.defn is control.while_ for op in module.walk()):
        return
    aliases = module_aliases(module)
    for function in module:
        for op in function.walk():
            if op.defn is control.while_:
                load = _ExitDependences(op, aliases[function.name]).load()
                if load is not None:
                    yield op, load


class _ExitDependences:
    """The values and memory on which the exits of one loop depend."""

    def __init__(self, loop: Operation, alias: Alias) -> None:
        self.loop = loop
        self.alias = alias
        inside = [op for region in loop.regions for op in region.walk()]
        self.own: set[Block] = {*loop.regions, *(r for op in inside for r in op.regions)}
        self.written = [alias.written(op) for op in inside]

    def load(self) -> Operation | None:
        """Return a plain load on which the loop spins, or None."""
        for value in self.exit_conditions():
            values = self.closure(value)
            if values is None or any(self.counts(value) for value in values):
                continue
            loads = [v.op for v in values if v.op is not None and v.op.defn is memory.load]
            if loads:
                return loads[0]
        return None

    def exit_conditions(self) -> Iterator[Value]:
        """Yield the conditions that control the exit: operands of the test's boolean logic."""
        worklist, seen = list(self.loop.regions[0].yielded), set[Value]()
        while worklist:
            value = worklist.pop()
            if value in seen or value.type != I1 or value.block not in self.own:
                continue
            seen.add(value)
            op = value.op
            following = self.following(value) if op is None else None
            if following is not None:
                worklist.append(following)
            elif op is not None and op.defn in LOGIC:
                worklist += op.inputs
            elif op is not None and op.defn is control.if_:
                worklist += [op.inputs[0], *(region.yielded[value.index] for region in op.regions)]
            else:
                yield value

    def closure(self, value: Value) -> list[Value] | None:
        """Return all values on which a value depends inside the loop.

        None if these include anything but pure operations, plain loads and carried values.
        """
        worklist, seen = [value], dict[Value, None]()
        while worklist:
            value = worklist.pop()
            if value in seen or value.block not in self.own:
                continue
            seen[value] = None
            sources = self.sources(value)
            if sources is None:
                return None
            worklist += sources
        return list(seen)

    def sources(self, value: Value) -> list[Value] | None:
        op = value.op
        if op is None:
            following = self.following(value)
            return None if following is None else [following]
        if op.defn is control.if_:
            return [op.inputs[0], *(region.yielded[value.index] for region in op.regions)]
        if self.is_plain(op) or (is_pure(op) and (op.defn.isolated or not op.regions)):
            return op.inputs
        return None

    def counts(self, value: Value) -> bool:
        """Return True for a carried value that is computed from itself in each iteration."""
        following = None if value.op is not None else self.following(value)
        if following is None or following is value:
            return False
        return value in (self.closure(following) or ())

    def is_plain(self, op: Operation) -> bool:
        """Return True for a load that need not observe writes of other programs.

        The loop itself must not write the loaded memory either.
        """
        if op.defn is not memory.load or op["volatile"] or op["cache"] is CacheModifier.CV:
            return False
        read = self.alias.with_aliases(self.alias.of(op["ptr"]))
        return not any(read.may_alias(self.alias.with_aliases(written)) for written in self.written)

    def following(self, value: Value) -> Value | None:
        """Return the value that the body yields for an argument of one of the loop's regions."""
        if value.owner is self.loop.regions[0] or value.owner is self.loop.regions[1]:
            return self.loop.regions[1].yielded[value.index]
        return None
