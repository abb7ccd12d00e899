"""Atomic updates of many programs at once, with the results of a sequence in order of program.

`flat` is a buffer, and `index` the element of it that each update changes. Updates of one element
form a *segment*: the updates are sorted by element, in a stable order. No function loops over
updates or elements.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tile.backends.interp.values import Array
from tile.ir.ops.memory import RMWKind

DIGIT_BITS = 16

UFUNCS: dict[RMWKind, np.ufunc] = {
    RMWKind.ADD: np.add,
    RMWKind.MAX: np.fmax,
    RMWKind.MIN: np.fmin,
    RMWKind.AND: np.bitwise_and,
    RMWKind.OR: np.bitwise_or,
    RMWKind.XOR: np.bitwise_xor,
}


def update_in_order(flat: Array, index: Array, values: Array, kind: RMWKind) -> None:
    """Combine `values` into `flat[index]`, in order."""
    ufunc = UFUNCS.get(kind)
    if ufunc is None:
        flat[index] = values  # if an index occurs several times, NumPy keeps the last value
    else:
        ufunc.at(flat, index, values)


def exchange(flat: Array, index: Array, values: Array, kind: RMWKind) -> Array:
    """Combine `values` into `flat[index]`, in order; return the old value before each update."""
    segments = Segments.of(index)
    ordered = values[segments.order]
    before = flat[segments.cells]
    if kind.exchanges:
        seen = np.empty(index.shape, flat.dtype)
        seen[1:] = ordered[:-1]
        seen[segments.starts] = before
        after = ordered[segments.starts + segments.lengths - 1]
    else:
        seen, after = _running(UFUNCS[kind], segments, before, ordered)
    flat[segments.cells] = after
    old = np.empty_like(seen)
    old[segments.order] = seen
    return old


def compare_and_swap(flat: Array, index: Array, expected: Array, values: Array) -> Array:
    """Write `values` where `flat[index]` holds the bits of `expected`; return the old values.

    An attempt that fails changes nothing. After a success, the next one is therefore the first
    later attempt in the segment that expects the value which was written. That successor of an
    attempt does not depend on its own success. So all successors are searched first, and the
    successes are then those that can be reached from the first one of each segment.
    """
    bits = np.dtype(f"u{flat.itemsize}")
    segments = Segments.of(index)
    if not index.size:
        return np.empty(0, flat.dtype)
    wanted, written = (x.view(bits)[segments.order] for x in (expected, values))
    before = flat.view(bits)[segments.cells]
    first, successor = _successors(segments, before, wanted, written)
    success = _reachable(first, successor)
    # The last success before each attempt, by position; -1 if there is none in the segment.
    latest = np.maximum.accumulate(np.where(success, np.arange(index.size), -1))
    previous = np.concatenate([[-1], latest[:-1]])
    starts = segments.spread(segments.starts)
    seen = np.where(previous >= starts, written[previous], segments.spread(before))
    last = latest[segments.starts + segments.lengths - 1]
    after = np.where(last >= segments.starts, written[last], before)
    flat.view(bits)[segments.cells] = after
    old = np.empty_like(seen)
    old[segments.order] = seen
    return old.view(flat.dtype)


@dataclass(frozen=True)
class Segments:
    """Updates sorted by element.

    order: the positions of the updates in sorted order. cells, starts, lengths: of each segment,
    its element, its first sorted position and its number of updates.
    """

    order: Array
    cells: Array
    starts: Array
    lengths: Array

    @cached_property
    def numbers(self) -> Array:
        """The segment of each sorted position."""
        return self.spread(np.arange(self.lengths.size))

    def spread(self, values: Array) -> Array:
        """Return, for each sorted position, the value of its segment."""
        spread: Array = np.repeat(values, self.lengths)
        return spread

    @staticmethod
    def of(index: Array) -> Segments:
        """Return the segments of updates of these elements."""
        order = _stable_order(index)
        ordered = index[order]
        is_first = np.ones(index.size, bool)
        np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
        starts = np.flatnonzero(is_first)
        lengths = np.diff(starts, append=index.size)
        return Segments(order, ordered[starts], starts, lengths)


def _stable_order(index: Array) -> Array:
    """Return the positions of the elements in a stable order, by a radix sort.

    NumPy sorts 16-bit integers by radix: one digit takes a tenth of the time of a stable sort of
    64-bit integers, and most buffers need one or two.
    """
    rest = index - index.min() if index.size else index
    order = np.argsort(rest.astype(np.uint16), kind="stable")
    for shift in range(DIGIT_BITS, int(rest.max(initial=0)).bit_length(), DIGIT_BITS):
        digit = (rest >> shift).astype(np.uint16)
        order = order[np.argsort(digit[order], kind="stable")]
    return order


def _running(
    ufunc: np.ufunc, segments: Segments, before: Array, values: Array
) -> tuple[Array, Array]:
    """Return the old value of each update, in sorted order, and each segment's final value."""
    if ufunc is np.add and values.dtype.kind in "iu":
        return _running_sums(segments, before, values)
    return _running_in_order(ufunc, segments, before, values)


