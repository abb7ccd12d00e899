"""Reductions and scans by a region, with poison that the region's operations propagate.

Poison is combined along with the elements: for each operand and kind of poison, the region also
combines a bool tile. That at least doubles the work. Plain operands are therefore combined without
poison first, and again with it only if an operation of the region poisons a result (a sum that
wraps, say).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tile.backends.interp.bytecode import BlockCode
from tile.backends.interp.sanitizer.poison import (
    Cause,
    Poisoned,
    PoisonKind,
    PoisonMask,
    PoisonMasks,
    plain_value,
    poison_of,
    with_poison,
)
from tile.backends.interp.sanitizer.propagation import select_poisoned
from tile.backends.interp.translate import run_region, semantics_of
from tile.backends.interp.values import Array, RegisterValue, full
from tile.ir.core import Operation

Run = Callable[..., Any]
KINDS = tuple(PoisonKind)


def combining(op: Operation, regions: dict[str, tuple[BlockCode, int]]) -> Run:
    """Return the function of an isolated operation; `regions` propagate poison inside."""
    semantics = semantics_of(op)
    shapes = [value.type.shape for value in op.inputs]
    ((name, code),) = regions.items()

    def run(batch: Any, *values: RegisterValue) -> Any:
        region = partial(run_region, batch, *code, select=select_poisoned)
        elements = [full(plain_value(v), shape) for v, shape in zip(values, shapes, strict=True)]
        if not any(type(value) is Poisoned for value in values):
            attempt = Attempt(region)
            results = semantics(*elements, **{name: attempt})
            if attempt.clean:
                return results
        tracked = TrackedRegion(region, len(values))
        tiles = [*elements, *tracked.masks(elements, values)]
        results = tracked.values(semantics(*tiles, **{name: tracked.combine}))
        return results[0] if len(results) == 1 else tuple(results)

    return run


class Attempt:
    """A region that combines elements alone; `clean` until it poisons one."""

    def __init__(self, region: Run) -> None:
        self.region = region
        self.clean = True

    def __call__(self, *group: Array) -> list[Any]:
        results = self.region(*group)
        if any(type(result) is Poisoned for result in results):
            self.clean = False
        return [plain_value(result) for result in results]


class TrackedRegion:
    """A region that combines elements and their poison.

    Its tiles are the `count` operands, followed, for each kind, by a bool tile for each operand.
    """

    def __init__(self, region: Run, count: int) -> None:
        self.region = region
        self.count = count
        self.causes: dict[PoisonKind, Cause] = {}

    def combine(self, *group: Array) -> list[Any]:
        """Combine two groups of tiles."""
        half = len(group) // 2
        results = self.region(*self.values(group[:half]), *self.values(group[half:]))
        elements = [np.asarray(plain_value(result)) for result in results]
        return [*elements, *self.masks(elements, results)]

    def masks(self, elements: Sequence[Array], values: Sequence[RegisterValue]) -> list[Array]:
        """Return the bool tiles of the poison of values."""
        masks = []
        for kind in KINDS:
            for array, value in zip(elements, values, strict=True):
                poison = poison_of(value, kind)
                if poison is None:
                    masks.append(np.zeros(array.shape, np.bool_))
                    continue
                self.causes.setdefault(kind, poison.cause)
                extents = np.broadcast_shapes(array.shape, poison.where.shape)
                masks.append(np.broadcast_to(poison.where, extents))
        return masks

    def values(self, tiles: Sequence[Array]) -> list[RegisterValue]:
        """Return the values that tiles stand for."""
        masks: list[dict[PoisonKind, PoisonMask]] = [{} for _ in range(self.count)]
        for index, where in enumerate(tiles[self.count :]):
            if where.any():
                kind = KINDS[index // self.count]
                masks[index % self.count][kind] = PoisonMask(where, self.causes[kind])
        masks_by_operand: Sequence[PoisonMasks] = masks
        return [
            with_poison(x, f) for x, f in zip(tiles[: self.count], masks_by_operand, strict=True)
        ]
