"""Loop unrolling."""

from __future__ import annotations

from dataclasses import dataclass

from tile.ir.builder import Builder, create
from tile.ir.core import Block, Module, Operation, Value
from tile.ir.effects import constant_of
from tile.ir.ops import arith, control
from tile.ir.ops.arith import Predicate
from tile.ir.passes import module_pass
from tile.ir.types import SCALARS, Scalar
from tile.transforms.regions import copy_into


@module_pass("unroll")
def unroll(module: Module, *, limit: int = 0) -> None:
    """Unroll loops by their `unroll` factor, and fully those with at most `limit` rounds.

    A loop with a factor goes over several rounds at once, followed by a loop over those left; the
    step must be a constant. A loop whose constant number of rounds is no more than its factor
    goes away.

        for %i = %a to %n step %c1 {              for %i = %a to %m step %c2 {
          store %p, %i                              store %p, %i
          yield                                     %i_1 = add %i, %c1 : i32
        } {unroll = 2}                              store %p, %i_1
                                                    yield
                                                  }
                                                  for %i_2 = %m to %n step %c1 {
                                                    store %p, %i_2
                                                    yield
                                                  }
    """
    for function in module:
        loops = [op for op in function.walk() if op.defn is control.for_]
        for loop in reversed(loops):  # those inside first
            _unroll(loop, limit)


@dataclass(frozen=True)
class _Trip:
    """A loop's bounds, as far as they are constants."""

    lower: int | None
    upper: int | None
    step: int | None

    @classmethod
    def of(cls, loop: Operation) -> _Trip:
        numbers = [constant_of(value) for value in loop.inputs[:3]]
        return cls(*(None if number is None else int(number) for number in numbers))

    @property
    def rounds(self) -> int | None:
        """How often the loop goes around, if that is known."""
        if self.lower is None or self.upper is None or not self.step:
            return None
        return len(range(self.lower, self.upper, self.step))


def _unroll(loop: Operation, limit: int) -> None:
    trip = _Trip.of(loop)
    factor: int = loop["unroll"]
    if trip.rounds is not None and trip.rounds <= max(limit, factor if factor > 1 else 0):
        _unroll_fully(loop, trip)
    elif factor > 1 and trip.step:
        _unroll_by(loop, factor, trip)


def _unroll_fully(loop: Operation, trip: _Trip) -> None:
    (body,) = loop.regions
    build = Builder.before(loop)
    assert trip.lower is not None and trip.step is not None and trip.rounds is not None
    carried = loop.inputs[3:]
    for number in range(trip.rounds):
        index = build.constant(trip.lower + number * trip.step, body.args[0].type)
        carried = copy_into(body, loop, [index, *carried])
    loop.replace_by(carried)


def _unroll_by(loop: Operation, factor: int, trip: _Trip) -> None:
    assert isinstance(loop.inputs[0].type, Scalar) and trip.step is not None
    ty = loop.inputs[0].type
    stride = trip.step * factor
    if not ty.min_value <= stride <= ty.max_value:
        return
    build = Builder.before(loop)
    lower, upper, step, *inits = loop.inputs
    middle = _middle(build, loop, factor, trip)
    wide = build.op(
        control.for_,
        *(lower, middle, build.constant(stride, ty), *inits),
        regions=[_repeated(build, loop, factor, trip.step)],
        **{**loop.attributes, "unroll": 1},
    )
    for value, result in zip(wide.results, loop.results, strict=True):
        value.name = result.name
    if trip.rounds is not None and trip.rounds % factor == 0:
        loop.replace_by(wide.results)
        return
    for position, value in enumerate([middle, upper, step, *wide.results]):
        loop.set_operand(position, value)
    loop.attributes["unroll"] = 1


def _repeated(build: Builder, loop: Operation, factor: int, step: int) -> Block:
    """A body that does several rounds."""
    (body,) = loop.regions
    block = Block([value.type for value in body.args], [value.name for value in body.args])
    end = block.append(create(control.yield_, loc=loop.loc))
    index, *carried = block.args
    for number in range(factor):
        if number:
            ahead = build.constant(number * step, index.type)
            here = Builder.before(end)(arith.add, index, ahead)
        else:
            here = index
        carried = copy_into(body, end, [here, *carried])
    end.set_operands(carried)
    return block


def _middle(build: Builder, loop: Operation, factor: int, trip: _Trip) -> Value:
    """The count with which the rounds begin that are left over, or `upper` if there are none."""
    lower, upper = loop.inputs[:2]
    if trip.rounds is None or trip.lower is None or trip.step is None:
        return _middle_at_run_time(build, lower, upper, trip.step or 1, factor)
    left = trip.rounds % factor
    end = trip.lower + (trip.rounds - left) * trip.step
    return build.constant(end, lower.type) if left else upper


def _middle_at_run_time(
    build: Builder, lower: Value, upper: Value, step: int, factor: int
) -> Value:
    """Rounds are counted in unsigned numbers, which hold the distance of any two bounds.

    The result lies between the bounds, so that it does not overflow, however near to the end of
    the type they are.
    """
    assert isinstance(lower.type, Scalar)
    wide = SCALARS[f"u{lower.type.bits}"]
    first, last = (lower, upper) if step > 0 else (upper, lower)
    start, one = build(arith.cast, lower, to=wide), build.constant(1, wide)
    stride = build.constant(abs(step), wide)
    ends = (build(arith.cast, side, to=wide) for side in (last, first))
    before_last = build(arith.sub, build(arith.sub, *ends), one)
    rounds = build(arith.add, build(arith.div, before_last, stride), one)
    left = build(arith.rem, rounds, build.constant(factor, wide))
    way = build(arith.mul, build(arith.sub, rounds, left), stride)
    end = build(arith.add if step > 0 else arith.sub, start, way)
    runs = build(arith.cmp, first, last, predicate=Predicate.LT)
    some = build(arith.cmp, left, build.constant(0, wide), predicate=Predicate.NE)
    return build(
        arith.select,
        build(arith.and_, runs, some),
        build(arith.cast, end, to=lower.type),
        upper,
    )
