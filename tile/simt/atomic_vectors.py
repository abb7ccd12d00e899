"""Vector width of atomic additions."""

from __future__ import annotations

from tile.ir.core import Operation
from tile.ir.ops import memory
from tile.ir.ops.memory import RMWKind
from tile.ir.types import Scalar
from tile.simt.target import SimtTarget


def atomic_vector(op: Operation, target: SimtTarget) -> int:
    """Return how many contiguous elements one lane combines in one atomic instruction, at most."""
    if op.defn is not memory.atomic_rmw or op["kind"] is not RMWKind.ADD or op.result.uses:
        return 1
    element = op.result.type.element
    return target.most_added(element) if isinstance(element, Scalar) else 1
