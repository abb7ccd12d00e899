"""The exit slice of a `while`: the state on which its end depends.

    %n, %t = while iter(%a = %x, %b = %zero) : i32, i32 {   // carried: 0 (%a), not 1 (%b)
      %more = cmp %a, %zero {predicate = gt} : i1           // reads: the load
      condition %more
    } do {
      %c = load %p {volatile = true} : i32
      %d = add %b, %one : i32
      yield %c, %d
    }

A loop whose exit slice comes back to what it was before runs forever: what it does besides, such as
counting its iterations, changes nothing about that. The slice is backward, through data and through
the conditions that decide whether an operation runs; operations that may stop the program
(`device_assert`) are exits too. Memory makes it larger in two steps, since a loop writes most often
where it does not read:

- `carried` and `reads` include the addresses and masks of all stores in the loop. While these stay
  as they are and no store meets what `reads` read, the stores have no influence.
- `stored_carried` and `stored_reads` include the values that are stored, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tile.ir.core import Block, Operation, Value
from tile.ir.opdef import Effect
from tile.ir.ops import control, debug, memory
from tile.ir.types import Shared

T = TypeVar("T")
ATOMICS = frozenset({memory.atomic_rmw, memory.atomic_cas})
# Accesses whose places and contents are known from their operands and results.
EXACT = ATOMICS | {memory.load, memory.store}
ACCESS = Effect.READ | Effect.WRITE


@dataclass(frozen=True)
class ExitSlice:
    """Positions of carried values, and operations that read memory; see the top of the file.

    `exact` says that all accesses of the loop are of the kinds in `EXACT`, and that it calls no
    function.
    """

    carried: tuple[int, ...]
    reads: frozenset[Operation]
    stored_carried: tuple[int, ...]
    stored_reads: frozenset[Operation]
    exact: bool

    def state(self, carried: Sequence[T]) -> dict[int, T]:
        """The values of the slice among all carried ones, by position."""
        return {position: carried[position] for position in self.stored_carried}


def exit_slice(loop: Operation) -> ExitSlice:
    """The exit slice of a `while`."""
    inside = [op for region in loop.regions for op in region.walk()]
    walk = _Slice(loop, inside)
    test = loop.regions[0]
    assert test.last is not None
    walk.need(test.last.inputs)
    for op in inside:
        if op.defn in (debug.device_assert, control.call):
            walk.whole(op)
    if walk.reads:
        for op in inside:
            if Effect.WRITE in op.defn.effect:
                walk.target(op)
    carried, reads = tuple(sorted(walk.carried)), frozenset(walk.reads)
    if reads:
        for op in inside:
            if Effect.WRITE in op.defn.effect:
                walk.whole(op)
    accesses = [op for op in inside if op.defn.effect & ACCESS]
    return ExitSlice(
        carried,
        reads,
        tuple(sorted(walk.carried)),
        frozenset(walk.reads),
        all(op.defn in EXACT for op in accesses),
    )


class _Slice:
    """Values of a loop that are needed, with all that they depend on."""

    def __init__(self, loop: Operation, inside: list[Operation]) -> None:
        self.loop = loop
        self.shared = [op for op in inside if Effect.SHARED in op.defn.effect]
        self.own: set[Block] = {*loop.regions, *(r for op in inside for r in op.regions)}
        self.values: set[Value] = set()
        self.ops: set[Operation] = set()
        self.carried: set[int] = set()
        self.reads: set[Operation] = set()

    def need(self, values: Iterable[Value]) -> None:
        """Take in values and all that they depend on inside the loop."""
        waiting = list(values)
        while waiting:
            value = waiting.pop()
            if value.block not in self.own or value in self.values:
                continue
            self.values.add(value)
            waiting += self.sources(value)

    def sources(self, value: Value) -> list[Value]:
        """The values on which a value depends directly."""
        if value.owner is self.loop.regions[0] or value.owner is self.loop.regions[1]:
            self.carried.add(value.index)
            return [_yielded(self.loop.regions[1])[value.index]]
        owner = value.owner
        op = owner if isinstance(owner, Operation) else owner.parent
        assert op is not None
        if not op.regions or op.defn.isolated:
            return self.operation(op)
        deciding = [*_deciding(op), *self.around(op)]
        first = 1 if op.defn is control.for_ else 0
        index = value.index if value.owner is op else value.index - first
        if index < 0:  # the count of a `for`
            return deciding
        if op.defn is not control.if_:
            deciding.append(op.inputs[len(op.defn.operands) + index])
        bodies = op.regions if op.defn is control.if_ else op.regions[-1:]
        return deciding + [_yielded(body)[index] for body in bodies]

    def operation(self, op: Operation) -> list[Value]:
        """Return the values that an operation needs to run as it does."""
        if op in self.ops:
            return []
        together = {op}
        if Effect.SHARED in op.defn.effect:
            together |= self.sharing(_buffers(op))
        self.ops |= together
        self.reads |= {other for other in together if other.defn.effect & Effect.READ}
        return [value for other in together for value in (*other.inputs, *self.around(other))]

    def sharing(self, buffers: set[Value]) -> set[Operation]:
        """The operations on buffers in shared memory, and on those from which they are copied."""
        ops: set[Operation] = set()
        count = -1
        while count < len(ops):
            count = len(ops)
            ops = {op for op in self.shared if not _buffers(op).isdisjoint(buffers)}
            buffers = buffers.union(*map(_buffers, ops))
        return ops

    def around(self, op: Operation) -> list[Value]:
        """Return the values that decide if, and how often, an operation runs in an iteration."""
        outer = op.parent
        values: list[Value] = []
        while outer is not None and outer is not self.loop:
            values += _deciding(outer)
            outer = outer.parent
        return values

    def whole(self, op: Operation) -> None:
        """Take in an operation."""
        self.need(self.operation(op))

    def target(self, op: Operation) -> None:
        """Take in where an operation writes, and whether it does."""
        if op.defn not in EXACT:
            self.whole(op)
            return
        mask = op["mask"]
        self.need([op["ptr"], *([] if mask is None else [mask]), *self.around(op)])


def _deciding(op: Operation) -> list[Value]:
    """The values by which an operation with regions decides which of them run, and how often."""
    if op.defn is control.while_:
        assert op.regions[0].last is not None
        return op.regions[0].last.inputs
    return op.inputs[: len(op.defn.operands)]


def _buffers(op: Operation) -> set[Value]:
    """The buffers in shared memory that an operation accesses."""
    found: set[Value] = set()
    waiting = [value for value in op.inputs if isinstance(value.type, Shared)]
    while waiting:
        value = waiting.pop()
        views = [] if value.op is None else value.op.inputs
        outer = [view for view in views if isinstance(view.type, Shared)]
        waiting += outer
        if not outer:
            found.add(value)
    return found


def _yielded(region: Block) -> list[Value]:
    assert region.last is not None
    return region.last.inputs
