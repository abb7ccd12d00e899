"""Effects of operations, including those of their regions and attributes.

Passes query effects through this module only.

A loop that is not proven to end may run forever, so that nothing after it runs: no pass may remove
it, merge it with another, or speculate it (LLVM: it is not `willreturn`). The proof considers the
loop only:

- A `for` ends if its step is a constant other than 0, or the extent of the grid, which is at least
  1 in any program that runs.
- A `while` ends if it continues only while a carried integer has not reached a loop-invariant
  bound, and every iteration moves that integer by a constant toward the bound, without wrapping
  past it.

Nested loops are ignored; each needs its own proof.
"""

from __future__ import annotations

from collections.abc import Iterator

from tile.ir.core import Operation, Value
from tile.ir.op_definition import Effect, Trait
from tile.ir.ops import arith, control, memory, program
from tile.ir.ops.arith import Predicate
from tile.ir.ops.memory import CacheModifier
from tile.ir.types import I32, Scalar

OBSERVABLE = Effect.WRITE | Effect.SHARED | Effect.SYNC | Effect.OUTPUT | Effect.MAY_HANG
ATOMIC = Effect.READ | Effect.WRITE
# Effects that may prevent the following operations from running.
MAY_STOP = Effect.OUTPUT | Effect.MAY_HANG
UNREMOVABLE = OBSERVABLE | Effect.ASSUME


def effects(op: Operation) -> Effect:
    """Return the effects of `op` and of the operations nested in it.

    A volatile access has `SYNC`: it may not be moved or merged. A loop that is not proven to end
    has `MAY_HANG`.
    """
    effect = op.defn.effect
    if op.attributes.get("volatile"):
        effect |= Effect.SYNC
    if effect is Effect.NONE and not op.regions:  # most operations; flags are slow
        return effect
    if op.has_trait(Trait.LOOP) and not ends(op):
        effect |= Effect.MAY_HANG
    if Effect.NESTED in effect:
        effect &= ~Effect.NESTED
        for region in op.regions:
            for inner in region:
                effect |= effects(inner)
    return effect


def only_reads(op: Operation) -> bool:
    """Return True if the operation has no effect but to read memory, global or shared."""
    effect = effects(op) & ~Effect.READ
    if op.has_trait(Trait.READS_SHARED):
        effect &= ~Effect.SHARED
    return not op.defn.terminator and effect is Effect.NONE


def accesses_global(op: Operation) -> bool:
    """Return True if the operation accesses global memory through its operand `ptr`."""
    return "ptr" in op.defn.positions and bool(op.defn.effect & ATOMIC)


def is_plain_load(op: Operation) -> bool:
    """Return True for a load that need not observe what others write meanwhile.

    Volatile and `.cv` loads must read memory again.
    """
    return op.defn is memory.load and not op["volatile"] and op["cache"] is not CacheModifier.CV


def is_pure(op: Operation) -> bool:
    """Return True if the operation has no effects: its results depend on its operands only."""
    return not op.defn.terminator and effects(op) is Effect.NONE


def is_removable(op: Operation) -> bool:
    """Return True if the operation may be removed once its results have no uses."""
    if op.defn.terminator:
        return False
    effect = effects(op)
    return effect is Effect.NONE or not effect & UNREMOVABLE


def is_dead(op: Operation) -> bool:
    """Return True if the operation may be removed now."""
    return not any(value.uses for value in op.results) and is_removable(op)


def constant_of(value: Value) -> bool | int | float | None:
    """Return the number of a constant (scalar or splat), or None for any other value."""
    op = value.op
    if op is not None and op.name == "const":
        number: bool | int | float = op.attributes["value"]
        return number
    return None


def is_zero(value: Value | None) -> bool:
    """Return True if all bits of a value are zero, or it is absent."""
    if value is None:
        return True
    number = constant_of(value)
    if number is None and value.op is not None and value.op.name == "splat":
        number = constant_of(value.op.inputs[0])
    return number is not None and repr(number) in ("0", "0.0", "False")


