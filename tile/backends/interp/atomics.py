"""Atomic operations of many programs at once, as if performed in order of program.

If all addresses are distinct, they are updated together. If an address occurs several times, its
n-th occurrence is updated in step n. If the old values are not used, NumPy's `ufunc.at` updates one
element after the other.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tile.backends.interp.values import Array
from tile.ir import numerics
from tile.ir.ops.memory import RMWKind

Combine = Callable[[Array, Array], Array]

COMBINE: dict[RMWKind, Combine] = {
    RMWKind.ADD: numerics.add,
    RMWKind.MAX: numerics.maximum,
    RMWKind.MIN: numerics.minimum,
    RMWKind.AND: numerics.and_,
    RMWKind.OR: numerics.or_,
    RMWKind.XOR: numerics.xor,
    RMWKind.XCHG: lambda old, new: new,
}

# The ufuncs that combine as COMBINE does, for `ufunc.at`.
UFUNCS: dict[RMWKind, np.ufunc] = {
    RMWKind.ADD: np.add,
    RMWKind.MAX: np.fmax,
    RMWKind.MIN: np.fmin,
    RMWKind.AND: np.bitwise_and,
    RMWKind.OR: np.bitwise_or,
    RMWKind.XOR: np.bitwise_xor,
}


def update(flat: Array, index: Array, values: Array, kind: RMWKind) -> None:
    """Combine `values` into `flat[index]`, in order."""
    ufunc = UFUNCS.get(kind)
    if ufunc is None:
        flat[index] = values  # if an index occurs several times, NumPy keeps the last value
    else:
        ufunc.at(flat, index, values)


def exchange(flat: Array, index: Array, values: Array, kind: RMWKind) -> Array:
    """Combine `values` into `flat[index]`, in order; return the old value before each update."""
    combine = COMBINE[kind]
    old = np.empty(index.shape, flat.dtype)
    for lanes in _conflict_free_groups(index):
        cell = index[lanes]
        before = flat[cell]
        old[lanes] = before
        flat[cell] = combine(before, values[lanes])
    return old


def compare_and_swap(flat: Array, index: Array, expected: Array, values: Array) -> Array:
    """Write `values` where `flat[index]` holds the bits of `expected`; return the old values.

    An attempt that fails changes nothing, so all attempts at an address up to the first success see
    the same value. Each step therefore handles one success per address, not one attempt.
    """
    bits = np.dtype(f"u{flat.itemsize}")
    memory, expected_bits = flat.view(bits), expected.view(bits)
    old = np.empty(index.shape, bits)
    pending = np.arange(index.size)
    while pending.size:
        targets = index[pending]
        current = memory[targets]
        old[pending] = current
        matches = np.flatnonzero(current == expected_bits[pending])
        if not matches.size:
            break
        cells, cell = np.unique(targets, return_inverse=True)
        _, first = np.unique(cell[matches], return_index=True)
        winners = matches[first]
        memory[targets[winners]] = values.view(bits)[pending[winners]]
        # At an address with a success, later attempts are repeated.
        winner_of = np.full(len(cells), pending.size, np.intp)
        winner_of[cell[winners]] = winners
        pending = pending[np.arange(pending.size) > winner_of[cell]]
    return old.view(flat.dtype)


def _conflict_free_groups(index: Array) -> list[Array]:
    """Divide the positions of `index` into groups without repeats, earlier occurrences first."""
    order = np.argsort(index, kind="stable")
    sorted_index = index[order]
    is_first = np.empty(index.size, bool)
    is_first[:1] = True
    np.not_equal(sorted_index[1:], sorted_index[:-1], out=is_first[1:])
    if is_first.all():
        return [np.arange(index.size)]
    starts = np.flatnonzero(is_first)
    group = np.cumsum(is_first) - 1
    rank = np.arange(index.size) - starts[group]
    return [order[rank == n] for n in range(int(rank.max()) + 1)]
