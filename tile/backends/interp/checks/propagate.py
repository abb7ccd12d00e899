"""How marks go through operations.

A rule gives the elements of the results that are marked, from those of the operands (None: no
element) and the operands themselves. An element of the result of an elementwise operation is marked
where one of any operand is; every other operation has a rule of its own here, and one that has none
is refused when a kernel is made ready.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, TypeAlias

import numpy as np

from tile.backends.interp.checks.marked import Flag, Flags, Mark, Marked, bare, flag_of, marked
from tile.backends.interp.values import Array, Held, array_of, full
from tile.ir import numerics
from tile.ir.core import Operation
from tile.ir.opdef import OpDef
from tile.ir.ops import arith, descriptor, index, linalg, memory, shape
from tile.ir.ops import reduce as reductions
from tile.ir.types import I1

Where: TypeAlias = "Array | None"
Rule = Callable[[Operation, Sequence[Where], Sequence[Any]], Any]
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
# Whoever computes with bits means the number that is there: that arithmetic wrapped, or that a
# pointer strayed, goes through all operations but these.
BITWISE = frozenset({arith.and_, arith.or_, arith.xor, arith.not_, arith.shr, arith.mulhi})


def carries(op: Operation) -> bool:
    """Return True if results hand on that an operand wrapped: between truths bits are logic."""
    bitwise = op.defn in BITWISE
    if op.defn in (reductions.reduce, reductions.scan):
        bitwise = op["kind"].bitwise
    return not bitwise or op.results[0].type.element == I1


def rule(*defns: OpDef) -> Callable[[Rule], Rule]:
    """Declare the rule of operations that are not element by element."""

    def declare(function: Rule) -> Rule:
        for defn in defns:
            RULES[defn] = function
        return function

    return declare


def rule_of(defn: OpDef) -> Rule:
    """Return the rule of an operation. Raises `KeyError` for one that needs a rule and has none."""
    if defn.elementwise and defn not in RULES:
        return union
    return RULES[defn]


def propagated(op: Operation, run: Callable[..., Any]) -> Callable[..., Any]:
    """What an instruction of a pure operation runs where operands may be marked."""
    marks = tuple(Mark) if carries(op) else (Mark.UNDEFINED,)
    spread = rule_of(op.defn)
    single = len(op.results) == 1

    def on_marked(wave: Any, values: Sequence[Any]) -> Any:
        plain = [None if value is None else bare(value) for value in values]
        outcome = run(wave, *plain)
        results: list[Held] = [outcome] if single else list(outcome)
        for mark in marks:
            flags = [flag_of(value, mark) for value in values]
            present = [flag for flag in flags if flag is not None]
            if present:
                results = _flagged(op, spread, mark, flags, present, plain, results)
        return results[0] if single else tuple(results)

    def instruction(wave: Any, *values: Any) -> Any:
        for value in values:
            if type(value) is Marked:
                return on_marked(wave, values)
        return run(wave, *values)

    return instruction


def _flagged(
    op: Operation,
    spread: Rule,
    mark: Mark,
    flags: Sequence[Flag | None],
    present: Sequence[Flag],
    plain: Sequence[Any],
    results: list[Held],
) -> list[Held]:
    if spread is union:
        joined = reduce(Flag.union, present)
        return [_with(result, mark, joined) for result in results]
    where = spread(op, [None if flag is None else flag.where for flag in flags], plain)
    parts = where if isinstance(where, tuple) else (where,) * len(results)
    cause = present[0].cause
    return [
        _with(result, mark, Flag(part, cause)) if part.any() else result
        for result, part in zip(results, parts, strict=True)
    ]


def _with(result: Held, mark: Mark, flag: Flag) -> Held:
    known: Flags = result.flags if isinstance(result, Marked) else {}
    own = known.get(mark)
    return marked(bare(result), {**known, mark: flag if own is None else own.union(flag)})


@rule(arith.const, arith.poison, shape.arange, arith.hint, memory.addptr)
def union(op: Operation, flags: Sequence[Where], values: Sequence[Any]) -> Any:
    """Where any operand is marked."""
    return reduce(np.logical_or, [flag for flag in flags if flag is not None])


def _known(flag: Where, rank: int) -> Array:
    return np.zeros((1,) * (1 + rank), np.bool_) if flag is None else flag


def _ranked(op: Operation, flags: Sequence[Where]) -> list[Array]:
    return [
        _known(flag, value.type.rank)
        for flag, value in zip(flags, op.operands, strict=True)
        if value
    ]


@rule(*MOVES)
def moved(op: Operation, flags: Sequence[Where], values: Sequence[Any]) -> Any:
    """Marks go where their elements go."""
    assert op.defn.meaning is not None
    given = _ranked(op, flags)
    if not op.defn.keeps_units:
        given = [full(flag, value.type.shape) for flag, value in zip(given, op.inputs, strict=True)]
    return op.defn.meaning(*given, **op.attributes)


@rule(arith.select)
def select(op: Operation, flags: Sequence[Where], values: Sequence[Any]) -> Any:
    """What is not chosen does not matter."""
    condition, x, y = _ranked(op, flags)
    return np.where(array_of(values[0]), x, y) | condition


def chosen(condition: Held, x: Held, y: Held) -> Held:
    """Select between the results of an `if` in the region of a reduction or scan, with marks."""
    truth, values = array_of(condition), (condition, x, y)
    result: Held = numerics.select(truth, array_of(x), array_of(y))
    for mark in Mark:
        flags = [flag_of(value, mark) for value in values]
        present = [flag for flag in flags if flag is not None]
        if present:
            decided, f, g = (np.False_ if flag is None else flag.where for flag in flags)
            where = np.where(truth, f, g) | decided
            result = _with(result, mark, Flag(where, present[0].cause))
    return result


@rule(arith.and_, arith.or_)
def deciding(op: Operation, flags: Sequence[Where], values: Sequence[Any]) -> Any:
    """One operand that decides the result makes the other not matter: `false & x`, `-1 | x`."""
    (f, g), (x, y) = _ranked(op, flags), map(array_of, values)
    ones = op.defn is arith.or_
    decided = (_decides(x, ones) & ~f) | (_decides(y, ones) & ~g)
    return (f | g) & ~decided


def _decides(x: Array, ones: bool) -> Array:
    result: Array = (~x if ones else x) == 0
    return result


@rule(reductions.reduce, reductions.arg_reduce)
def reduced(op: Operation, flags: Sequence[Where], values: Sequence[Any]) -> Any:
    """All elements along the axis make up the result."""
    (flag,) = _ranked(op, flags)
    return flag.any(axis=op["axis"])


@rule(reductions.scan)
def scanned(op: Operation, flags: Sequence[Where], values: Sequence[Any]) -> Any:
    """An element is made up of those before it."""
    (flag,) = _ranked(op, flags)
    return _accumulated(full(flag, op.inputs[0].type.shape), op["axis"], op["reverse"])


def _accumulated(flag: Array, axis: int, reverse: bool) -> Array:
    if reverse:
        return np.flip(_accumulated(np.flip(flag, axis), axis, False), axis)
    return np.logical_or.accumulate(flag, axis)


@rule(index.sort)
def ordered(op: Operation, flags: Sequence[Where], values: Sequence[Any]) -> Any:
    """Any element may come to stand anywhere."""
    (flag,) = _ranked(op, flags)
    return flag.any(axis=op["axis"], keepdims=True)


@rule(linalg.dot)
def multiplied(op: Operation, flags: Sequence[Where], values: Sequence[Any]) -> Any:
    """An element is made up of a row and a column."""
    a, b, acc = _ranked(op, flags)
    return a.any(axis=-1, keepdims=True) | b.any(axis=-2, keepdims=True) | acc


@rule(index.gather)
def gathered(op: Operation, flags: Sequence[Where], values: Sequence[Any]) -> Any:
    """Marks go with the elements that are taken; one of the position is one of the element."""
    x, position = _ranked(op, flags)
    source, at = op.inputs
    whole = full(values[1], at.type.shape)
    spread = full(x, source.type.shape)
    programs = max(len(whole), len(spread))
    whole, spread = (np.broadcast_to(v, (programs, *v.shape[1:])) for v in (whole, spread))
    return numerics.gather(spread, whole, op["axis"]) | position


@rule(index.histogram)
def counted(op: Operation, flags: Sequence[Where], values: Sequence[Any]) -> Any:
    """An element that is counted may be in any bin."""
    ranked = _ranked(op, flags)
    flag = ranked[0]
    if len(ranked) == 2:
        flag = (flag & array_of(values[1])) | ranked[1]
    return flag.any(axis=-1, keepdims=True)


@rule(descriptor.box_pointers)
def pointing(op: Operation, flags: Sequence[Where], values: Sequence[Any]) -> Any:
    """The pointers alone are handed on."""
    return _ranked(op, flags)[0]
