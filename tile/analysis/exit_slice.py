"""The exit slice of a `while`: the state on which its termination depends.

    %n, %t = while iter(%a = %x, %b = %zero) : i32, i32 {   // carried: 0 (%a), not 1 (%b)
      %more = cmp %a, %zero {predicate = gt} : i1           // reads: the load
      condition %more
    } do {
      %c = load %p {volatile = true} : i32
      %d = add %b, %one : i32
      yield %c, %d
    }

A loop whose exit slice returns to an earlier state runs forever: its other effects, such as
counting iterations, have no influence. The slice is a backward slice, through data dependences and
through the conditions that control whether an operation runs; operations that may stop the program
(`device_assert`) are exits too. Memory extends the slice in two steps, since loops rarely write
what they read:

- `carried` and `reads` include the addresses and masks of all stores in the loop. While these are
  unchanged and no store aliases what `reads` read, the stores have no influence.
- `stored_carried` and `stored_reads` also include the stored values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tile.ir.core import Block, Operation, Value
from tile.ir.effects import accesses_global
from tile.ir.op_definition import Effect
from tile.ir.ops import control, debug, program
from tile.ir.shared_type import Shared

T = TypeVar("T")
ACCESS = Effect.READ | Effect.WRITE


@dataclass(frozen=True)
class ExitSlice:
    """Positions of carried values, and operations that read memory; see the module docstring.

    `exact` is True if the addresses and contents of all accesses of the loop follow from their
    operands and results, and it calls no function. `timed` is True if the end of the loop depends
    on the time, so that the same state may end in one iteration and not in another.
    """

    carried: tuple[int, ...]
    reads: frozenset[Operation]
    stored_carried: tuple[int, ...]
    stored_reads: frozenset[Operation]
    exact: bool
    timed: bool = False

    def state(self, carried: Sequence[T]) -> dict[int, T]:
        """Return the carried values that belong to the slice, by position."""
        return {position: carried[position] for position in self.stored_carried}


def exit_slice(loop: Operation) -> ExitSlice:
    """Return the exit slice of a `while`."""
    walk = LoopSlice(loop)
    inside = walk.inside
    walk.need(loop.regions[0].yielded)
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
        all(map(accesses_global, accesses)),
        timed=any(op.defn is program.global_timer for op in walk.ops),
    )


class LoopSlice:
    """A backward slice of a `while`, as values, operations, carried positions and reads."""

    def __init__(self, loop: Operation) -> None:
        self.loop = loop
        self.inside = [op for region in loop.regions for op in region.walk()]
        self.shared = [op for op in self.inside if Effect.SHARED in op.defn.effect]
        self.own: set[Block] = {*loop.regions, *(r for op in self.inside for r in op.regions)}
        self.values: set[Value] = set()
        self.ops: set[Operation] = set()
        self.carried: set[int] = set()
        self.reads: set[Operation] = set()

    def need(self, values: Iterable[Value]) -> None:
        """Add values and their dependences inside the loop."""
        worklist = list(values)
        while worklist:
            value = worklist.pop()
            if value.block not in self.own or value in self.values:
                continue
            self.values.add(value)
            worklist += self.sources(value)

    def following(self, value: Value) -> Value | None:
        """Return the value that the body yields for an argument of one of the loop's regions."""
        return (
            self.loop.regions[1].yielded[value.index] if value.owner in self.loop.regions else None
        )

    def sources(self, value: Value) -> list[Value]:
        """Return the values on which a value depends directly."""
        following = self.following(value)
        if following is not None:
            self.carried.add(value.index)
            return [following]
        owner = value.owner
        op = owner if isinstance(owner, Operation) else owner.parent
        assert op is not None
        if not op.regions or op.defn.isolated:
            return self.operation(op)
        sources = [*_controlling(op), *self.control_dependences(op)]
        index = control.carried_position(value)
        if index is None:
            return sources
        if op.defn is not control.if_:
            sources.append(op.inputs[len(op.defn.operands) + index])
        bodies = op.regions if op.defn is control.if_ else op.regions[-1:]
        return sources + [body.yielded[index] for body in bodies]

    def operation(self, op: Operation) -> list[Value]:
        """Add an operation and return its data and control dependences."""
        if op in self.ops:
            return []
        added = {op}
        if Effect.SHARED in op.defn.effect:
            added |= self.sharing(_buffers(op))
        self.ops |= added
        self.reads |= {other for other in added if other.defn.effect & Effect.READ}
        return [
            value for other in added for value in (*other.inputs, *self.control_dependences(other))
        ]

    def sharing(self, buffers: set[Value]) -> set[Operation]:
        """Return the operations on shared-memory buffers and on buffers copied to them."""
        ops: set[Operation] = set()
        count = -1
        while count < len(ops):
            count = len(ops)
            ops = {op for op in self.shared if not _buffers(op).isdisjoint(buffers)}
            buffers = buffers.union(*map(_buffers, ops))
        return ops

    def control_dependences(self, op: Operation) -> list[Value]:
        """Return the values that control if, and how often, an operation runs in an iteration."""
        outer = op.parent
        values: list[Value] = []
        while outer is not None and outer is not self.loop:
            values += _controlling(outer)
            outer = outer.parent
        return values

    def whole(self, op: Operation) -> None:
        """Add an operation with all of its dependences."""
        self.need(self.operation(op))

    def target(self, op: Operation) -> None:
        """Add the address and mask of a write, and its control dependences."""
        if not accesses_global(op):
            self.whole(op)
            return
        mask = op["mask"]
        self.need([op["ptr"], *([] if mask is None else [mask]), *self.control_dependences(op)])


def _controlling(op: Operation) -> list[Value]:
    """Return the values that control which regions of an operation run, and how often."""
    if op.defn is control.while_:
        return op.regions[0].yielded
    return op.inputs[: len(op.defn.operands)]


def _buffers(op: Operation) -> set[Value]:
    """Return the shared-memory buffers that an operation accesses, possibly through subviews."""
    buffers: set[Value] = set()
    worklist = [value for value in op.inputs if isinstance(value.type, Shared)]
    while worklist:
        value = worklist.pop()
        operands = [] if value.op is None else value.op.inputs
        sources = [operand for operand in operands if isinstance(operand.type, Shared)]
        worklist += sources
        if not sources:
            buffers.add(value)
    return buffers
