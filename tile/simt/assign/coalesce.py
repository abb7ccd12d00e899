"""Coalesced layouts: adjacent lanes access contiguous elements of memory.

`axis_info` gives the contiguity of an access's pointers and mask along each axis of a tile. Axes
are ordered by contiguity. Along the first axis each thread takes as many elements as one
instruction can, as long as enough are left for all threads, and the next lane takes the elements
after them.

    %p: contiguous (1, 64), divisible (2, 16)      order (1, 0), vectors of 4 f32

Warps are distributed last, first along axes that no operation combines. So a warp holds whole
rows where rows are reduced, and row sums need no shared memory.

Connected accesses of one block to tiles of one shape and order have one vector width, so that
loaded values can be stored without a conversion. Accesses are *connected* if elementwise operations
lead from the data that one reads to the data that another reads or writes: in a common layout
nothing between them has to be converted. The width of a layout is the number of contiguous elements
per thread. A wide layout that suits an aligned access makes an unaligned one, which takes its
elements one by one, stride across lanes; a narrow layout makes the aligned access take more
instructions. The width with the least total cost (`layout_cost.access_cost`) is chosen.

    %x = load %p    // aligned                    width 4    width 1
    %y = load %q    // one off                       2.2        3
    %z = add %x, %y                                  9          3
    store %r, %z    // aligned                       2.2        3

A separate layout for one of them does not pay: a conversion costs 8 for each 32-bit element, and
the best common width never costs that much more than the best width of each access alone.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from tile.analysis.axis_info import AxisInfoResult, axis_info
from tile.ir.core import Function, Operation, Value
from tile.ir.effects import accesses_global
from tile.ir.module import Module
from tile.ir.op_definition import Trait
from tile.ir.ops import arith, descriptor, indexing, memory
from tile.ir.passes import module_pass
from tile.ir.printer import print_function
from tile.ir.types import Pointer, Tile
from tile.simt.assign.layout_cost import access_cost
from tile.simt.layouts.blocked import blocked, row_major, warp_striped
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.target import GENERIC, SimtTarget, atomic_vector_width

# Operations besides elementwise ones that compute each element from its operands' element there.
_IN_PLACE = frozenset({arith.hint, memory.addptr, *descriptor.BLOCK_POINTERS})


RANKED_BYTES = 4  # of elements that are loaded one by one for `rank`


@dataclass(frozen=True)
class ContiguousRun:
    """A run of contiguous elements along one axis of an access; elements have `itemsize` bytes.

    `length` elements are contiguous, of which `vector`, aligned and under one mask value, can be
    accessed by one instruction.
    """

    itemsize: int
    length: int
    vector: int


def vector_width_of(runs: Iterable[ContiguousRun], most: int, target: SimtTarget) -> int:
    """Return the power of two up to `most` with the least cost; the widest of equal ones."""
    listed = list(runs)
    widest = min(most, max(run.vector for run in listed))
    widths = [1 << bit for bit in range(widest.bit_length())][::-1]
    if len(set(listed)) == 1:
        return widths[0]
    return min(widths, key=lambda width: sum(_cost(run, width, target) for run in listed))


def _cost(run: ContiguousRun, width: int, target: SimtTarget) -> float:
    taken = min(run.vector, width)
    apart = width if run.length > width else None
    return access_cost(run.itemsize, taken, apart, target)


def connected_accesses(
    function: Function, accesses: Iterable[Operation]
) -> tuple[dict[Operation, int], set[int]]:
    """Return a group number for each access to a tile: equal for connected accesses.

    And the groups of which numbers are ranked.
    """
    ties = _UnionFind()
    ranked: set[int] = set()
    numbers = {op: ties.new() for op in accesses}
    of: dict[Value, int] = {}
    for op in function.walk():
        if op.defn in (indexing.rank, indexing.scatter):
            ranked.update(_present(of, op))
        own = numbers.get(op)
        in_place = op.defn in _IN_PLACE or (op.defn.elementwise and op.defn.pure)
        if own is None and not in_place:
            continue
        together = [*([] if own is None else [own]), *_present(of, op)]
        for number in together[1:]:
            ties.join(together[0], number)
        if together:
            of.update(dict.fromkeys(op.results, together[0]))
    return {op: ties.find(n) for op, n in numbers.items()}, set(map(ties.find, ranked))


def _present(of: dict[Value, int], op: Operation) -> Iterator[int]:
    return (of[value] for value in op.inputs if value in of)


class _UnionFind:
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


@dataclass(frozen=True)
class TileAccess:
    """The properties of an access to a tile in memory."""

    shape: tuple[int, ...]
    order: tuple[int, ...] | None  # axes by contiguity, longest first; None if none is contiguous
    vector: int  # contiguous elements along the first axis, aligned, under one mask value
    run: int  # contiguous elements along it, at any alignment
    itemsize: int  # bytes of an element
    connected: int = field(default=0, compare=False)  # equal for connected accesses
    combined: frozenset[int] = frozenset()  # axes along which tiles of the shape are combined
    ranked: bool = False  # the elements that are read, or numbers computed from them, are ranked

    def __str__(self) -> str:
        order = self.order or row_major(len(self.shape))
        return f"order ({', '.join(map(str, order))}), vectors of {self.vector}"


@lru_cache(maxsize=1024)
def distributed_layout(
    shape: tuple[int, ...],
    order: tuple[int, ...],
    vector: int,
    lanes: int,
    warps: int,
    combined: frozenset[int] = frozenset(),
) -> LinearLayout:
    """Return the layout with `vector` registers, then lanes, then warps along the axes in `order`.

    Warps are distributed along the `combined` axes last. Threads for which no elements are left
    hold copies; elements for which no threads are left take more registers.
    """
    size = [1] * len(shape)
    size[order[0]] = min(vector, shape[order[0]])
    left = [extent // held for extent, held in zip(shape, size, strict=True)]
    threads = _filled(left, order, lanes)
    others = sorted(order, key=combined.__contains__)
    return blocked(shape, size, threads, _filled(left, others, warps), order)


def _filled(left: list[int], order: Sequence[int], count: int) -> list[int]:
    """Distribute `count` over the axes, up to the extents `left`; the last axis takes the rest."""
    grid = [1] * len(left)
    for axis in order:
        grid[axis] = count if axis == order[-1] else min(count, left[axis])
        count //= grid[axis]
        left[axis] = max(1, left[axis] // grid[axis])
    return grid


def default_layout(
    tile: Tile, target: SimtTarget, num_warps: int, order: tuple[int, ...] | None = None
) -> LinearLayout:
    """Return the layout of an otherwise unconstrained tile: row-major unless `order` is given."""
    most = max(1, target.vector_bits // tile.of.storage_bits)
    vector = min(most, _share(tile.shape, target, num_warps))
    order = row_major(tile.rank) if order is None else order
    return distributed_layout(tile.shape, order, vector, target.warp_size, num_warps)


def _share(shape: Sequence[int], target: SimtTarget, num_warps: int) -> int:
    """Return the number of elements per thread if no thread is idle; at least 1."""
    return max(1, math.prod(shape) // (target.warp_size * num_warps))


def memory_accesses(
    function: Function, info: AxisInfoResult, target: SimtTarget
) -> dict[Operation, TileAccess]:
    """Return the properties of each access to a tile of a function."""
    ops = [op for op in function.walk() if accesses_global(op) and isinstance(op["ptr"].type, Tile)]
    ties, ranked = connected_accesses(function, ops)
    axes = _combined(function)
    return {
        op: replace(
            _access(op, info, target, ties[op]),
            combined=frozenset(axes.get(op.inputs[0].type.shape, ())),
            ranked=ties[op] in ranked,
        )
        for op in ops
    }


def _combined(function: Function) -> dict[tuple[int, ...], set[int]]:
    """Return, for each shape, the axes along which tiles of that shape are combined."""
    axes: dict[tuple[int, ...], set[int]] = {}
    for op in function.walk():
        if op.has_trait(Trait.COMBINE):
            shape = op.inputs[0].type.shape
            axes.setdefault(shape, set()).add(op["axis"] % len(shape))
    return axes


def _access(op: Operation, info: AxisInfoResult, target: SimtTarget, tie: int) -> TileAccess:
    ptr = op["ptr"]
    assert isinstance(ptr.type, Tile)
    assert isinstance(ptr.type.of, Pointer)
    itemsize = ptr.type.of.pointee.itemsize
    shape = ptr.type.shape
    facts = info.of(ptr)
    runs = [facts.vector(axis, itemsize) for axis in range(facts.rank)]
    # Axes with longer aligned runs first; of equal ones contiguous axes, then the last axis.
    ranked = sorted(
        range(len(shape)), key=lambda axis: (runs[axis], facts.contiguous[axis], axis), reverse=True
    )
    contiguous = any(facts.contiguous[axis] > 1 for axis in range(facts.rank))
    first = ranked[0]
    most = max(1, target.vector_bits // (8 * itemsize))
    at_once = atomic_vector_width(op, target) if op.has_trait(Trait.ATOMIC) else most
    vector = min(at_once, runs[first])
    if op["mask"] is not None:
        vector = min(vector, info.of(op["mask"]).constant[first])
    order = tuple(ranked) if contiguous else None
    return TileAccess(shape, order, vector, facts.contiguous[first], itemsize, tie)


def coalesced_layout(
    accesses: Mapping[Operation, TileAccess], target: SimtTarget, num_warps: int
) -> dict[Operation, LinearLayout]:
    """Return the layout of each access.

    An access without an order of its own takes that of another access of the same shape.
    """
    orders: dict[tuple[int, ...], tuple[int, ...]] = {}
    for each in accesses.values():
        if each.order is not None:
            orders.setdefault(each.shape, each.order)

    def order(access: TileAccess) -> tuple[int, ...]:
        return access.order or orders.get(access.shape) or row_major(len(access.shape))

    # Group by block: an access outside of a loop does not narrow one inside.
    groups: dict[Hashable, list[TileAccess]] = {}
    for op, each in accesses.items():
        groups.setdefault((op.block, each.shape, order(each), each.connected), []).append(each)
    widths = {
        key: vector_width_of(
            [ContiguousRun(access.itemsize, access.run, access.vector) for access in group],
            _share(group[0].shape, target, num_warps),
            target,
        )
        for key, group in groups.items()
    }
    layouts = {}
    for op, each in accesses.items():
        width = widths[op.block, each.shape, order(each), each.connected]
        threads = target.warp_size, num_warps
        layout = distributed_layout(each.shape, order(each), width, *threads, each.combined)
        # Where lanes read a line of memory at a time, it need not be converted to be ranked.
        if each.ranked and len(each.shape) == 1 and each.itemsize >= RANKED_BYTES:
            layout = warp_striped(each.shape[0], *threads) or layout
        layouts[op] = layout
    return layouts


@module_pass("print-coalescing")
def print_coalescing(module: Module, *, target: SimtTarget = GENERIC, num_warps: int = 4) -> None:
    """Print the order, vector width and layout of each access to a tile.

    They follow the access as a comment:

        %x = load %p : tile<64xf32>      %x = load %p // order (0), vectors of 4; #linear{...
    """
    for function in module:
        properties = memory_accesses(function, axis_info(function), target)
        layouts = coalesced_layout(properties, target, num_warps)

        def note(
            op: Operation | None,
            name: Callable[[Value], str],
            properties: Mapping[Operation, TileAccess] = properties,
            layouts: Mapping[Operation, LinearLayout] = layouts,
        ) -> str:
            return f"{properties[op]}; {layouts[op]}" if op is not None and op in properties else ""

        sys.stdout.write(print_function(function, note=note))
