"""The transfer rule of `axis_info` for each operation.

`RULES` is the table of rules by operation: shape operations, which rename axes, arithmetic, and
hints.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from tile.analysis.axis_lattice import (
    MAX_DIVISIBILITY,
    AxisInfo,
    divisor,
    extents,
    least,
    uniform,
    unknown,
)
from tile.analysis.interval import magnitude
from tile.analysis.ranges import Ranges
from tile.ir.core import Operation
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith, descriptor, memory, shape
from tile.ir.ops import math as math_ops
from tile.ir.ops.arith import Predicate
from tile.ir.types import Pointer, Type, number_of

# Divisibility, contiguity and constancy along one axis.
Axis = tuple[int, int, int]


Facts = Sequence[AxisInfo | None]


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


Rule = Callable[[Operation, Facts, Ranges], AxisInfo]
# Contiguity and divisibility of an elementwise operation on integers or pointers, along one axis.
AxisRule = Callable[[Operation, AxisInfo, AxisInfo, int, Ranges], tuple[int, int]]


def _const(op: Operation, facts: Facts, ranges: Ranges) -> AxisInfo:
    value = op["value"]
    return uniform(op.result.type, divisor(value) if isinstance(value, int) else 1, value)


def _arange(op: Operation, facts: Facts, ranges: Ranges) -> AxisInfo:
    extent = op["end"] - op["start"]
    return AxisInfo((divisor(op["start"]),), (extent,), (1,))


def _present(facts: Facts) -> list[AxisInfo]:
    return [fact for fact in facts if fact is not None]


def _constancy(facts: Sequence[AxisInfo]) -> tuple[int, ...]:
    constant = facts[0].constant
    for fact in facts[1:]:
        constant = least(constant, fact.constant)
    return constant


def _elementwise(op: Operation, facts: Facts, ranges: Ranges) -> AxisInfo:
    """Return the constancy of the operands: equal operands have equal results."""
    constant = _constancy(_present(facts))
    ones = (1,) * len(constant)
    return AxisInfo(ones, ones, constant)


def _binary(rule: AxisRule) -> Rule:
    """Return a rule that takes contiguity and divisibility from `rule` for each axis.

    The result is constant along runs along which both operands are constant, or along which the
    operation maps different operands to equal results (see `_CONSTANCY`).
    """

    def apply(op: Operation, facts: Facts, ranges: Ranges) -> AxisInfo:
        x, y = _present(facts)
        pairs = [rule(op, x, y, axis, ranges) for axis in range(x.rank)]
        constant = list(_constancy((x, y)))
        divisible, contiguous = [], []
        for axis, (run, multiple) in enumerate(pairs):
            constant[axis] = max(constant[axis], _constant_run(op, x, y, axis, ranges))
            contiguous.append(run)
            divisible.append(min(multiple, MAX_DIVISIBILITY))
        return AxisInfo(tuple(divisible), tuple(contiguous), tuple(constant))

    return apply


def _add(op: Operation, x: AxisInfo, y: AxisInfo, axis: int, ranges: Ranges) -> tuple[int, int]:
    run = max(min(x.contiguous[axis], y.constant[axis]), min(x.constant[axis], y.contiguous[axis]))
    return run, min(x.at(axis, run), y.at(axis, run))


def _sub(op: Operation, x: AxisInfo, y: AxisInfo, axis: int, ranges: Ranges) -> tuple[int, int]:
    run = min(x.contiguous[axis], y.constant[axis])
    return run, min(x.at(axis, run), y.at(axis, run))


def _mul(op: Operation, x: AxisInfo, y: AxisInfo, axis: int, ranges: Ranges) -> tuple[int, int]:
    for side, other in ((x, y), (y, x)):
        if other.value == 1:
            return side.contiguous[axis], side.divisible[axis]
    return 1, x.at(axis, 1) * y.at(axis, 1)


def _shl(op: Operation, x: AxisInfo, y: AxisInfo, axis: int, ranges: Ranges) -> tuple[int, int]:
    count = y.value if isinstance(y.value, int) and 0 <= y.value < 64 else 0
    if y.value == 0:
        return x.contiguous[axis], x.divisible[axis]
    return 1, x.at(axis, 1) << count


def _div(op: Operation, x: AxisInfo, y: AxisInfo, axis: int, ranges: Ranges) -> tuple[int, int]:
    if y.value == 1:
        return x.contiguous[axis], x.divisible[axis]
    return 1, _quotient(x.at(axis, 1), y.value)


def _shr(op: Operation, x: AxisInfo, y: AxisInfo, axis: int, ranges: Ranges) -> tuple[int, int]:
    if y.value == 0:
        return x.contiguous[axis], x.divisible[axis]
    return 1, _quotient(x.at(axis, 1), _power(y.value))


def _quotient(multiple: int, by: bool | int | float | None) -> int:
    """Return the divisibility of an exact division by a power of two."""
    if not isinstance(by, int) or by <= 0 or by & (by - 1) or multiple < by:
        return 1
    return multiple // by


def _power(count: bool | int | float | None) -> int | None:
    return 1 << count if isinstance(count, int) and 0 <= count < 31 else None


def _rem(op: Operation, x: AxisInfo, y: AxisInfo, axis: int, ranges: Ranges) -> tuple[int, int]:
    """Return the contiguity and divisibility of a remainder.

    Remainders count up like the dividend within runs that do not cross a multiple of the divisor. A
    dividend that is always less than the divisor is its own remainder.
    """
    if _is_own_remainder(op, ranges):
        return x.contiguous[axis], x.divisible[axis]
    run = _uncut_run(x, y, axis) if _is_nonnegative(op, ranges) else 1
    return run, min(x.at(axis, run), y.at(axis, run))


def _is_own_remainder(op: Operation, ranges: Ranges) -> bool:
    dividend, divisor = ranges.operand(op, 0), ranges.operand(op, 1)
    if dividend is None or divisor is None:
        return False
    return magnitude(dividend).high < magnitude(divisor).low


def _and(op: Operation, x: AxisInfo, y: AxisInfo, axis: int, ranges: Ranges) -> tuple[int, int]:
    for side, mask in ((x, y.value), (y, x.value)):
        if isinstance(mask, int) and mask >= 0 and mask & (mask + 1) == 0:  # the low bits
            run = min(side.contiguous[axis], side.divisible[axis], mask + 1)
            return run, side.at(axis, run)
    return 1, max(x.at(axis, 1), y.at(axis, 1))


def _least_of_both(
    op: Operation, x: AxisInfo, y: AxisInfo, axis: int, ranges: Ranges
) -> tuple[int, int]:
    return 1, min(x.at(axis, 1), y.at(axis, 1))


def _addptr(op: Operation, x: AxisInfo, y: AxisInfo, axis: int, ranges: Ranges) -> tuple[int, int]:
    offset = op.operands[1]
    assert offset is not None
    y = _widened(y, offset.type, ranges)
    stride: int = op["stride"]
    run, _ = _add(op, x, y, axis, ranges)
    # Within a run of pointers, the first of a shorter run is a multiple of its length in
    # *elements*.
    base = x.divisible[axis] if run >= x.contiguous[axis] else min(x.divisible[axis], run * stride)
    return run, min(base, y.at(axis, run) * divisor(stride))


def _widened(info: AxisInfo, ty: Type, ranges: Ranges) -> AxisInfo:
    """Return the info of a value extended to more bits, whose runs must not wrap around."""
    element = number_of(ty)
    whole = element.bits == 64 or (element.is_int_signed() and not ranges.wraps)
    return info if whole else _aligned(info)


def _aligned(info: AxisInfo) -> AxisInfo:
    """Shorten runs so that they start at a multiple of their length and cross no power of two."""
    runs = least(info.contiguous, info.divisible)
    divisible = tuple(info.at(axis, run) for axis, run in enumerate(runs))
    return AxisInfo(divisible, runs, info.constant, info.value)


# -- constancy of results from operands that are not constant


def _uncut_run(x: AxisInfo, y: AxisInfo, axis: int) -> int:
    """Return the length of runs of `x` that cross no multiple of `y`, constant along them."""
    return min(x.contiguous[axis], x.divisible[axis], y.constant[axis], y.divisible[axis])


def _is_nonnegative(op: Operation, ranges: Ranges) -> bool:
    """Return True if the dividend is never negative, so that division rounds down."""
    dividend = ranges.operand(op, 0)
    return dividend is not None and dividend.low >= 0


def _constant_run(op: Operation, x: AxisInfo, y: AxisInfo, axis: int, ranges: Ranges) -> int:
    rule = _CONSTANCY.get(op.defn)
    return 1 if rule is None else rule(op, x, y, axis, ranges)


def _equal_quotients(op: Operation, x: AxisInfo, y: AxisInfo, axis: int, ranges: Ranges) -> int:
    return _uncut_run(x, y, axis) if _is_nonnegative(op, ranges) else 1


def _equal_shifted(op: Operation, x: AxisInfo, y: AxisInfo, axis: int, ranges: Ranges) -> int:
    power = _power(y.value)
    return 1 if power is None else min(x.contiguous[axis], x.divisible[axis], power)


def _equal_masked(op: Operation, x: AxisInfo, y: AxisInfo, axis: int, ranges: Ranges) -> int:
    runs = [1]
    for side, mask in ((x, y), (y, x)):
        if mask.value is not None:  # the low bits, which differ along a run, are cleared
            runs.append(min(side.contiguous[axis], side.divisible[axis], mask.everywhere))
    return max(runs)


def _equal_compared(op: Operation, x: AxisInfo, y: AxisInfo, axis: int, ranges: Ranges) -> int:
    """Return the constancy of `run < bound` or its negation.

    The comparison changes only at a multiple of the run's length.
    """
    predicate: Predicate = op["predicate"]
    if isinstance(op.inputs[0].type.element, Pointer):
        return 1  # runs of pointers count elements, but their multiples count bytes
    if predicate in (Predicate.LT, Predicate.GE):
        return _uncut_run(x, y, axis)
    return _uncut_run(y, x, axis) if predicate in (Predicate.GT, Predicate.LE) else 1


_CONSTANCY: dict[OpDef, Callable[[Operation, AxisInfo, AxisInfo, int, Ranges], int]] = {
    arith.div: _equal_quotients,
    arith.shr: _equal_shifted,
    arith.and_: _equal_masked,
    arith.cmp: _equal_compared,
}


# -- other elementwise operations


def _unary(op: Operation, facts: Facts, ranges: Ranges) -> AxisInfo:
    """Return the info of an operation such as `neg` that preserves multiples but not runs."""
    (x,) = _present(facts)
    ones = (1,) * x.rank
    return AxisInfo(tuple(x.at(axis, 1) for axis in range(x.rank)), ones, x.constant)


def _select(op: Operation, facts: Facts, ranges: Ranges) -> AxisInfo:
    condition, x, y = _present(facts)
    if condition.value is not None:
        return x if condition.value else y
    runs = least(least(x.contiguous, y.contiguous), condition.constant)
    divisible = tuple(min(x.at(axis, run), y.at(axis, run)) for axis, run in enumerate(runs))
    return AxisInfo(divisible, runs, _constancy((condition, x, y)))


def _cast(op: Operation, facts: Facts, ranges: Ranges) -> AxisInfo:
    (x,) = _present(facts)
    before, after = number_of(op.inputs[0].type), number_of(op.result.type)
    if not (before.is_int() and after.is_int()) or after.is_bool():
        return _elementwise(op, facts, ranges)
    same_bits = before.bits == after.bits and not after.is_int_signed()
    widens = before.is_int_signed() and after.bits > before.bits and after.is_int_signed()
    if same_bits or (widens and not ranges.wraps):
        return AxisInfo(*_parts(x))
    return AxisInfo(*_parts(_aligned(x)))


def _parts(info: AxisInfo) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    return info.divisible, info.contiguous, info.constant


def _bitcast(op: Operation, facts: Facts, ranges: Ranges) -> AxisInfo:
    before, after = op.inputs[0].type.element, op.result.type.element
    integers = all(isinstance(ty, Pointer) or ty.is_int() for ty in (before, after))
    return _unary(op, facts, ranges) if integers else _elementwise(op, facts, ranges)


def _hint(op: Operation, facts: Facts, ranges: Ranges) -> AxisInfo:
    """Return the inferred info strengthened by the hint.

    A hint counts up to the greatest power of two that divides it.
    """
    (x,) = _present(facts)
    shape_ = extents(op.result.type)
    contiguous = _with_hint(x.contiguous, op["contiguous"], shape_)
    divisible = _with_hint(x.divisible, op["divisible"], (MAX_DIVISIBILITY,) * x.rank)
    return AxisInfo(divisible, contiguous, _with_hint(x.constant, op["constant"], shape_), x.value)


def _with_hint(
    inferred: tuple[int, ...], claim: tuple[int, ...], most: Sequence[int]
) -> tuple[int, ...]:
    if not claim:
        return inferred
    return tuple(max(i, min(divisor(c), m)) for i, c, m in zip(inferred, claim, most, strict=True))


def _load(op: Operation, facts: Facts, ranges: Ranges) -> AxisInfo:
    """Return the constancy of addresses and masks; a volatile load may observe other writes."""
    return unknown(op.result.type) if op["volatile"] else _elementwise(op, facts, ranges)


RULES: dict[OpDef, Rule] = {
    arith.const: _const,
    arith.add: _binary(_add),
    arith.sub: _binary(_sub),
    arith.mul: _binary(_mul),
    arith.div: _binary(_div),
    arith.rem: _binary(_rem),
    arith.shl: _binary(_shl),
    arith.shr: _binary(_shr),
    arith.and_: _binary(_and),
    arith.or_: _binary(_least_of_both),
    arith.xor: _binary(_least_of_both),
    arith.min_: _binary(_least_of_both),
    arith.max_: _binary(_least_of_both),
    arith.cmp: _binary(lambda op, x, y, axis, ranges: (1, 1)),
    arith.neg: _unary,
    math_ops.abs_: _unary,
    arith.select: _select,
    arith.cast: _cast,
    arith.bitcast: _bitcast,
    arith.hint: _hint,
    memory.addptr: _binary(_addptr),
    memory.load: _load,
    descriptor.descriptor_pointers: lambda op, facts, ranges: _present(facts)[0],
    descriptor.im2col_pointers: lambda op, facts, ranges: _present(facts)[0],
    shape.arange: _arange,
    shape.splat: splat,
    shape.broadcast: broadcast,
    shape.expand_dims: expand_dims,
    shape.reshape: reshape,
    shape.trans: trans,
    shape.join: join,
    shape.split: split,
}


def rule_of(defn: OpDef) -> Rule | None:
    """Return the rule of an operation; None for one whose result has no known properties."""
    return RULES.get(defn, _elementwise if defn.elementwise else None)
