"""What a loop computes the addresses of its loads from, and doing that rounds ahead of the loop.

The *slice* of some values are the pure operations of the loop's body that they are computed from,
with the carried values that go into them and what computes those for the next round. A copy of it
runs in front of the loop for the first rounds, and a second one in the loop, `distance` rounds
ahead, with carried values of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from tile.ir.core import Operation, Value, clone
from tile.ir.effects import is_pure
from tile.ir.opdef import OpDef
from tile.ir.ops import control, linalg
from tile.simt.layout_rules import LayoutBuilder
from tile.simt.ops import group, matrix
from tile.simt.pipeline_loops.rounds import Rounds

DOTS = frozenset({linalg.dot, matrix.matrix_dot, group.group_dot})
# What is not computed twice: products cost too much, and an inner loop might not end.
_KEPT: frozenset[OpDef] = DOTS | {control.for_, control.while_}


@dataclass(frozen=True)
class Slice:
    """Operations of a loop's body, in order, and the carried values that go into them."""

    loop: Operation
    ops: tuple[Operation, ...]
    carried: tuple[int, ...]

    def copy(
        self, build: LayoutBuilder, index: Value, carried: Sequence[Value]
    ) -> dict[Value, Value]:
        """Compute the slice for the round of count `index` that starts with values `carried`.

        Returns what stands for each value of the body there.
        """
        (body,) = self.loop.regions
        mapping = {body.args[0]: index}
        for position, value in zip(self.carried, carried, strict=True):
            mapping[body.args[1 + position]] = value
        for op in self.ops:
            build.block.insert(clone(op, mapping), build.anchor)
        return mapping

    def following(self, mapping: dict[Value, Value]) -> list[Value]:
        """The carried values with which the round after that of `mapping` starts."""
        yielded = _yielded(self.loop)
        return [mapping.get(yielded[position], yielded[position]) for position in self.carried]


def slice_of(loop: Operation, values: Iterable[Value]) -> Slice | None:
    """The slice of some values that a loop's body uses.

    None if they depend on something that cannot be computed rounds ahead.
    """
    (body,) = loop.regions
    yielded = _yielded(loop)
    ops: set[Operation] = set()
    carried: set[int] = set()
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if value.owner is body:
            position = value.index - 1
            if position >= 0 and position not in carried:
                carried.add(position)
                waiting.append(yielded[position])
            continue
        op = value.op
        if op is None or op.block is not body or op in ops:
            continue
        if not is_pure(op) or any(nested.defn in _KEPT for nested in op.walk()):
            return None
        ops.add(op)
        for nested in op.walk():
            waiting.extend(nested.inputs)
    in_order = tuple(op for op in body if op in ops)
    return Slice(loop, in_order, tuple(sorted(carried)))


def _yielded(loop: Operation) -> list[Value]:
    last = loop.regions[0].last
    assert last is not None
    return last.inputs


def carry(
    loop: Operation, inits: Sequence[Value], advance: Callable[[list[Value]], Sequence[Value]]
) -> list[Value]:
    """Make a loop carry more values, and `advance` compute the next ones from those of a round."""
    (body,) = loop.regions
    loop.set_operands([*loop.operands, *inits])
    args = [body.add_arg(value.type, value.name) for value in inits]
    for value in inits:
        loop.add_result(value.type)
    following = advance(args)
    assert body.last is not None
    body.last.set_operands([*body.last.inputs, *following])
    return args


@dataclass(frozen=True)
class Round:
    """A round of the loop that something is done for ahead of time.

    `mapping` has its values, and `exists` says whether there is this round; None if surely.
    """

    build: LayoutBuilder
    mapping: dict[Value, Value]
    exists: Value | None

    def of(self, value: Value | None) -> Value | None:
        """The value as it is in this round."""
        return None if value is None else self.mapping.get(value, value)


# Something done for a round ahead, given values that the loop carries for it; it gives the next.
Act = Callable[[Round, list[Value]], Sequence[Value]]


class Ahead:
    """A slice that runs `distance` rounds ahead of its loop."""

    def __init__(self, sources: Slice, distance: int, top: Operation) -> None:
        self.sources = sources
        self.distance = distance
        self.top = top  # the operation of the body in front of which it runs
        self.rounds = Rounds(sources.loop)
        inits = sources.loop.inputs[3:]
        self.carried = [inits[position] for position in sources.carried]

    def before_loop(self) -> Iterator[Round]:
        """The first rounds, in front of the loop."""
        build = LayoutBuilder.before(self.sources.loop)
        rounds = self.rounds
        for number in range(self.distance):
            exists = rounds.exists(build, rounds.lower, number)
            index = rounds.count(build, rounds.lower, number)
            yield self._round(build, index, exists)

    def in_loop(self, inits: Sequence[Value], act: Act) -> list[Value]:
        """`act` in the loop, for the round that far ahead of each.

        The loop comes to carry further values that start with `inits`; `act` takes those of this
        round and gives those of the next. Returns them as the loop's body knows them.
        """
        loop, rounds, count = self.sources.loop, self.rounds, len(inits)
        build = LayoutBuilder(loop.regions[0], self.top, loop.loc)
        here = loop.regions[0].args[0]

        def advance(args: list[Value]) -> list[Value]:
            self.carried = args[count:]
            exists = rounds.exists(build, here, self.distance)
            later = self._round(build, rounds.count(build, here, self.distance), exists)
            return [*act(later, args[:count]), *self.carried]

        return carry(loop, [*inits, *self.carried], advance)[:count]

    def _round(self, build: LayoutBuilder, index: Value, exists: Value | None) -> Round:
        mapping = self.sources.copy(build, index, self.carried)
        self.carried = self.sources.following(mapping)
        return Round(build, mapping, exists)
