"""What an operation does, its regions and attributes considered; the one place passes ask."""

from __future__ import annotations

from tile.ir.core import Operation, Value
from tile.ir.opdef import Effect

OBSERVABLE = Effect.WRITE | Effect.SHARED | Effect.SYNC | Effect.OUTPUT


def effects(op: Operation) -> Effect:
    """All effects of `op` and of what is nested in it.

    A volatile access may not be moved or merged.
    """
    effect = op.defn.effect
    if op.attributes.get("volatile"):
        effect |= Effect.SYNC
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
    """Whether the operation may go if nobody uses its results. A loop counts as one that ends."""
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
