"""Register pressure: the 32-bit registers that a thread needs at each operation.

The count is that of the live values, as if the allocation were perfect. Elements narrower than 32
bits share registers with others of their fragment. What a backend's compiler allocates differs: it
may rematerialize values, or keep uniform values in other registers.
"""

from __future__ import annotations

from tile.analysis.liveness import liveness
from tile.ir.core import Function, Operation
from tile.ir.types import Fragment, Shared, Type

BITS = 32


def registers(function: Function) -> dict[Operation, int]:
    """Return the number of live registers after each operation of a THREAD function.

    An operation's own results count; its operands only if a later operation uses them.
    """
    live = liveness(function)
    counts = {
        number: sum(registers_of(value.type) for value in values) for number, values in live.sweep()
    }
    return {op: counts[live.end(op)] for op in function.walk()}


def registers_of(ty: Type) -> int:
    """Return the 32-bit registers of a value of type `ty`. A shared-memory buffer takes none."""
    if isinstance(ty, Shared):
        return 0
    count = ty.count if isinstance(ty, Fragment) else 1
    return -(-count * ty.element.bits // BITS)
