"""Shared layouts for a tile that is stored once, and loaded in several layouts.

An offset in shared memory consists of linear functions of the element's coordinates, over F2, one
per bit: the lowest give its position in a vector, those up to `line` its bank, and the rest the
line. An access moves a vector for each lane, and lanes that share a wavefront have no conflict if
the functions of position and bank are injective on the space that these lanes walk, together with
their vectors. So each access gives a space on which these functions must have the kernel 0. They
are chosen one after the other, each so that it halves what the earlier ones left of every space.

For two accesses there always is such a choice (`conversion`). For three there need not be:
where lanes of one walk a, of another b, and of a third a + b, one function cannot distinguish all
three from 0. Then the layout with the fewest wavefronts of those for two is taken.

    >>> from tile.simt.layouts.blocked import blocked
    >>> rows = blocked([32, 32], [1, 4], [4, 8], [1, 1])
    >>> columns = blocked([32, 32], [4, 4], [8, 1], [1, 4])
    >>> layout = shared_layout(rows, (rows, columns), 32)
    >>> [shared_access(x, layout, 32).conflicts(32) for x in (rows, columns)]
    [0, 0]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import combinations
from operator import xor

from tile.simt.layouts import f2
from tile.simt.layouts.conversion import conflict_free
from tile.simt.layouts.dims import LANE, OFFSET, REGISTER, WARP, Dims, bits_of, log2_of
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.layouts.shared_access import BANKS, Banks, shared_access
from tile.simt.layouts.swizzle import simd_layout

# The number of coordinates that a function of the bank sums, at most.
TERMS = 3


@lru_cache(maxsize=1024)
def shared_layout(
    store: LinearLayout,
    loads: tuple[LinearLayout, ...],
    element_bits: int,
    banks: Banks = BANKS,
    head: tuple[int, ...] = (),
    *,
    exact: bool = False,
) -> LinearLayout:
    """Return the shared layout to store and load a tile with few wavefronts.

    All layouts are of (register, lane, warp) and have one order of axes. The vectors of the store
    begin with `head`; with `exact` they are no longer than that.
    """
    loads = tuple(dict.fromkeys(loads))
    if banks.simd_width > 1 and not head:
        return simd_layout(store, loads, banks.simd_width)
    stores = banks.up_to(element_bits << len(head)) if exact else banks

    def cost(layout: LinearLayout) -> tuple[int, int]:
        """Return the wavefronts, and how many of them are for bank conflicts."""
        total = conflicts = 0
        for x, own in ((store, stores), *((load, banks) for load in loads)):
            access = shared_access(x, layout, element_bits, own)
            times = len(access.registers) << x.in_bits(WARP)
            every, vain = access.wavefronts_each(element_bits, banks)
            total, conflicts = total + times * every, conflicts + times * vain
        return total, conflicts

    costs = {
        x: cost(x) for x in (conflict_free(store, y, element_bits, banks, head) for y in loads)
    }
    if all(conflicts > 0 for _, conflicts in costs.values()):
        own = len(head) if exact else None
        layout = _Search.of(store, loads, own, element_bits, banks).layout(head)
        if layout is not None:
            costs[layout] = cost(layout)
    return min(costs, key=costs.__getitem__)


@dataclass(frozen=True)
class _Side:
    """The spaces that registers, lanes and threads walk; `most` is the bits of a vector."""

    registers: list[int]
    lanes: tuple[int, ...]
    threads: list[int]
    warps: int  # bits that number them
    most: int

    @classmethod
    def of(cls, layout: LinearLayout, most: int) -> _Side:
        registers, lanes = layout.images(REGISTER), layout.images(LANE)
        threads = f2.basis([*lanes, *layout.images(WARP)])
        return cls(f2.basis(registers), lanes, threads, layout.in_bits(WARP), most)

    def vector(self, units: Sequence[int]) -> int:
        """Return how many of the units, which are the offset's low bits, its vectors have."""
        count = 0
        while (
            count < min(len(units), self.most)
            and not f2.extend(self.registers, [units[count]])
            and f2.extend([*self.threads, *units[:count]], [units[count]])
        ):
            count += 1
        return count

    @property
    def own(self) -> list[int]:
        """The vectors that registers walk and threads do not."""
        return [column for column in self.registers if f2.extend(self.threads, [column])]


