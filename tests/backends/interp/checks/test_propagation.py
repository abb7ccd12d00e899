"""What an operation does not mark as undefined does not depend on what is undefined."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

from tests.conformance.running import assert_close
from tests.conformance.test_pure import CASES, PROGRAMS, Case, inputs
from tile.backends.interp.checks.marked import Cause, Flag, Mark, Marked, bare, flag_of
from tile.backends.interp.checks.translate import CheckedTranslator
from tile.backends.interp.rules import RULES
from tile.backends.interp.values import array_of, full
from tile.checks import Check
from tile.ir import numerics
from tile.ir.builder import create
from tile.ir.core import Block, Operation
from tile.ir.types import Type

MOST = 24  # cases of an operation


def operation(case: Case) -> Operation:
    """The operation alone, on arguments of a block."""
    types = [ty for ty in case.operands if ty is not None]
    args = iter(Block(types, [f"x{i}" for i in range(len(types))]).args)
    operands = [None if ty is None else next(args) for ty in case.operands]
    return create(case.defn, operands, case.attributes, list(case.regions()))


def run(op: Operation, operands: list[Any]) -> list[Any]:
    """The results, of which each is marked or not."""
    instruction = CheckedTranslator(RULES, frozenset({Check.UNDEF})).run(op)
    with numerics.quiet():
        results = instruction(None, *operands)
    return list(results) if isinstance(results, tuple) else [results]


def shaped(case: Case, seed: str) -> list[Any]:
    """Operands for all programs; None where one is absent."""
    arrays = iter(inputs(case, seed))
    return [
        None if ty is None else next(arrays).reshape(PROGRAMS, *ty.shape) for ty in case.operands
    ]


def truths(rng: np.random.Generator, ty: Type) -> Any:
    """Which elements are undefined; now and then the same along an axis."""
    where = rng.random((PROGRAMS, *ty.shape)) < rng.choice([0.05, 0.3])
    if rng.random() < 0.3:
        axis = int(rng.integers(0, where.ndim))
        where = where.any(axis=axis, keepdims=True)
    return where


@pytest.mark.parametrize("name", CASES)
def test_what_is_not_marked_does_not_depend_on_what_is_undefined(name: str) -> None:
    cases = CASES[name]
    for case in cases[:: max(1, len(cases) // MOST)]:
        rng = np.random.default_rng(zlib.crc32(str(case).encode()))
        op = operation(case)
        first, second = shaped(case, f"{case} one"), shaped(case, f"{case} two")
        flagged, changed = [], []
        for x, y, ty in zip(first, second, case.operands, strict=True):
            if x is None or ty is None:
                flagged.append(None)
                changed.append(None)
                continue
            where = truths(rng, ty)
            flag = Flag(where, Cause(None, "planted"))
            flagged.append(Marked(x, {Mark.UNDEFINED: flag}) if rng.random() < 0.7 else x)
            changed.append(np.where(where, y, x) if type(flagged[-1]) is Marked else x)
        found, other = run(op, flagged), run(op, changed)
        for result, again, ty in zip(found, other, (v.type for v in op.results), strict=True):
            flag = flag_of(result, Mark.UNDEFINED)
            known = np.ones((1,), bool) if flag is None else ~flag.where
            pairs = (full(bare(r), ty.shape) for r in (result, again))
            spread = [np.broadcast_to(x, (PROGRAMS, *ty.shape)) for x in pairs]
            chosen = np.broadcast_to(known, spread[0].shape)
            assert_close(spread[0][chosen], spread[1][chosen], 0, str(case))


def test_a_value_without_marks_stays_an_array() -> None:
    case = next(c for c in CASES["add"] if c.operands[0] is not None and c.operands[0].shape)
    (result,) = run(operation(case), shaped(case, "plain"))
    assert isinstance(result, np.ndarray)
    assert isinstance(array_of(result), np.ndarray)
