"""Backward slices of addresses, which run some iterations ahead of their loop.

The *backward slice* of some values are the pure operations of the loop's body that they are
computed from, the loop-carried values that go into these, and the operations that compute those
for the next iteration. One clone of it runs in the prologue, for the first iterations. Another one
runs in the loop, `distance` iterations ahead, with loop-carried values of its own.

The loads for an iteration that may not exist are here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from tile.ir.core import Operation, Trait, Value, clone
from tile.ir.effects import is_pure
from tile.ir.ops import arith, memory, shape
from tile.simt.ops.layout_inference import LayoutBuilder, layout_of
from tile.simt.schedule.pipeline_loops.trip_count import TripCount


@dataclass(frozen=True)
class BackwardSlice:
    """Operations of a loop's body, in order.

    carried: positions of the loop-carried values that go into them.
    """

    loop: Operation
    ops: tuple[Operation, ...]
    carried: tuple[int, ...]

    def clone_at(
        self, build: LayoutBuilder, index: Value, carried: Sequence[Value]
    ) -> dict[Value, Value]:
        """Clone the slice for the iteration of induction variable `index`.

        carried: the values of the slice's loop-carried values in that iteration.
        Returns the clone of each value of the body.
        """
        (body,) = self.loop.regions
        mapping = {body.args[0]: index}
        for position, value in zip(self.carried, carried, strict=True):
            mapping[body.args[1 + position]] = value
        for op in self.ops:
            build.block.insert(clone(op, mapping), build.anchor)
        return mapping

    def next_carried(self, mapping: dict[Value, Value]) -> list[Value]:
        """Return the loop-carried values of the iteration after that of `mapping`."""
        yielded = self.loop.regions[0].yielded
        return [mapping.get(yielded[position], yielded[position]) for position in self.carried]


def backward_slice(loop: Operation, values: Iterable[Value]) -> BackwardSlice | None:
    """Return the backward slice of some values that a loop's body uses.

    None if they depend on something that cannot be computed iterations ahead.
    """
    (body,) = loop.regions
    yielded = body.yielded
    ops: set[Operation] = set()
    carried: set[int] = set()
    worklist = list(values)
    while worklist:
        value = worklist.pop()
        if value.owner is body:
            position = value.index - 1
            if position >= 0 and position not in carried:
                carried.add(position)
                worklist.append(yielded[position])
            continue
        op = value.op
        if op is None or op.block is not body or op in ops:
            continue
        if not is_pure(op) or any(_is_single(nested) for nested in op.walk()):
            return None
        ops.add(op)
        for nested in op.walk():
            worklist.extend(nested.inputs)
    in_order = tuple(op for op in body if op in ops)
    return BackwardSlice(loop, in_order, tuple(sorted(carried)))


def add_loop_carried(
    loop: Operation, inits: Sequence[Value], advance: Callable[[list[Value]], Sequence[Value]]
) -> list[Value]:
    """Add loop-carried values to a loop, and return them as arguments of its body.

    inits: the values of the first iteration.
    advance: builds the next iteration's values from those of an iteration.
    """
    (body,) = loop.regions
    loop.set_operands([*loop.operands, *inits])
    args = [body.add_arg(value.type, value.name) for value in inits]
    for value in inits:
        loop.add_result(value.type)
    next_carried = advance(args)
    assert body.last is not None
    body.last.set_operands([*body.last.inputs, *next_carried])
    return args


@dataclass(frozen=True)
class IterationView:
    """A future iteration of the loop, for which something is prefetched.

    mapping: its values, by those of the loop's body.
    exists: a scalar i1 that is true if there is this iteration; None if it always exists.
    """

    build: LayoutBuilder
    mapping: dict[Value, Value]
    exists: Value | None

    def value(self, value: Value | None) -> Value | None:
        """Return a value of the loop's body as it is in this iteration."""
        return None if value is None else self.mapping.get(value, value)


# Build the prefetch for an iteration. Takes the values that the loop carries for the prefetch, and
# returns those of the next iteration.
EmitPrefetch = Callable[[IterationView, list[Value]], Sequence[Value]]


class PrefetchPoint:
    """The point of a loop's body at which a slice runs `distance` iterations ahead of the loop."""

    def __init__(self, sources: BackwardSlice, distance: int, top: Operation) -> None:
        self.sources = sources
        self.distance = distance
        self.top = top  # the operation of the body before which the slice runs
        self.trip_count = TripCount(sources.loop)
        inits = sources.loop.inputs[3:]
        self.carried = [inits[position] for position in sources.carried]

    def prologue(self) -> Iterator[IterationView]:
        """Build the slice for the first `distance` iterations, before the loop."""
        build = LayoutBuilder.before(self.sources.loop)
        trip_count = self.trip_count
        for distance in range(self.distance):
            exists = trip_count.exists(build, trip_count.lower, distance)
            index = trip_count.index_after(build, trip_count.lower, distance)
            yield self._iteration(build, index, exists)

    def steady_state(self, inits: Sequence[Value], emit: EmitPrefetch) -> list[Value]:
        """Build the slice and the prefetch in the loop, for the iteration `distance` ahead.

        inits: first values of loop-carried values that `emit` takes and advances.
        Returns these loop-carried values as arguments of the loop's body.
        """
        loop, trip_count, count = self.sources.loop, self.trip_count, len(inits)
        build = LayoutBuilder(loop.regions[0], self.top, loop.loc)
        induction = loop.regions[0].args[0]

        def advance(args: list[Value]) -> list[Value]:
            self.carried = args[count:]
            exists = trip_count.exists(build, induction, self.distance)
            later = trip_count.index_after(build, induction, self.distance)
            view = self._iteration(build, later, exists)
            return [*emit(view, args[:count]), *self.carried]

        return add_loop_carried(loop, [*inits, *self.carried], advance)[:count]

    def _iteration(self, build: LayoutBuilder, index: Value, exists: Value | None) -> IterationView:
        mapping = self.sources.clone_at(build, index, self.carried)
        self.carried = self.sources.next_carried(mapping)
        return IterationView(build, mapping, exists)


def iteration_mask(view: IterationView, load: Operation) -> Value | None:
    """Return the mask of a load in an iteration of its loop: all false if there is none such."""
    mask = view.value(load["mask"])
    if view.exists is None:
        return mask
    exists = view.build(
        shape.splat, view.exists, shape=load.result.type.shape, layout=layout_of(load["ptr"])
    )
    return exists if mask is None else view.build(arith.and_, mask, exists)


def load_for_iteration(view: IterationView, load: Operation) -> Value:
    """Return the tile that a load reads in an iteration of its loop.

    If there is no such iteration, nothing is read, and the tile is not used.
    """
    build = view.build
    with build.at(load.loc):
        value = build(
            memory.load,
            view.value(load["ptr"]),
            iteration_mask(view, load),
            view.value(load["other"]),
            **load.attributes,
        )
    value.name = load.result.name
    return value


def _is_single(op: Operation) -> bool:
    """Return True if an operation is not computed twice: a costly dot, or a loop that may hang."""
    return op.has_trait(Trait.DOT) or op.has_trait(Trait.LOOP)