def _running_sums(segments: Segments, before: Array, values: Array) -> tuple[Array, Array]:
    """Subtract, from running sums of all updates, the sum of the segments before. Sums wrap."""
    sums = np.cumsum(values, dtype=values.dtype)
    base = before - sums[segments.starts] + values[segments.starts]
    after = base + sums[segments.starts + segments.lengths - 1]
    sums -= values
    sums += segments.spread(base)
    return sums, after


def _running_in_order(
    ufunc: np.ufunc, segments: Segments, before: Array, values: Array
) -> tuple[Array, Array]:
    """Return what `_running` returns, combined in the order of the updates.

    `ufunc.accumulate` combines the rows of a table, one for each segment, from left to right, as
    floats are rounded in that order. Segments whose lengths have the same bit length share a table,
    so the tables together have less than three times as many elements as there are updates.
    """
    seen, after = np.empty_like(values), np.empty_like(before)
    size_class = np.frexp(segments.lengths)[1]
    for number in np.unique(size_class):
        rows = np.flatnonzero(size_class == number)
        lengths = segments.lengths[rows]
        column = np.arange(lengths.max())
        inside = column < lengths[:, None]
        position = np.where(inside, segments.starts[rows, None] + column, 0)
        table = np.concatenate([before[rows, None], values[position]], axis=1)
        running = ufunc.accumulate(table, 1, table.dtype)
        seen[position[inside]] = running[:, :-1][inside]
        after[rows] = running[np.arange(rows.size), lengths]
    return seen, after


def _successors(
    segments: Segments, before: Array, wanted: Array, written: Array
) -> tuple[Array, Array]:
    """Return the first success of each segment, and the successor of each attempt.

    All are sorted positions; the number of attempts stands for none.
    """
    count = wanted.size
    # Number the pairs of segment and value that occur, as attempts expect or memory holds them.
    _, values = np.unique(np.concatenate([wanted, written, before]), return_inverse=True)
    numbers = np.concatenate([segments.numbers, segments.numbers, np.arange(before.size)])
    _, pairs = np.unique(numbers * (values.max() + 1) + values, return_inverse=True)
    expects, writes, holds = np.split(pairs, [count, 2 * count])
    # Attempts by pair, then position. A search finds the first of a pair from a position on.
    keys = np.sort(expects * (count + 1) + np.arange(count))

    def find(pair: Array, start: Array) -> Array:
        key = keys[np.minimum(np.searchsorted(keys, pair * (count + 1) + start), count - 1)]
        match = (key // (count + 1) == pair) & (key % (count + 1) >= start)
        return np.where(match, key % (count + 1), count)

    return find(holds, segments.starts), find(writes, np.arange(1, count + 1))


def _reachable(first: Array, successor: Array) -> Array:
    """Return a mask of the positions on the chains of successors from `first`.

    Each iteration doubles the number of successors that a step skips and the length of the chains.
    """
    count = successor.size
    step = np.append(successor, count)
    reached = np.zeros(count + 1, bool)
    reached[first] = True
    while (step[:-1] < count).any():
        reached[step[reached]] = True
        step = step[step]
    return reached[:count]
