"""Propagation of poison through operations.

A rule returns the poisoned elements of the results, from those of the operands (None: no element)
and the operands themselves. An elementwise operation poisons an element of its result if that
element of any operand is poisoned. Every other operation has a rule here; translation refuses an
operation without one.

Poison is combined along with the elements of a reduction or scan by a region: for each operand and
kind of poison, the region also combines a bool tile. That at least doubles the work. Plain operands
are therefore combined without poison first, and again with it only if an operation of the region
poisons a result (a sum that wraps, say).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any, TypeAlias

import numpy as np

from tile.backends.interp.bytecode import BlockCode, Run, rule_in
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
from tile.backends.interp.translate import run_region, semantics_of
from tile.backends.interp.values import Array, RegisterValue, array_of, full
from tile.ir import semantics
from tile.ir.core import Operation
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith, descriptor, dot, indexing, memory, shape
from tile.ir.ops import reduce as reductions
from tile.ir.types import I1, number_of

PoisonedElements: TypeAlias = "Array | None"
Rule = Callable[[Operation, Sequence[PoisonedElements], Sequence[Any]], Any]
RULES: dict[OpDef, Rule] = {}

MOVES = (
    shape.splat,
    shape.broadcast,
    shape.expand_dims,
    shape.reshape,
    shape.trans,
    shape.flip,
    shape.join,
    shape.split,
)
# Code that computes with bits, as a hash does, means the wrapped number. WRAPPED and STRAYED
# propagate through all operations but these.
BITWISE = frozenset({arith.and_, arith.or_, arith.xor, arith.not_, arith.shr, arith.mulhi})


def propagates_wrapping(op: Operation) -> bool:
    """Return True if an operation propagates WRAPPED and STRAYED; bit operations on i1 do."""
    bitwise = op.defn in BITWISE
    if op.defn in (reductions.reduce, reductions.scan):
        bitwise = op["kind"].bitwise
    return not bitwise or op.results[0].type.element == I1


rule = rule_in(RULES)  # of operations that are not elementwise


def rule_of(defn: OpDef, kind: PoisonKind = PoisonKind.UNDEFINED) -> Rule:
    """Return the rule of an operation. Raises `KeyError` for one that needs a rule and has none.

    A number that wrapped is an error where it is multiplied by 0, too.
    """
    if defn is arith.mul and kind is not PoisonKind.UNDEFINED:
        return union
    if defn.elementwise and defn not in RULES:
        return union
    return RULES[defn]


def propagated(op: Operation, run: Run) -> Run:
    """Return the function of a pure operation whose operands may be poisoned."""
    kinds = tuple(PoisonKind) if propagates_wrapping(op) else (PoisonKind.UNDEFINED,)
    transfers = {kind: rule_of(op.defn, kind) for kind in kinds}
    single = len(op.results) == 1

    def on_poisoned(batch: Any, values: Sequence[Any]) -> Any:
        plain = [None if value is None else plain_value(value) for value in values]
        outcome = run(batch, *plain)
        results: list[RegisterValue] = [outcome] if single else list(outcome)
        for kind in kinds:
            poisons = [poison_of(value, kind) for value in values]
            present = [poison for poison in poisons if poison is not None]
            if present:
                results = _poison_results(
                    op, transfers[kind], kind, poisons, present, plain, results
                )
        return results[0] if single else tuple(results)

    def instruction(batch: Any, *values: Any) -> Any:
        for value in values:
            if type(value) is Poisoned:
                return on_poisoned(batch, values)
        return run(batch, *values)

    return instruction


def _poison_results(
    op: Operation,
    transfer: Rule,
    kind: PoisonKind,
    poisons: Sequence[PoisonMask | None],
    present: Sequence[PoisonMask],
    plain: Sequence[Any],
    results: list[RegisterValue],
) -> list[RegisterValue]:
    if transfer is union:
        joined = reduce(PoisonMask.union, present)
        return [_add_mask(result, kind, joined) for result in results]
    where = transfer(op, [None if poison is None else poison.where for poison in poisons], plain)
    parts = where if isinstance(where, tuple) else (where,) * len(results)
    cause = present[0].cause
    return [
        _add_mask(result, kind, PoisonMask(part, cause)) if part.any() else result
        for result, part in zip(results, parts, strict=True)
    ]


def _add_mask(result: RegisterValue, kind: PoisonKind, poison: PoisonMask) -> RegisterValue:
    masks: PoisonMasks = result.masks if isinstance(result, Poisoned) else {}
    existing = masks.get(kind)
    return with_poison(
        plain_value(result), {**masks, kind: poison if existing is None else existing.union(poison)}
    )


@rule(arith.const, arith.poison, shape.arange, arith.hint, memory.addptr)
def union(op: Operation, poisons: Sequence[PoisonedElements], values: Sequence[Any]) -> Any:
    """Poison elements where any operand is poisoned."""
    return reduce(np.logical_or, [poison for poison in poisons if poison is not None])


def _as_mask(poison: PoisonedElements, rank: int) -> Array:
    return np.zeros((1,) * (1 + rank), np.bool_) if poison is None else poison


def _as_masks(op: Operation, poisons: Sequence[PoisonedElements]) -> list[Array]:
    return [
        _as_mask(poison, value.type.rank)
        for poison, value in zip(poisons, op.operands, strict=True)
        if value
    ]


@rule(*MOVES)
def moved(op: Operation, poisons: Sequence[PoisonedElements], values: Sequence[Any]) -> Any:
    """Move poison with the elements."""
    assert op.defn.semantics is not None
    masks = _as_masks(op, poisons)
    if not op.defn.unit_axes_broadcast:
        masks = [
            full(poison, value.type.shape) for poison, value in zip(masks, op.inputs, strict=True)
        ]
    return op.defn.semantics(*masks, **op.attributes)


@rule(arith.select)
def select(op: Operation, poisons: Sequence[PoisonedElements], values: Sequence[Any]) -> Any:
    """Ignore the poison of elements that are not selected."""
    condition, x, y = _as_masks(op, poisons)
    return np.where(array_of(values[0]), x, y) | condition


def select_poisoned(condition: RegisterValue, x: RegisterValue, y: RegisterValue) -> RegisterValue:
    """Select between the results of an `if` in the region of a reduction or scan, with poison."""
    truth, values = array_of(condition), (condition, x, y)
    result: RegisterValue = semantics.select(truth, array_of(x), array_of(y))
    for kind in PoisonKind:
        poisons = [poison_of(value, kind) for value in values]
        present = [poison for poison in poisons if poison is not None]
        if present:
            decided, f, g = (np.False_ if poison is None else poison.where for poison in poisons)
            where = np.where(truth, f, g) | decided
            result = _add_mask(result, kind, PoisonMask(where, present[0].cause))
    return result


@rule(arith.and_, arith.or_, arith.mul)
def deciding(op: Operation, poisons: Sequence[PoisonedElements], values: Sequence[Any]) -> Any:
    """Ignore the poison of one operand where the other decides: `false & x`, `-1 | x`, `0 * x`.

    A float times 0 may be NaN.
    """
    if number_of(op.result.type).is_floating():
        return union(op, poisons, values)
    (f, g), (x, y) = _as_masks(op, poisons), map(array_of, values)
    ones = op.defn is arith.or_
    decided = (_decides(x, ones) & ~f) | (_decides(y, ones) & ~g)
    return (f | g) & ~decided


def _decides(x: Array, ones: bool) -> Array:
    result: Array = (~x if ones else x) == 0
    return result


@rule(reductions.reduce, reductions.arg_reduce)
def reduced(op: Operation, poisons: Sequence[PoisonedElements], values: Sequence[Any]) -> Any:
    """Poison the result if any element along the axis is poisoned."""
    (poison,) = _as_masks(op, poisons)
    return poison.any(axis=op["axis"])


@rule(reductions.scan)
def scanned(op: Operation, poisons: Sequence[PoisonedElements], values: Sequence[Any]) -> Any:
    """Poison an element if it or one before it is poisoned."""
    (poison,) = _as_masks(op, poisons)
    return _accumulated(full(poison, op.inputs[0].type.shape), op["axis"], op["reverse"])


def _accumulated(poison: Array, axis: int, reverse: bool) -> Array:
    if reverse:
        return np.flip(_accumulated(np.flip(poison, axis), axis, False), axis)
    return np.logical_or.accumulate(poison, axis)


@rule(indexing.sort)
def ordered(op: Operation, poisons: Sequence[PoisonedElements], values: Sequence[Any]) -> Any:
    """Poison all elements along the axis if one is poisoned: it may end up anywhere."""
    (poison,) = _as_masks(op, poisons)
    return poison.any(axis=op["axis"], keepdims=True)


@rule(dot.dot)
def multiplied(op: Operation, poisons: Sequence[PoisonedElements], values: Sequence[Any]) -> Any:
    """Poison an element if its row of a, its column of b, or its accumulator is poisoned."""
    a, b, acc = _as_masks(op, poisons)
    return a.any(axis=-1, keepdims=True) | b.any(axis=-2, keepdims=True) | acc


@rule(indexing.gather)
def gathered(op: Operation, poisons: Sequence[PoisonedElements], values: Sequence[Any]) -> Any:
    """Move poison with the gathered elements; a poisoned position poisons its element."""
    x, position = _as_masks(op, poisons)
    poisoned, positions = _by_program(op, x, values[1])
    return semantics.gather(poisoned, positions, op["axis"]) | position


@rule(indexing.scatter)
def scattered(op: Operation, poisons: Sequence[PoisonedElements], values: Sequence[Any]) -> Any:
    """Move poison with the elements; a poisoned position poisons the whole axis."""
    x, position = _as_masks(op, poisons)
    poisoned, positions = _by_program(op, x, values[1])
    where = semantics.scatter(poisoned, positions, op["axis"])
    return where | position.any(axis=op["axis"], keepdims=True)


def _by_program(op: Operation, poison: Array, positions: Any) -> tuple[Array, Array]:
    """Return the poison of what moves and the positions, each for as many programs."""
    source, at = op.inputs
    tiles = full(poison, source.type.shape), full(positions, at.type.shape)
    programs = max(map(len, tiles))
    elements, where = (np.broadcast_to(tile, (programs, *tile.shape[1:])) for tile in tiles)
    return elements, where


@rule(indexing.rank)
def ranked(op: Operation, poisons: Sequence[PoisonedElements], values: Sequence[Any]) -> Any:
    """Poison all ranks if an element is poisoned."""
    (poison,) = _as_masks(op, poisons)
    return poison.any(axis=-1, keepdims=True)


@rule(indexing.histogram)
def counted(op: Operation, poisons: Sequence[PoisonedElements], values: Sequence[Any]) -> Any:
    """Poison all bins if a counted element is poisoned: it may be in any bin."""
    ranked = _as_masks(op, poisons)
    poison = ranked[0]
    if len(ranked) == 2:
        poison = (poison & array_of(values[1])) | ranked[1]
    return poison.any(axis=-1, keepdims=True)


@rule(descriptor.descriptor_pointers, descriptor.im2col_pointers)
def pointing(op: Operation, poisons: Sequence[PoisonedElements], values: Sequence[Any]) -> Any:
    """Propagate the poison of the pointers alone."""
    return _as_masks(op, poisons)[0]


# -- the regions of reductions and scans

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
