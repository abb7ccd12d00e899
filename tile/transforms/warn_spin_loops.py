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

from collections.abc import Iterator, Sequence

from tile.analysis.alias import Alias, module_aliases
from tile.analysis.exit_slice import LoopSlice
from tile.ir.core import Operation, Value
from tile.ir.effects import is_plain_load, is_pure
from tile.ir.module import Module
from tile.ir.ops import arith, control
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
        self.whole = LoopSlice(loop)
        self.written = [alias.written(op) for op in self.whole.inside]

    def load(self) -> Operation | None:
        """Return a plain load on which the loop spins, or None."""
        for condition in self.conditions():
            part = self.slice([condition])
            alone = all(op in part.reads or is_pure(op) for op in part.ops)
            if alone and all(map(self.is_plain, part.reads)) and not self.counts(part):
                for op in self.whole.inside:
                    if op in part.reads:
                        return op
        return None

    def slice(self, values: Sequence[Value]) -> LoopSlice:
        """Return what values depend on inside the loop."""
        part = LoopSlice(self.loop)
        part.need(values)
        return part

    def conditions(self) -> Iterator[Value]:
        """Yield the conditions that control the exit: operands of the test's boolean logic."""
        worklist, seen = list(self.loop.regions[0].yielded), set[Value]()
        while worklist:
            value = worklist.pop()
            if value in seen or value.type != I1 or value.block not in self.whole.own:
                continue
            seen.add(value)
            op = value.op
            following = self.whole.following(value)
            if following is not None:
                worklist.append(following)
            elif op is not None and op.defn in LOGIC:
                worklist += op.inputs
            elif op is not None and op.defn is control.if_:
                worklist += [op.inputs[0], *(region.yielded[value.index] for region in op.regions)]
            else:
                yield value

    def counts(self, part: LoopSlice) -> bool:
        """Return True if a slice carries a value that each iteration computes from its last one."""
        body = self.loop.regions[1]
        return any(
            at in self.slice([body.yielded[at]]).carried
            for at in part.carried
            if body.yielded[at] is not body.args[at]
        )

    def is_plain(self, op: Operation) -> bool:
        """Return True for a load that need not observe writes of other programs.

        The loop itself must not write the loaded memory either.
        """
        if not is_plain_load(op):
            return False
        read = self.alias.with_aliases(self.alias.of(op["ptr"]))
        return not any(read.may_alias(self.alias.with_aliases(written)) for written in self.written)
