"""Sums that several neighbours in memory are added to at once."""

from __future__ import annotations

from tile.ir.core import Operation
from tile.ir.ops import memory
from tile.ir.ops.memory import RMWKind
from tile.ir.types import Scalar
from tile.simt.target import SimtTarget


def atomic_vector(op: Operation, target: SimtTarget) -> int:
    """How many neighbours a lane combines at once, at most, by an atomic operation."""
    if op.defn is not memory.atomic_rmw or op["kind"] is not RMWKind.ADD or op.result.uses:
        return 1
    element = op.result.type.element
    return target.most_added(element) if isinstance(element, Scalar) else 1
