"""Elements of results without poison do not depend on undefined elements of operands."""

from __future__ import annotations

import dataclasses
import zlib
from typing import Any

import numpy as np
import pytest

from tests.conformance.running import assert_close
from tests.conformance.test_pure import CASES, PROGRAMS, Case, inputs
from tile.backends.interp.rules import RULES
from tile.backends.interp.sanitizer.launch import CheckedTranslator
from tile.backends.interp.sanitizer.poison import (
    Cause,
    Poisoned,
    PoisonKind,
    PoisonMask,
    plain_value,
    poison_of,
)
from tile.backends.interp.sanitizer.propagation import BITWISE, propagates_wrapping, rule_of
from tile.backends.interp.values import array_of, full
from tile.checks import Check
from tile.ir import semantics
from tile.ir.builder import create
from tile.ir.core import Block, Operation
from tile.ir.declare import OPS
from tile.ir.op_definition import OpDef
from tile.ir.ops import descriptor
from tile.ir.ops.arith import NUMBERS
from tile.ir.types import I1, Type

MAX_CASES = 24  # cases of an operation


def operation(case: Case) -> Operation:
    """The operation alone, on arguments of a block."""
    types = [ty for ty in case.operands if ty is not None]
    args = iter(Block(types, [f"x{i}" for i in range(len(types))]).args)
    operands = [None if ty is None else next(args) for ty in case.operands]
    return create(case.defn, operands, case.attributes, list(case.regions()))


def run(op: Operation, operands: list[Any]) -> list[Any]:
    """Return the results, poisoned or not."""
    instruction = CheckedTranslator(RULES, frozenset({Check.UNDEF})).run(op)
    with semantics.quiet():
        results = instruction(None, *operands)
    return list(results) if isinstance(results, tuple) else [results]


def shaped(case: Case, seed: str) -> list[Any]:
    """Operands for all programs; None where one is absent."""
    arrays = iter(inputs(case, seed))
    return [
        None if ty is None else next(arrays).reshape(PROGRAMS, *ty.shape) for ty in case.operands
    ]


def random_mask(rng: np.random.Generator, ty: Type) -> Any:
    """Return a random mask of undefined elements, sometimes constant along an axis."""
    where = rng.random((PROGRAMS, *ty.shape)) < rng.choice([0.05, 0.3])
    if rng.random() < 0.3:
        axis = int(rng.integers(0, where.ndim))
        where = where.any(axis=axis, keepdims=True)
    return where


@pytest.mark.parametrize("name", CASES)
def test_results_without_poison_do_not_depend_on_undefined_elements(name: str) -> None:
    cases = CASES[name]
    for case in cases[:: max(1, len(cases) // MAX_CASES)]:
        rng = np.random.default_rng(zlib.crc32(str(case).encode()))
        op = operation(case)
        first, second = shaped(case, f"{case} one"), shaped(case, f"{case} two")
        poisoned, changed = [], []
        for x, y, ty in zip(first, second, case.operands, strict=True):
            if x is None or ty is None:
                poisoned.append(None)
                changed.append(None)
                continue
            where = random_mask(rng, ty)
            poison = PoisonMask(where, Cause(None, "planted"))
            poisoned.append(
                Poisoned(x, {PoisonKind.UNDEFINED: poison}) if rng.random() < 0.7 else x
            )
            changed.append(np.where(where, y, x) if type(poisoned[-1]) is Poisoned else x)
        results, other = run(op, poisoned), run(op, changed)
        for result, again, ty in zip(results, other, (v.type for v in op.results), strict=True):
            poison = poison_of(result, PoisonKind.UNDEFINED)
            defined = np.ones((1,), bool) if poison is None else ~poison.where
            pairs = (full(plain_value(r), ty.shape) for r in (result, again))
            spread = [np.broadcast_to(x, (PROGRAMS, *ty.shape)) for x in pairs]
            chosen = np.broadcast_to(defined, spread[0].shape)
            assert_close(spread[0][chosen], spread[1][chosen], 0, str(case))


def test_value_without_poison_stays_an_array() -> None:
    case = next(c for c in CASES["add"] if c.operands[0] is not None and c.operands[0].shape)
    (result,) = run(operation(case), shaped(case, "plain"))
    assert isinstance(result, np.ndarray)
    assert isinstance(array_of(result), np.ndarray)


# Operations that runs with checks do not have, since descriptor accesses are expanded before.
EXPANDED = {
    descriptor.make_tensor_descriptor,
    descriptor.descriptor_shape,
    descriptor.descriptor_stride,
}


def pure_operations() -> list[OpDef]:
    """The operations that programs of tiles compute with."""
    mine = [defn for defn in OPS if defn.rule.__module__.startswith("tile.ir.ops.")]
    return [defn for defn in mine if defn.semantics is not None and defn not in EXPANDED]


def test_every_operation_propagates_poison() -> None:
    for defn in pure_operations():
        assert defn.isolated or rule_of(defn), defn.name


def test_an_operation_without_a_rule_is_refused() -> None:
    case = next(iter(CASES["sort"]))
    defn = dataclasses.replace(operation(case).defn, name="unheard_of")
    with pytest.raises(KeyError):
        rule_of(defn)


def wrapped_first(case: Case) -> list[Any]:
    """Return operands of ones, each with its first element poisoned as WRAPPED."""
    operands: list[Any] = []
    for x, ty in zip(shaped(case, f"{case} wrapped"), case.operands, strict=True):
        if x is None or ty is None:
            operands.append(None)
            continue
        where = np.zeros((PROGRAMS, *ty.shape), np.bool_)
        where[(slice(None), *(0,) * len(ty.shape))] = True
        cause = Cause(None, "planted")
        operands.append(Poisoned(np.ones_like(x), {PoisonKind.WRAPPED: PoisonMask(where, cause)}))
    return operands


@pytest.mark.parametrize("name", CASES)
def test_wrapped_propagates_except_through_bit_operations(name: str) -> None:
    cases = [c for c in CASES[name] if any(ty is not None for ty in c.operands)]
    for case in cases[:: max(1, len(cases) // MAX_CASES)]:
        op = operation(case)
        if op.defn.isolated:  # depends on the operations of its region; see below
            continue
        results = run(op, wrapped_first(case))
        bits = op.defn in BITWISE or getattr(op.attributes.get("kind"), "bitwise", False)
        stops = bits and op.results[0].type.element != I1
        assert propagates_wrapping(op) is not stops
        carried = any(poison_of(result, PoisonKind.WRAPPED) for result in results)
        assert carried is not stops, str(case)


@pytest.mark.parametrize("name", ["reduce_region", "scan_region"])
def test_regions_propagate_like_their_operations(name: str) -> None:
    carried = 0
    for case in CASES[name]:
        if not all(isinstance(ty, Type) and ty.element in NUMBERS for ty in case.operands):
            continue
        op = operation(case)
        results = run(op, wrapped_first(case))
        combining = [inner for region in op.regions for inner in region if inner.results]
        if all(map(propagates_wrapping, combining)):
            assert any(poison_of(result, PoisonKind.WRAPPED) for result in results), str(case)
            carried += 1
    assert carried
