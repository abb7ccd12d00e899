"""What an operation does, its regions and attributes considered; the one place passes ask."""

from __future__ import annotations

from tile.ir.core import Operation, Value
from tile.ir.opdef import Effect
from tile.ir.termination import LOOPS, ends

OBSERVABLE = Effect.WRITE | Effect.SHARED | Effect.SYNC | Effect.OUTPUT | Effect.MAY_HANG
ATOMIC = Effect.READ | Effect.WRITE
# What may keep the operations after it from running at all.
MAY_STOP = Effect.OUTPUT | Effect.MAY_HANG


def effects(op: Operation) -> Effect:
    """All effects of `op` and of what is nested in it.

    A volatile access may not be moved or merged. A loop that is not proven to end may hang.
    """
    effect = op.defn.effect
    if op.attributes.get("volatile"):
        effect |= Effect.SYNC
    if op.defn in LOOPS and not ends(op):
        effect |= Effect.MAY_HANG
    if Effect.NESTED in effect:
        effect &= ~Effect.NESTED
        for region in op.regions:
            for inner in region:
                effect |= effects(inner)
    return effect


def is_pure(op: Operation) -> bool:
    """Whether only the operation's results matter, and they depend on its operands alone."""
    return not op.defn.terminator and effects(op) is Effect.NONE


def is_removable(op: Operation) -> bool:
    """Return True if the operation may go when nobody uses its results."""
    return not op.defn.terminator and not effects(op) & (OBSERVABLE | Effect.ASSUME)


def is_dead(op: Operation) -> bool:
    """Whether the operation may go now."""
    return not any(value.uses for value in op.results) and is_removable(op)


def constant_of(value: Value) -> bool | int | float | None:
    """The number that a constant (scalar or filled tile) holds, or None for any other value."""
    op = value.op
    if op is not None and op.name == "const":
        number: bool | int | float = op.attributes["value"]
        return number
    return None


def may_hang_silently(loop: Operation) -> bool:
    """Return True if a loop may run forever without an access that all compilers keep.

    C compilers (C11 6.8.5p6) and ptxas may remove such a loop, taking for granted that it ends. A
    backend keeps it by a side effect in every iteration.
    """
    kept = Effect.SYNC | Effect.OUTPUT
    every_iteration = [op for region in loop.regions for op in region if not op.regions]
    return not ends(loop) and not any(
        effects(op) & kept or ATOMIC in effects(op) for op in every_iteration
    )