def iterations(loop: Operation) -> range | None:
    """Return the induction variables of a `for` with constant bounds and step; None otherwise."""
    lower, upper, step = (constant_of(value) for value in loop.inputs[:3])
    if lower is None or upper is None or not step:
        return None
    return range(int(lower), int(upper), int(step))


def may_hang_silently(loop: Operation) -> bool:
    """Return True if a loop may run forever without a side effect that all compilers preserve.

    C compilers (C11 6.8.5p6) and ptxas may assume that such a loop ends and remove it. A backend
    prevents this by a side effect in every iteration.
    """
    preserved = Effect.SYNC | Effect.OUTPUT
    every_iteration = [op for region in loop.regions for op in region if not op.regions]
    return not ends(loop) and not any(
        effects(op) & preserved or ATOMIC in effects(op) for op in every_iteration
    )


def ends(loop: Operation) -> bool:
    """Return True if the `for` or `while` is proven to end, ignoring nested loops."""
    if loop.defn is control.for_:
        step = loop.inputs[2]
        return _is_extent(step) or constant_of(step) not in (None, 0)
    (condition,) = loop.regions[0].yielded
    return any(_reaches_bound(loop, needed) for needed in _conjuncts(condition))


def _conjuncts(condition: Value) -> Iterator[Value]:
    """Yield the values that must all be true for the condition to be true."""
    op = condition.op
    if op is None:
        return
    if op.defn is arith.and_:
        for value in op.inputs:
            yield from _conjuncts(value)
    elif op.defn is control.if_:
        yielded = [region.yielded[condition.index] for region in op.regions]
        if constant_of(yielded[1]) is False:
            yield from _conjuncts(op.inputs[0])
            yield from _conjuncts(yielded[0])
        elif constant_of(yielded[0]) is False:
            yield from _conjuncts(yielded[1])
    elif op.defn is arith.cmp:
        yield condition


def _reaches_bound(loop: Operation, comparison: Value) -> bool:
    """Return True if a counter makes the comparison false after finitely many iterations."""
    assert comparison.op is not None
    x, y = comparison.op.inputs
    predicate = comparison.op["predicate"]
    return _counts_to(loop, x, predicate, y) or _counts_to(loop, y, predicate.swapped, x)


def _counts_to(loop: Operation, counter: Value, predicate: Predicate, bound: Value) -> bool:
    """Return True if `counter predicate bound` becomes false by counting in constant steps."""
    ty = counter.type
    if counter.owner is not loop.regions[0] or not (isinstance(ty, Scalar) and ty.is_int()):
        return False
    limit = constant_of(bound)
    step = _step(loop, counter.index)
    if step is None or (limit is None and loop.defines(bound)):
        return False
    if predicate is Predicate.NE:  # counting by one passes every number, across the wrap too
        return abs(step) == 1
    if predicate in (Predicate.LT, Predicate.LE):
        strict, slack = predicate is Predicate.LT, None if limit is None else ty.max_value - limit
    elif predicate in (Predicate.GT, Predicate.GE):
        strict, slack = predicate is Predicate.GT, None if limit is None else limit - ty.min_value
        step = -step
    else:
        return False
    # The last value that passes the test is at most the bound (strict: one before it). A step from
    # there must not wrap. A step of one never wraps if the test is strict.
    overshoot = step - strict
    return step > 0 and (overshoot == 0 or (slack is not None and overshoot <= slack))


def _step(loop: Operation, index: int) -> int | None:
    """Return the constant that each iteration adds to a carried value, or None."""
    body = loop.regions[1]
    op = body.yielded[index].op
    if op is None or op.defn not in (arith.add, arith.sub):
        return None
    first, second = op.inputs
    if op.defn is arith.add and second is body.args[index]:
        first, second = second, first
    number = constant_of(second)
    if first is not body.args[index] or number is None:
        return None
    return int(number) if op.defn is arith.add else -int(number)


def _is_extent(value: Value) -> bool:
    """Return True if the value is `num_programs`, possibly cast to a wider integer type."""
    op = value.op
    if op is not None and op.defn is arith.cast and value.type.element.bits > I32.bits:
        op = op.inputs[0].op
    return op is not None and op.defn is program.num_programs
