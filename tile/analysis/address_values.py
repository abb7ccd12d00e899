"""The values that a function computes only on the way to addresses and masks of accesses.

In the language it is an error if signed arithmetic overflows there, so that such values may be
computed as if it did not (`axis_info`, **Overflow**). Other values wrap.
"""

from __future__ import annotations

from tile.ir.core import Function, Operation, Value
from tile.ir.effects import is_pure
from tile.ir.ops import memory

# The operands that are addresses, offsets or masks.
_OPERANDS = {memory.addptr: (1,), memory.load: (0, 1), memory.store: (0, 2)}


def address_values(function: Function) -> frozenset[Value]:
    """Return the results of operations of which all uses are on the way to an access.

        %q = div %x, %n          // one: it is of use for the address alone
        %p = addptr %base, %q
        %y = load %p

    Values that loops carry or branches return are left out.
    """
    leading: set[Value] = set()
    for op in reversed(list(function.walk())):
        for value in op.results:
            uses = list(value.uses)
            if uses and all(_leads_to_access(user, index, leading) for user, index in uses):
                leading.add(value)
    return frozenset(leading)


def _leads_to_access(user: Operation, index: int, leading: set[Value]) -> bool:
    """Return True if an operand is of use for accesses alone, given the results that are."""
    if index in _OPERANDS.get(user.defn, ()):
        return True
    return is_pure(user) and not user.regions and leading.issuperset(user.results)
