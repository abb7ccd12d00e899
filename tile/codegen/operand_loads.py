"""Loads of dot operands from shared memory, which emitters put next to the dots that use them.

A load of a whole operand holds all of its registers until the last dot. Emitters therefore load a
part of it where an instruction takes that part.
"""

from __future__ import annotations

from tile.ir.core import Operation, Value
from tile.ir.effects import only_reads
from tile.ir.op_definition import OpDef
from tile.ir.ops.dot import is_multiplied, takes_registers
from tile.simt import ops


def is_operand_load(load: Operation, dot: OpDef | None = None) -> bool:
    """Return True if only dots of this block use a load, before the memory can be overwritten.

    They use it as operands, also through `frag_shuffle`, and no operation between the load and the
    last of them writes memory or is a barrier that makes other threads' writes visible. `dot` is
    the only operation whose rule loads parts of operands, None if all rules of dots do.
    """
    dots, following = _dots(load.result), load.next
    if dots is None or (dot is not None and any(op.defn is not dot for op in dots)):
        return False
    while dots and following is not None:
        if not (only_reads(following) or following.defn is ops.shared.local_alloc):
            return False
        dots.discard(following)
        following = following.next
    return not dots


def _dots(value: Value) -> set[Operation] | None:
    """Return the dots that take a value as an operand; None if anything else uses it."""
    dots: set[Operation] = set()
    for user, index in value.uses:
        if user.defn is ops.thread.frag_shuffle:
            through = _dots(user.result)
            if through is None:
                return None
            dots |= through
        elif takes_registers(user) and is_multiplied(user, index):
            dots.add(user)
        else:
            return None
    return dots
