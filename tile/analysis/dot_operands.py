"""Which tiles dots multiply."""

from __future__ import annotations

from tile.ir.core import Value
from tile.ir.effects import is_pure
from tile.ir.op_definition import Trait
from tile.ir.ops.dot import is_multiplied


def feeds_dot(value: Value) -> bool:
    """Return True if pure operations make a dot operand of a value, in its block."""
    worklist, seen = [value], {value}
    while worklist:
        value = worklist.pop()
        for user, position in value.uses:
            if user.block is not value.block:
                continue
            if is_multiplied(user, position):
                return True
            if is_pure(user) and not user.regions and not user.has_trait(Trait.DOT):
                unseen = [result for result in user.results if result not in seen]
                seen.update(unseen)
                worklist.extend(unseen)
    return False
