"""Which fragments are rows, and which of their operations are computed where they are wanted.

A fragment of more registers than a device wants unrolled is a row, and so is a shorter one that an
operation takes apart in a loop: the offsets of a long load, or what `pick` spreads over a long one.
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
# What costs no more than an access to the array that would keep it.
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
_MOST = 8  # operations that are computed several times rather than kept
_SIMPLE = re.compile(r"\w+(\[\w+\])?|-?[\w.]+")


def once(text: str) -> bool:
    """Whether an expression need not become a variable: a name, an element or a literal."""
    return _SIMPLE.fullmatch(text) is not None


def short_enough(function: Function, device: Capabilities) -> int:
    """How many registers fragments have at most that are variables each.

    It is what the device wants, halved for as long as the function has too many such variables.
    """
    counts = [count_of(value.type) for op in function.walk() for value in op.results]
    most = device.unrolled
    while most > FEW and sum(n for n in counts if n <= most) > device.variables:
        most //= 2
    return most


@dataclass
class Rolling:
    """Decides for one function. Fragments of up to `unrolled` registers are variables each."""

    unrolled: int
    _rows: dict[Value, bool] = field(default_factory=dict)

    def is_row(self, value: Value) -> bool:
        """Whether a value's registers are a row."""
        if value not in self._rows:
            self._rows[value] = self._decide(value)
        return self._rows[value]

    def _decide(self, value: Value) -> bool:
        count = count_of(value.type)
        if count < 2 or not is_power_of_two(count):
            return False
        if count > self.unrolled:
            return True
        near = [op for op in value.users if op.defn in _UNEVEN]
        if value.op is not None and value.op.defn in _UNEVEN:
            near.append(value.op)
        return any(self._is_long(op) for op in near)

    def _is_long(self, op: Operation) -> bool:
        if op.defn is ops.thread.pick:
            return count_of(op.result.type) > self.unrolled
        values = [*op.inputs, *op.results]
        return any(count_of(v.type) > self.unrolled for v in values if _is_fragment(v))

    def is_late(self, op: Operation, cost: int) -> bool:
        """Whether an operation on rows is computed where its result is wanted.

        `cost` counts it and those that are computed with it.
        """
        users = list(op.result.users)
        if any(user.defn.terminator for user in users):
            return False  # what a loop carries changes under it
        if op.defn in _CHEAP and _is_whole(op) and cost <= _MOST:
            return True
        return (
            len(op.result.uses) == 1
            and users[0].parent is op.parent
            and users[0].defn not in _UNEVEN
            and not users[0].regions
        )


def _is_fragment(value: Value) -> bool:
    return isinstance(value.type, Fragment)


def _is_whole(op: Operation) -> bool:
    """Whether an operation is on integers, truths and pointers alone."""
    elements = [v.type.element for v in (*op.inputs, op.result)]
    return all(isinstance(ty, Pointer) or not ty.is_floating() for ty in elements)
