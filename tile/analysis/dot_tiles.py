"""Tiles of dots: whether dots multiply a tile, and the parts of operands and results that matter.

Columns of a result past those that a kernel uses may hold anything:

    %c = dot %a, %b, %acc : tile<128x256xf32>
    %d = cast %c : tile<128x256xf16>
    store %p, %d, (i2 < %m) and (i1 < 208)        // 208 columns of %c

Past the depth of a dot, both operands are zero:

    %a = load %p, (i2 < %m) and (i1 < 96), 0 : tile<128x128xf16>
    %b = load %q, (i2 < 96), 0 : tile<128x64xf16>
    %c = dot %a, %b, %acc : tile<128x64xf32>      // a depth of 96
"""

from __future__ import annotations

from collections.abc import Iterator

from tile.analysis.index_forms import moved_axes
from tile.ir.core import Operation, Value
from tile.ir.effects import constant_of, is_pure
from tile.ir.op_definition import OpDef, Trait
from tile.ir.ops import arith, control, memory, shape
from tile.ir.ops.arith import Predicate
from tile.ir.ops.dot import is_multiplied

_ROWS, _COLUMNS = -2, -1  # the axes
_BELOW = {Predicate.LT: 0, Predicate.LE: 1}  # and the end of numbers up to one
_FIRST_INIT = len(control.for_.operands)


def used_columns(value: Value) -> int:
    """Return the number of the first columns of a tile that stores write and others use."""
    worklist, seen, used = [value], {value}, 0
    while worklist:
        value = worklist.pop()
        for user, position in value.uses:
            results = set(_same_columns(user, position))
            split = column_split(user)
            if split:
                low, high = map(used_columns, split)
                used = max(used, low, high and high + int(value.type.shape[_COLUMNS]) // 2)
            elif user.defn is memory.store and position == user.defn.positions["value"]:
                columns = int(value.type.shape[_COLUMNS])
                used = max(used, _true_extent(user["mask"], _COLUMNS, columns))
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
    elif _adds_unit_axes(user) or (
        user.defn.elementwise and user.result.type.shape == user.inputs[position].type.shape
    ):
        yield user.result


def _adds_unit_axes(op: Operation) -> bool:
    """Return True for a reshape that only adds or removes leading axes of one element."""
    if op.defn is not shape.reshape:
        return False
    before, after = (list(value.type.shape) for value in (op.inputs[0], op.result))
    count = min(len(before), len(after))
    return before[-count:] == after[-count:] and {*before[:-count], *after[:-count]} <= {1}


def multiplied_depth(dot: Operation) -> int:
    """Return the number of the first elements along k past which both operands are zero."""
    a, b = dot.inputs[:2]
    return max(_nonzero_extent(a, _COLUMNS), _nonzero_extent(b, _ROWS))


def _nonzero_extent(value: Value, axis: int) -> int:
    """Return the number of the first indices along an axis past which a tile is zero."""
    op, extent = value.op, int(value.type.shape[axis])
    if op is None:
        return extent
    if op.defn is memory.load:
        other = op["other"]
        zero = other is not None and constant_of(other) == 0
        return _true_extent(op["mask"], axis, extent) if zero else extent
    if op.defn is arith.cast or _adds_unit_axes(op):
        return _nonzero_extent(op.inputs[0], axis)
    before = _axis_before(op, axis)
    return extent if before is None else _nonzero_extent(op.inputs[0], before)


def _true_extent(mask: Value | None, axis: int, extent: int) -> int:
    """Return the number of the first indices along an axis past which a mask is false."""
    op = None if mask is None else mask.op
    if op is None:
        return extent
    if op.defn is arith.and_:
        return min(_true_extent(operand, axis, extent) for operand in op.inputs)
    if op.defn is arith.cmp and op["predicate"] in _BELOW:
        start, end = _first_number(op.inputs[0], axis), constant_of(op.inputs[1])
        if start is None or end is None:
            return extent
        return max(0, min(extent, int(end) + _BELOW[op["predicate"]] - start))
    before = _axis_before(op, axis)
    return extent if before is None else _true_extent(op.inputs[0], before, extent)


def _first_number(value: Value, axis: int) -> int | None:
    """Return the first of the numbers of a tile that count up along an axis; None for others."""
    op = value.op
    if op is None:
        return None
    if op.defn is shape.arange:
        return int(op["start"])
    if op.defn is arith.cast and value.type.element.bits >= op.inputs[0].type.element.bits:
        start = _first_number(op.inputs[0], axis)
        return None if start is None or start < 0 else start
    if op.defn is arith.add and (number := constant_of(op.inputs[1])) is not None:
        start = _first_number(op.inputs[0], axis)
        return None if start is None else start + int(number)
    before = _axis_before(op, axis)
    return None if before is None else _first_number(op.inputs[0], before)


def _axis_before(op: Operation, axis: int) -> int | None:
    """Return the axis of an operand that a shape operation moves to an axis of its result."""
    moved = moved_axes(op)
    if moved is None or not op.inputs[0].type.shape:
        return None
    extents, extent = op.inputs[0].type.shape, op.result.type.shape[axis]
    axes = (n for n in range(-len(extents), 0) if moved(n) == axis and extents[n] == extent)
    return next(axes, None)


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
