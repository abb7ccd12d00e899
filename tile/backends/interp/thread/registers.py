"""How many registers of 32 bits a thread needs at each operation, as if none were spent in vain.

Values narrower than 32 bits share registers with those of their fragment. What a backend's own
compiler makes of it differs: it may compute things again, or keep uniform values elsewhere.
"""

from __future__ import annotations

from tile.analysis.liveness import liveness
from tile.ir.core import Function, Operation
from tile.ir.types import Fragment, Shared, Type

BITS = 32


def registers(function: Function) -> dict[Operation, int]:
    """The registers live at each operation of a THREAD function: of what is live behind it.

    An operation's own results are among them, its operands only if something later uses them.
    """
    live = liveness(function)
    counts = {
        number: sum(registers_of(value.type) for value in values) for number, values in live.sweep()
    }
    return {op: counts[live.end(op)] for op in function.walk()}


def registers_of(ty: Type) -> int:
    """The registers that a value takes. A buffer in shared memory takes none."""
    if isinstance(ty, Shared):
        return 0
    count = ty.count if isinstance(ty, Fragment) else 1
    return -(-count * ty.element.bits // BITS)
