"""Loop unrolling."""

from __future__ import annotations

from tile.ir.builder import Builder, create
from tile.ir.core import Block, Operation, Value
from tile.ir.effects import constant_of, iterations
from tile.ir.expressions import Expression, unsigned
from tile.ir.module import Module
from tile.ir.op_definition import Trait
from tile.ir.ops import arith, control
from tile.ir.ops.arith import Predicate
from tile.ir.passes import module_pass
from tile.ir.types import Scalar
from tile.transforms.region_utils import copy_into


@module_pass("unroll")
def unroll(module: Module, *, limit: int = 0) -> None:
    """Unroll loops by their `unroll` factor, and fully those with at most `limit` iterations.

    A loop with a factor becomes an unrolled loop and a remainder loop; its step must be a constant.
    A loop whose constant trip count is at most its factor is unrolled fully. `limit` concerns loops
    without dots and without loops in them: the others are pipelined, or long.

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
        limits = [limit if is_simple(loop) else 0 for loop in loops]
        for loop, most in zip(reversed(loops), reversed(limits), strict=True):  # those inside first
            _unroll(loop, most)


def _unroll(loop: Operation, limit: int) -> None:
    numbers, step = iterations(loop), constant_of(loop.inputs[2])
    factor: int = loop["unroll"]
    if numbers is not None and len(numbers) <= max(limit, factor if factor > 1 else 0):
        unroll_fully(loop, numbers)
    elif factor > 1 and step:
        unroll_by(loop, factor, int(step), numbers)


def is_simple(loop: Operation) -> bool:
    """Return True for a loop without dots and without loops in it."""
    body = loop.regions[0].walk()
    return not any(op.has_trait(Trait.DOT) or op.has_trait(Trait.LOOP) for op in body)


def unroll_fully(loop: Operation, numbers: range) -> None:
    """Replace a `for` by its iterations, for the values `numbers` of its induction variable."""
    (body,) = loop.regions
    build = Builder.before(loop)
    carried = loop.inputs[3:]
    for number in numbers:
        index = build.constant(number, body.args[0].type)
        carried = copy_into(body, loop, [index, *carried])
    loop.replace_by(carried)


def unroll_by(loop: Operation, factor: int, step: int, numbers: range | None) -> None:
    """Replace a `for` by one with `factor` of its iterations in each, and one for the remainder.

    numbers: the values of the induction variable, if they are known.
    """
    assert isinstance(loop.inputs[0].type, Scalar)
    ty = loop.inputs[0].type
    stride = step * factor
    if not ty.min_value <= stride <= ty.max_value:
        return
    build = Builder.before(loop)
    lower, upper, increment, *inits = loop.inputs
    split = _split_bound(build, loop, factor, step, numbers)
    unrolled = build.op(
        control.for_,
        *(lower, split, build.constant(stride, ty), *inits),
        regions=[_unrolled_body(build, loop, factor, step)],
        **{**loop.attributes, "unroll": 1},
    )
    for value, result in zip(unrolled.results, loop.results, strict=True):
        value.name = result.name
    if numbers is not None and len(numbers) % factor == 0:
        loop.replace_by(unrolled.results)
        return
    for position, value in enumerate([split, upper, increment, *unrolled.results]):
        loop.set_operand(position, value)
    loop.attributes["unroll"] = 1


def _unrolled_body(build: Builder, loop: Operation, factor: int, step: int) -> Block:
    """Return a body with `factor` iterations."""
    (body,) = loop.regions
    block = Block([value.type for value in body.args], [value.name for value in body.args])
    end = block.append(create(control.yield_, loc=loop.loc))
    index, *carried = block.args
    for number in range(factor):
        if number:
            offset = build.constant(number * step, index.type)
            iteration_index = Builder.before(end)(arith.add, index, offset)
        else:
            iteration_index = index
        carried = copy_into(body, end, [iteration_index, *carried])
    end.set_operands(carried)
    return block


def _split_bound(
    build: Builder, loop: Operation, factor: int, step: int, numbers: range | None
) -> Value:
    """Return the lower bound of the remainder loop, or `upper` if there is no remainder."""
    lower, upper = loop.inputs[:2]
    if numbers is None:
        return _dynamic_split_bound(build, lower, upper, step, factor)
    remainder = len(numbers) % factor
    end = numbers.start + (len(numbers) - remainder) * step
    return build.constant(end, lower.type) if remainder else upper


def _dynamic_split_bound(
    build: Builder, lower: Value, upper: Value, step: int, factor: int
) -> Value:
    """Compute the lower bound of the remainder loop at run time.

    The trip count is computed in unsigned integers, which hold the distance of any two bounds. The
    result lies between the bounds, so it does not overflow even if they are near the end of the
    type's range.
    """
    assert isinstance(lower.type, Scalar)
    start, stop = Expression(build, lower), Expression(build, upper)
    first, last = (start, stop) if step > 0 else (stop, start)
    wide, stride = unsigned(lower.type.bits), abs(step)
    count = (last.cast(wide) - first.cast(wide) - 1).apply(arith.div, stride) + 1
    remainder = count.apply(arith.rem, factor)
    distance = (count - remainder) * stride
    end = start.cast(wide) + distance if step > 0 else start.cast(wide) - distance
    has_remainder = (first < last) & remainder.is_(Predicate.NE, 0)
    return has_remainder.select(end.cast(lower.type), stop).value
