"""Decide which fragments are register arrays, and which operations are computed at their uses.

A fragment with more registers than the device's limit (`Capabilities.unrolled`) is a register
array. So is a shorter fragment that a loop over a long one indexes: the offsets of a long load, or
the operand of a `pick` with a long result.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tile.backends.opencl.capabilities import FEW, Capabilities
from tile.backends.opencl.emit.types import count_of
from tile.ir.core import Function, Operation, Value
from tile.ir.ops import arith, memory
from tile.ir.types import Fragment, Pointer, is_power_of_two
from tile.simt import ops

# Operations whose operands have different numbers of registers.
_UNEVEN = frozenset(
    {
        ops.matrix.thread_dot,
        ops.thread.pick,
        ops.thread.pick_by,
        ops.thread.shared_load,
        ops.thread.shared_store,
    }
)
# Operations that cost no more than an access to the array that would store their result.
_CHEAP = frozenset(
    {
        arith.add,
        arith.sub,
        arith.mul,
        arith.and_,
        arith.or_,
        arith.xor,
        arith.not_,
        arith.neg,
        arith.shl,
        arith.shr,
        arith.cmp,
        arith.min_,
        arith.max_,
        arith.cast,
        arith.bitcast,
        arith.select,
        memory.addptr,
    }
)
_MOST = 8  # an expression of up to this many cheap operations is recomputed instead of stored
_SIMPLE = re.compile(r"\w+(\[\w+\])?|-?[\w.]+")


def is_simple(text: str) -> bool:
    """Return True for an expression that needs no variable: a name, an element or a literal."""
    return _SIMPLE.fullmatch(text) is not None


def most_unrolled(function: Function, device: Capabilities) -> int:
    """Return the number of registers above which a fragment is an array.

    It is the device's limit, halved until the function has few enough register variables.
    """
    counts = [count_of(value.type) for op in function.walk() for value in op.results]
    most = device.unrolled
    while most > FEW and sum(n for n in counts if n <= most) > device.variables:
        most //= 2
    return most


@dataclass
class ArraySelection:
    """The decisions for one function. Fragments of up to `unrolled` registers are variables."""

    unrolled: int
    _arrays: dict[Value, bool] = field(default_factory=dict)

    def is_array(self, value: Value) -> bool:
        """Return True if a value's registers are an array."""
        if value not in self._arrays:
            self._arrays[value] = self._decide(value)
        return self._arrays[value]

    def _decide(self, value: Value) -> bool:
        count = count_of(value.type)
        if count < 2 or not is_power_of_two(count):
            return False
        if count > self.unrolled:
            return True
        uneven = [op for op in value.users if op.defn in _UNEVEN]
        if value.op is not None and value.op.defn in _UNEVEN:
            uneven.append(value.op)
        return any(self._is_long(op) for op in uneven)

    def _is_long(self, op: Operation) -> bool:
        if op.defn is ops.thread.pick:
            return count_of(op.result.type) > self.unrolled
        values = [*op.inputs, *op.results]
        return any(count_of(v.type) > self.unrolled for v in values if _is_fragment(v))

    def is_deferred(self, op: Operation, cost: int) -> bool:
        """Return True if an operation on register arrays is computed at its uses.

        cost: the number of operations in the expression, including deferred operands.
        """
        users = list(op.result.users)
        if any(user.defn.terminator for user in users):
            return False  # its operands may be loop-carried variables, which the loop overwrites
        if op.defn in _CHEAP and _is_integral(op) and cost <= _MOST:
            return True
        return (
            len(op.result.uses) == 1
            and users[0].parent is op.parent
            and users[0].defn not in _UNEVEN
            and not users[0].regions
        )


def _is_fragment(value: Value) -> bool:
    return isinstance(value.type, Fragment)


def _is_integral(op: Operation) -> bool:
    """Return True if all operands and the result are integers (i1 too) or pointers."""
    elements = [v.type.element for v in (*op.inputs, op.result)]
    return all(isinstance(ty, Pointer) or not ty.is_floating() for ty in elements)
