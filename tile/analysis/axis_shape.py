"""Transfer rules of `axis_info` for shape operations."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from tile.analysis.axis_value import AxisInfo, uniform, unknown
from tile.analysis.ranges import Ranges
from tile.ir.core import Operation

Facts = Sequence[AxisInfo | None]
# Divisibility, contiguity and constancy along one axis.
Axis = tuple[int, int, int]


def _only(facts: Facts) -> AxisInfo:
    (x,) = facts
    assert x is not None
    return x


def _axes(info: AxisInfo) -> list[Axis]:
    return list(zip(info.divisible, info.contiguous, info.constant, strict=True))


def _of(axes: Sequence[Axis], info: AxisInfo) -> AxisInfo:
    divisible, contiguous, constant = zip(*axes, strict=True)
    return AxisInfo(divisible, contiguous, constant, info.value)


def splat(op: Operation, facts: Facts, ranges: Ranges) -> AxisInfo:
    x = _only(facts)
    return uniform(op.result.type, x.divisible[0], x.value)


def broadcast(op: Operation, facts: Facts, ranges: Ranges) -> AxisInfo:
    x = _only(facts)
    pairs = zip(op.inputs[0].type.shape, op.result.type.shape, _axes(x), strict=True)
    return _of(
        [axis if before == after else (axis[0], 1, after) for before, after, axis in pairs], x
    )


def expand_dims(op: Operation, facts: Facts, ranges: Ranges) -> AxisInfo:
    x = _only(facts)
    axes = _axes(x)
    axes.insert(len(axes) + 1 + op["axis"], (x.everywhere, 1, 1))
    return _of(axes, x)


def trans(op: Operation, facts: Facts, ranges: Ranges) -> AxisInfo:
    x = _only(facts)
    axes = _axes(x)
    return _of([axes[axis] for axis in op["order"]], x)


def join(op: Operation, facts: Facts, ranges: Ranges) -> AxisInfo:
    """Return the info of two values joined along a new last axis; other axes have the meet."""
    x, y = facts
    assert x is not None
    assert y is not None
    both = x.join(y)
    same = both.value is not None
    pair = (min(x.everywhere, y.everywhere), 1, 2 if same else 1)
    return _of([*(_axes(both) if op.inputs[0].type.shape else []), pair], both)


def split(op: Operation, facts: Facts, ranges: Ranges) -> AxisInfo:
    """Return the info of either result, which lacks the last axis."""
    x = _only(facts)
    rest = _axes(x)[:-1]
    return _of(rest or [(x.everywhere, 1, 1)], x)


def reshape(op: Operation, facts: Facts, ranges: Ranges) -> AxisInfo:
    """Match groups of axes with equal numbers of elements.

    The result is exact for groups with a single axis on either side, and unknown for others.
    """
    x = _only(facts)
    before, after = op.inputs[0].type.shape, op.result.type.shape
    if x.value is not None or x.constant == before:
        return uniform(op.result.type, x.everywhere, x.value)
    axes: list[Axis] = []
    for old, new in _matched(before, after):
        inside = [(before[axis], _axes(x)[axis]) for axis in old]
        axes.extend(_regrouped(inside, [after[axis] for axis in new], x.everywhere))
    return _of(axes, x) if len(axes) == len(after) else unknown(op.result.type)


def _matched(before: Sequence[int], after: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
    """Yield minimal groups of consecutive axes of both shapes with equal numbers of elements."""
    i = j = 0
    while i < len(before) or j < len(after):
        old: list[int] = []
        new: list[int] = []
        have, want = 1, 1
        while have != want or not (old or new) or have == 1:
            if i < len(before) and (have <= want or j == len(after)):
                have *= before[i]
                old.append(i)
                i += 1
            elif j < len(after):
                want *= after[j]
                new.append(j)
                j += 1
            else:
                break
        yield old, new


def _regrouped(old: Sequence[tuple[int, Axis]], new: Sequence[int], everywhere: int) -> list[Axis]:
    """Return the info of `old` axes (extent and facts) after a reshape to extents `new`."""
    old = [(extent, axis) for extent, axis in old if extent > 1]
    wide = [extent for extent in new if extent > 1]
    if not old:
        return [(everywhere, 1, 1) for _ in new]
    if len(wide) == 1:
        axes = [_merged(old)]
    elif len(old) == 1:
        axes = _split(old[0][1], wide)
    else:
        axes = [(everywhere, 1, 1) for _ in wide]
    rest = iter(axes)
    return [next(rest) if extent > 1 else (everywhere, 1, 1) for extent in new]


def _merged(old: Sequence[tuple[int, Axis]]) -> Axis:
    """Return the info of several axes merged into one.

    Runs are those of the last axis; constancy extends across axes that are wholly constant.
    """
    divisible, contiguous, constant = old[-1][1]
    reach = old[-1][0]
    for extent, axis in reversed(old[:-1]):
        if constant < reach:
            break
        constant *= axis[2]
        reach *= extent
    return divisible, contiguous, constant


def _split(axis: Axis, new: Sequence[int]) -> list[Axis]:
    """Return the info of one axis split into several: only the last one keeps the runs."""
    divisible, contiguous, constant = axis
    everywhere = divisible if contiguous == 1 else 1
    axes: list[Axis] = []
    for index, extent in enumerate(new[:-1]):
        inner = math.prod(new[index + 1 :])
        axes.append((everywhere, 1, min(extent, max(1, constant // inner))))
    last = new[-1]
    start = divisible if last >= contiguous else min(divisible, last)
    return [*axes, (start, min(contiguous, last), min(constant, last))]
