"""The number of columns of a tile that a kernel uses: those past it may hold anything.

%c = dot %a, %b, %acc : tile<128x256xf32>
%d = cast %c : tile<128x256xf16>
store %p, %d, (i2 < %m) and (i1 < 208)        // 208 columns of %c
"""

from __future__ import annotations

from collections.abc import Iterator

from tile.analysis.column_split import column_split
from tile.analysis.index_forms import IndexForms, NoFormError, index_bounds
from tile.ir.core import Operation, Value
from tile.ir.op_definition import Trait
from tile.ir.ops import control, memory

_COLUMNS = -1  # the axis
_FIRST_INIT = len(control.for_.operands)


def used_columns(value: Value, forms: IndexForms) -> int:
    """Return the number of the first columns of a tile that stores write and others use."""
    worklist, seen, used = [value], {value}, 0
    while worklist:
        value = worklist.pop()
        for user, position in value.uses:
            results = set(_same_columns(user, position))
            split = column_split(user)
            if split:
                low, high = (used_columns(sub_tile, forms) for sub_tile in split)
                used = max(used, low, high and high + int(value.type.shape[_COLUMNS]) // 2)
            elif user.defn is memory.store and position == user.defn.positions["value"]:
                used = max(used, _stored_columns(user, forms))
            elif not results:
                return int(value.type.shape[_COLUMNS])
            worklist += results - seen
            seen |= results
    return used


def _same_columns(user: Operation, position: int) -> Iterator[Value]:
    """Yield the values whose columns depend on the same columns of an operand alone."""
    parent = user.parent
    if user.defn is control.for_ and position >= _FIRST_INIT:
        yield user.regions[0].args[position - _FIRST_INIT + 1]
        yield user.results[position - _FIRST_INIT]
    elif user.defn is control.yield_ and parent is not None and parent.defn is control.for_:
        yield parent.regions[0].args[position + 1]
        yield parent.results[position]
    elif user.has_trait(Trait.DOT):
        if position == user.defn.positions["acc"]:
            yield user.result
    elif user.defn.elementwise and user.result.type.shape == user.inputs[position].type.shape:
        yield user.result


def _stored_columns(store: Operation, forms: IndexForms) -> int:
    """Return the number of the first columns that a store may write."""
    extents = store["value"].type.shape
    try:
        bounds = index_bounds(forms, store["mask"], extents)
    except NoFormError:
        return int(extents[_COLUMNS])
    numbers = [bound.number for bound in bounds.upper.get(_COLUMNS, ())]
    return min([int(extents[_COLUMNS]), *[number for number in numbers if number is not None]])
