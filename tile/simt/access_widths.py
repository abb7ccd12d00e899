"""Choose one vector width for accesses to tiles that pass values to each other.

Accesses are *connected* if elementwise operations lead from the data that one reads to the data
that another reads or writes: in a common layout nothing between them has to be converted. The
width of a layout is the number of contiguous elements per thread. A wide layout that suits an
aligned access makes an unaligned one, which takes its elements one by one, stride across lanes; a
narrow layout makes the aligned access take more instructions. The width with the least total cost
(`costs.access`) is chosen.

    %x = load %p    // aligned                    width 4    width 1
    %y = load %q    // one off                       2.2        3
    %z = add %x, %y                                  9          3
    store %r, %z    // aligned                       2.2        3

A separate layout for one of them does not pay: a conversion costs 8 for each 32-bit element, and
the best common width never costs that much more than the best width of each access alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tile.ir.core import Function, Operation, Value
from tile.ir.ops import arith, descriptor, memory
from tile.simt.costs import access
from tile.simt.target import SimtTarget

# Operations besides elementwise ones that compute each element from its operands' element there.
_IN_PLACE = frozenset({arith.hint, memory.addptr, descriptor.box_pointers})


@dataclass(frozen=True)
class Run:
    """A run of contiguous elements along one axis of an access; elements have `itemsize` bytes.

    `length` elements are contiguous, of which `vector`, aligned and under one mask value, can be
    accessed by one instruction.
    """

    itemsize: int
    length: int
    vector: int


def best_width(runs: Iterable[Run], most: int, target: SimtTarget) -> int:
    """Return the power of two up to `most` with the least cost; the widest of equal ones."""
    listed = list(runs)
    widest = min(most, max(run.vector for run in listed))
    widths = [1 << bit for bit in range(widest.bit_length())][::-1]
    if len(set(listed)) == 1:
        return widths[0]
    return min(widths, key=lambda width: sum(_cost(run, width, target) for run in listed))


def _cost(run: Run, width: int, target: SimtTarget) -> float:
    taken = min(run.vector, width)
    apart = width if run.length > width else None
    return access(run.itemsize, taken, apart, target.warp_size)


def tied(function: Function, accesses: Iterable[Operation]) -> dict[Operation, int]:
    """Return a group number for each access to a tile: equal for connected accesses."""
    ties = _Ties()
    numbers = {op: ties.new() for op in accesses}
    of: dict[Value, int] = {}
    for op in function.walk():
        own = numbers.get(op)
        in_place = op.defn in _IN_PLACE or (op.defn.elementwise and op.defn.pure)
        if own is None and not in_place:
            continue
        together = [*([] if own is None else [own]), *_present(of, op)]
        for number in together[1:]:
            ties.join(together[0], number)
        if together:
            of.update(dict.fromkeys(op.results, together[0]))
    return {op: ties.find(number) for op, number in numbers.items()}


def _present(of: dict[Value, int], op: Operation) -> Iterator[int]:
    return (of[value] for value in op.inputs if value in of)


class _Ties:
    """A union-find structure over numbers."""

    def __init__(self) -> None:
        self.parent: list[int] = []

    def new(self) -> int:
        self.parent.append(len(self.parent))
        return len(self.parent) - 1

    def find(self, number: int) -> int:
        while self.parent[number] != number:
            self.parent[number] = self.parent[self.parent[number]]
            number = self.parent[number]
        return number

    def join(self, x: int, y: int) -> None:
        self.parent[self.find(y)] = self.find(x)
