"""Effects of operations, including those of their regions and attributes.

Passes query effects through this module only.
"""

from __future__ import annotations

from tile.ir.core import Operation, Value
from tile.ir.op_definition import Effect, Trait
from tile.ir.termination import ends

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
