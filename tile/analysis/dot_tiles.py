"""Tiles of dots: whether dots multiply a tile, and the columns of a result that a kernel uses.

Those past the used columns may hold anything:

    %c = dot %a, %b, %acc : tile<128x256xf32>
    %d = cast %c : tile<128x256xf16>
    store %p, %d, (i2 < %m) and (i1 < 208)        // 208 columns of %c
"""

from __future__ import annotations

from collections.abc import Iterator

from tile.analysis.index_forms import IndexForms, NoFormError, index_bounds
from tile.ir.core import Operation, Value
from tile.ir.effects import is_pure
from tile.ir.op_definition import OpDef, Trait
from tile.ir.ops import control, memory, shape
from tile.ir.ops.dot import is_multiplied

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


def column_split(op: Operation) -> tuple[Value, Value] | None:
    """Return the sub-tiles of a split of columns that an operation begins, or None.

    Kernels write it as three operations:

        %y = reshape %x {shape = (128, 2, 128)} : tile<128x2x128xf32>      // %x : tile<128x256xf32>
        %z = trans %y {order = (0, 2, 1)} : tile<128x128x2xf32>
        %low, %high = split %z : tile<128x128xf32>, tile<128x128xf32>
    """
    if op.defn is not shape.reshape:
        return None
    *outer, columns = op.inputs[0].type.shape
    rank = len(outer)
    trans = _only_user(op, shape.trans)
    split = None if trans is None else _only_user(trans, shape.split)
    if (
        trans is None
        or split is None
        or tuple(op.result.type.shape) != (*outer, 2, columns // 2)
        or tuple(trans["order"]) != (*range(rank), rank + 1, rank)
    ):
        return None
    low, high = split.results
    return low, high


def _only_user(op: Operation, defn: OpDef) -> Operation | None:
    """Return the only operation that uses a result, once; None if it is of another kind."""
    users = [user for user, _ in op.result.uses]
    return users[0] if len(users) == 1 and users[0].defn is defn else None


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
