"""Find uses of a wgmma accumulator before the wait that completes it.

Waits are data dependences: an accumulator flows from its wgmma through a `group_wait` to its uses,
also across loops and branches. A forward dataflow analysis therefore finds every use without a
wait. It tracks, for each accumulator that may be in flight, its age: the fewest wgmmas that may
have started after its own. A wait that leaves more wgmmas pending than that does not complete it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tile.analysis.liveness import LOOPS
from tile.errors import ProductInFlightError
from tile.ir.core import Block, Module, Operation, Value
from tile.ir.ops import control
from tile.simt import ops

# For each accumulator in flight, the fewest wgmmas that have started since its own.
Ages = dict[Value, int]

_PASSING = frozenset({control.yield_, *LOOPS})


def check_accumulators(module: Module) -> None:
    """Raise `ProductInFlightError` for a use of an accumulator that is still in flight."""
    waits = [op["pending"] for op in module.walk() if op.defn is ops.group.group_wait]
    max_pending = max(waits, default=0)
    if any(op.defn is ops.group.group_dot for op in module.walk()):
        for function in module:
            _AgeAnalysis(max_pending).block(function.body, {})


class _AgeAnalysis:
    """The analysis of a function whose waits leave at most `max_pending` wgmmas in flight."""

    def __init__(self, max_pending: int) -> None:
        self.max_pending = max_pending

    def block(self, block: Block, ages: Ages) -> None:
        for op in block:
            self.check(op, ages)
            if op.defn is ops.group.group_dot:
                for value, age in ages.items():
                    ages[value] = min(age + 1, self.max_pending)
                ages[op.result] = 0
            elif op.defn is ops.group.group_wait:
                value = op.inputs[0]
                if value in ages and ages[value] < op["pending"]:
                    ages[op.result] = ages[value]
            elif op.defn in LOOPS:
                self.loop(op, ages)
            elif op.defn is control.if_:
                self.branch(op, ages)

    def check(self, op: Operation, ages: Ages) -> None:
        for index, value in enumerate(op.operands):
            if value is None or value not in ages or self.may_use(op, index):
                continue
            raise ProductInFlightError(
                f"`{op.name}` uses a wgmma accumulator before its group_wait",
                loc=op.loc,
                notes=[f"the value is {value}"],
            )

    def may_use(self, op: Operation, index: int) -> bool:
        if op.defn is ops.group.group_dot:
            return index == 2
        return op.defn is ops.group.group_wait or op.defn in _PASSING

    def loop(self, op: Operation, ages: Ages) -> None:
        """Iterate to a fixed point: ages only decrease, and values in flight only get more."""
        skipped = 3 if op.defn is control.for_ else 0
        carried = [ages.get(value) for value in op.inputs[skipped:]]
        while True:
            last_ends: list[
                int | None
            ] = []  # ages at the end of the last region, which is the body
            for region in op.regions:
                inner = dict(ages)
                args = region.args[1:] if op.defn is control.for_ else region.args
                _set(args, carried, inner)
                self.block(region, inner)
                last_ends = [inner.get(value) for value in _last(region).inputs]
            joined = _least(carried, last_ends)
            if joined == carried:
                break
            carried = joined
        _set(op.results, carried, ages)

    def branch(self, op: Operation, ages: Ages) -> None:
        ends = []
        for region in op.regions:
            inner = dict(ages)
            self.block(region, inner)
            ends.append([inner.get(value) for value in _last(region).inputs])
        _set(op.results, _least(*ends), ages)


def _last(region: Block) -> Operation:
    assert region.last is not None
    return region.last


def _set(values: Sequence[Value], ages: Sequence[int | None], into: Ages) -> None:
    for value, age in zip(values, ages, strict=False):
        if age is not None:
            into[value] = age


def _least(first: Sequence[int | None], second: Sequence[int | None]) -> list[int | None]:
    """Return the elementwise minimum; None, for a value not in flight, counts as infinite."""
    both = zip(first, second, strict=False)
    return [min((x for x in pair if x is not None), default=None) for pair in both]
