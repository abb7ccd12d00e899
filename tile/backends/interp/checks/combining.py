"""Reductions and scans by a region, with marks: its operations hand them on element by element.

Marks go along with the elements: for each operand and mark, the region combines a tile of truths as
well. That doubles the work or more, so that elements alone are combined first, and again only if an
operation of the region marks a result (by a sum that wraps, say).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tile.backends.interp.checks.marked import Cause, Flag, Flags, Mark, Marked, bare, flag_of
from tile.backends.interp.checks.marked import marked as with_flags
from tile.backends.interp.checks.propagate import chosen
from tile.backends.interp.code import BlockCode
from tile.backends.interp.region import run_region
from tile.backends.interp.values import Array, Held, full
from tile.ir.core import Operation

Run = Callable[..., Any]
MARKS = tuple(Mark)


def combining(op: Operation, regions: dict[str, tuple[BlockCode, int]]) -> Run:
    """Return what an isolated operation runs; `regions` are made of instructions with marks."""
    assert op.defn.meaning is not None
    meaning = partial(op.defn.meaning, **op.attributes)
    shapes = [value.type.shape for value in op.inputs]
    ((name, code),) = regions.items()

    def run(wave: Any, *values: Held) -> Any:
        region = partial(run_region, wave, *code, select=chosen)
        elements = [full(bare(v), shape) for v, shape in zip(values, shapes, strict=True)]
        if not any(type(value) is Marked for value in values):
            attempt = Attempt(region)
            results = meaning(*elements, **{name: attempt})
            if attempt.clean:
                return results
        tracked = Tracked(region, len(values))
        tiles = tracked.tiles(elements, values)
        results = tracked.results(meaning(*tiles, **{name: tracked.combine}))
        return results[0] if len(results) == 1 else tuple(results)

    return run


class Attempt:
    """A region that combines elements alone; it is `clean` until it marks one."""

    def __init__(self, region: Run) -> None:
        self.region = region
        self.clean = True

    def __call__(self, *group: Array) -> list[Any]:
        results = self.region(*group)
        if any(type(result) is Marked for result in results):
            self.clean = False
        return [bare(result) for result in results]


class Tracked:
    """A region that combines elements and their marks.

    Tiles are those of the `count` operands, and then for each mark one of truths for each operand.
    """

    def __init__(self, region: Run, count: int) -> None:
        self.region = region
        self.count = count
        self.causes: dict[Mark, Cause] = {}

    def tiles(self, elements: Sequence[Array], values: Sequence[Held]) -> list[Array]:
        """Return the tiles of the operands."""
        return [*elements, *self._truths(elements, values)]

    def combine(self, *group: Array) -> list[Any]:
        """Combine two groups of tiles."""
        half = len(group) // 2
        results = self.region(*self._held(group[:half]), *self._held(group[half:]))
        elements = [np.asarray(bare(result)) for result in results]
        return [*elements, *self._truths(elements, results)]

    def results(self, tiles: Sequence[Array]) -> list[Held]:
        """Return the values that tiles stand for."""
        return self._held(tiles)

    def _truths(self, elements: Sequence[Array], values: Sequence[Held]) -> list[Array]:
        truths = []
        for mark in MARKS:
            for array, value in zip(elements, values, strict=True):
                flag = flag_of(value, mark)
                if flag is None:
                    truths.append(np.zeros(array.shape, np.bool_))
                    continue
                self.causes.setdefault(mark, flag.cause)
                extents = np.broadcast_shapes(array.shape, flag.where.shape)
                truths.append(np.broadcast_to(flag.where, extents))
        return truths

    def _held(self, tiles: Sequence[Array]) -> list[Held]:
        flags: list[dict[Mark, Flag]] = [{} for _ in range(self.count)]
        for at, where in enumerate(tiles[self.count :]):
            if where.any():
                mark = MARKS[at // self.count]
                flags[at % self.count][mark] = Flag(where, self.causes[mark])
        known: Sequence[Flags] = flags
        return [with_flags(x, f) for x, f in zip(tiles[: self.count], known, strict=True)]