@dataclass(frozen=True)
class _Search:
    """A search; the store is the first side. `word` and `line` count offset bits."""

    sides: tuple[_Side, ...]
    outs: Dims
    widest: int
    word: int
    line: int

    @classmethod
    def of(
        cls,
        store: LinearLayout,
        loads: Sequence[LinearLayout],
        most: int | None,
        element_bits: int,
        banks: Banks,
    ) -> _Search:
        widest = log2_of(max(1, banks.vector_bits // element_bits), "the elements of a vector")
        word = log2_of(max(1, banks.word_bits // element_bits), "the elements of a word")
        line = log2_of(banks.line_bits // element_bits, "the elements of a line")
        sides = [_Side.of(store, widest if most is None else most)]
        sides += [_Side.of(load.transpose_outs(*store.out_dims), widest) for load in loads]
        return cls(tuple(sides), store.outs, widest, word, line)

    def layout(self, head: Sequence[int]) -> LinearLayout | None:
        """Return a layout without conflicts, with the vectors that take the fewest wavefronts."""
        for units in sorted(dict.fromkeys(self.vectors(head)), key=self.wavefronts):
            functions = self.functions(units)
            if functions is not None:
                return LinearLayout(((OFFSET, tuple(_dual(functions))),), self.outs)
        return None

    def vectors(self, head: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """Yield vectors that begin with `head`, and continue with units that registers walk.

        Units that the registers of all sides walk suit all; those of one side may be walked by
        lanes of the store.
        """
        store, *loads = self.sides
        shared = store.own
        for side in loads:
            shared = f2.intersection(shared, side.own)
        more = [shared]
        for side in loads:
            walked = f2.intersection(f2.basis(store.lanes), side.own)
            more += [f2.intersection(store.own, side.own), walked, side.own]
        for units in more:
            for count in range(len(head), self.widest + 1):
                yield (*head, *f2.extend(head, units)[: count - len(head)])

    def wavefronts(self, units: Sequence[int]) -> int:
        """Return the wavefronts of all accesses with such vectors, if none is for a conflict."""
        total = 0
        for side in self.sides:
            width = side.vector(units)
            groups = max(0, len(side.lanes) - self.together(width))
            total += 1 << len(side.registers) - width + groups + side.warps
        return total

    def together(self, width: int) -> int:
        """Return the bits that number lanes of one wavefront, for vectors of `width` bits."""
        return self.line - max(width, self.word)

    def functions(self, units: Sequence[int]) -> list[int] | None:
        """Return functions of coordinates, as masks of their bits, for each bit of the offset.

        The low ones are 1 at one of the units each. None if banks cannot distinguish all vectors.
        """
        widths = [side.vector(units) for side in self.sides]
        if max(widths) < len(units):
            return None
        spaces = [self.apart(side, units, n) for side, n in zip(self.sides, widths, strict=True)]
        free = _dual([*units, *f2.extend(units, self.space)])[len(units) :]
        inside = max(0, self.word - len(units))  # bits of a word that no vector has
        rows: list[int] = []
        for bit in range(self.line - inside):
            choice = self.position_function(units, bit, widths) if bit < len(units) else (0, free)
            if choice is None:
                return None
            if bit < min(self.word, len(units)):
                rows.append(choice[0])
                continue
            row = _halving(*choice, rows, spaces, self.line - inside - bit)
            if row is None:
                return None
            rows.append(row)
            spaces = [_zeros(row, space) for space in spaces]
        rest = f2.extend(rows, free)
        at = len(units)
        return [*rows[:at], *rest[:inside], *rows[at:], *rest[inside:]]

    @property
    def space(self) -> list[int]:
        return f2.units(bits_of(self.outs))

    def position_function(
        self, units: Sequence[int], number: int, widths: Sequence[int]
    ) -> tuple[int, list[int]] | None:
        """Return a function that is 1 at one of the units, and 0 at the starts of vectors.

        Also return the functions that can be added to it. None if threads begin within vectors.
        """
        zeros = [*units[:number], *units[number + 1 :]]
        for side, width in zip(self.sides, widths, strict=True):
            zeros += side.threads if width > number else []
        zeros, unit = f2.basis(zeros), units[number]
        if not f2.extend(zeros, [unit]):
            return None
        base, *others = _dual([unit, *zeros, *f2.extend([unit, *zeros], self.space)])
        return base, others[len(zeros) :]

    def apart(self, side: _Side, units: Sequence[int], width: int) -> list[int]:
        """Return the space walked by lanes that share a wavefront, and vectors beyond a word."""
        return f2.basis([*units[self.word : width], *side.lanes[: self.together(width)]])


def _dual(vectors: Sequence[int]) -> list[int]:
    """Return the dual basis, as masks: functions that are 1 at one vector of a basis, else 0.

    And for such functions, the basis.
    """
    bits = len(vectors)
    elimination = f2.Elimination()
    for number, vector in enumerate(vectors):
        elimination.define(vector, 1 << number)
    images = [elimination.image(1 << bit) or 0 for bit in range(bits)]
    return [
        sum((image >> number & 1) << bit for bit, image in enumerate(images))
        for number in range(bits)
    ]


def _at(function: int, vector: int) -> int:
    return (function & vector).bit_count() & 1


def _zeros(function: int, space: Sequence[int]) -> list[int]:
    """Return a basis of the kernel of a function in a space."""
    ones = [vector for vector in space if _at(function, vector)]
    return [vector for vector in space if not _at(function, vector)] + [
        vector ^ ones[0] for vector in ones[1:]
    ]


def _halving(
    base: int,
    free: Sequence[int],
    chosen: Sequence[int],
    spaces: Sequence[Sequence[int]],
    remaining: int,
) -> int | None:
    """Return a sum of `base` and few functions of `free` that is not 0 on the spaces.

    With `remaining` functions left to choose, it must not be 0 on those spaces that the later
    functions cannot separate alone, and on as many others as possible. It is independent of those
    `chosen`. None if there is none.
    """
    best, score = None, -1
    for terms in range(TERMS + 1):
        for some in combinations(free, terms):
            row = reduce(xor, some, base)
            halved = [any(_at(row, vector) for vector in space) for space in spaces]
            left = [len(space) - h for space, h in zip(spaces, halved, strict=True)]
            if sum(halved) <= score or max(left) >= remaining or not f2.extend(chosen, [row]):
                continue
            best, score = row, sum(halved)
            if score == sum(map(bool, spaces)):
                return best
    return best
