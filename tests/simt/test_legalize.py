"""Legalised arithmetic gives what the operations mean."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.evaluate import evaluate
from tile.ir import semantics
from tile.ir.declare import OPS
from tile.ir.ops.arith import Predicate, Rounding
from tile.ir.parser import parse_module
from tile.ir.types import BF16, F16, Scalar, numpy_dtype
from tile.simt.lower.legalize import EXPANSIONS, legalize
from tile.simt.target import GENERIC, EmittedOps


def every(element: Scalar) -> Any:
    """All numbers of a 16-bit float that are finite."""
    bits = np.arange(1 << 16, dtype=np.uint16).view(numpy_dtype(element))
    return bits[np.isfinite(bits.astype(np.float32))]


@pytest.mark.parametrize("element", [F16, BF16], ids=str)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_rounding_twice_does_no_harm(element: Scalar, name: str) -> None:
    x = every(element)
    y = np.random.default_rng(3).permutation(x)
    compute = getattr(semantics, name)
    with np.errstate(all="ignore"):
        exact = compute(x.astype(np.float64), y.astype(np.float64)).astype(numpy_dtype(element))
        wide = compute(x.astype(np.float32), y.astype(np.float32))
        narrowed = semantics.cast(wide, element, Rounding.RTNE)
    assert narrowed.dtype == numpy_dtype(element)
    np.testing.assert_array_equal(narrowed.astype(np.float32), exact.astype(np.float32))


@pytest.mark.parametrize("element", [F16, BF16], ids=str)
@pytest.mark.parametrize("predicate", Predicate)
def test_comparisons_are_the_same(element: Scalar, predicate: Predicate) -> None:
    x = every(element)
    y = np.random.default_rng(5).permutation(x)
    y[::7] = x[::7]
    narrow = semantics.cmp(x, y, predicate)
    wide = semantics.cmp(x.astype(np.float32), y.astype(np.float32), predicate)
    np.testing.assert_array_equal(narrow, wide)
    assert narrow.any() and not narrow.all()


@pytest.mark.parametrize(
    ("name", "element"),
    [(defn.name, element) for defn in EXPANSIONS for element in defn.accepts],
    ids=str,
)
def test_an_operation_without_a_rule_is_expanded(name: str, element: Scalar) -> None:
    defn = OPS[name]
    ty = f"tile<64x{element}>"
    text = f"func @f(%x: {ty}) -> ({ty}) {{\n  %y = {name} %x : {ty}\n  return %y\n}}"
    module = parse_module(text)
    legalize(module, target=replace(GENERIC, ops=EmittedOps(frozenset(OPS) - {defn})))
    (function,) = module
    assert defn not in {op.defn for op in function.body}
    bits = np.random.default_rng(7).integers(0, 256, 64 * element.itemsize, np.uint8)
    x = bits.view(numpy_dtype(element)) if element.bits > 1 else bits % 2 == 1
    assert defn.semantics is not None
    with semantics.quiet():
        want = defn.semantics(x)
    (result,) = evaluate(function, x)
    np.testing.assert_array_equal(result, want)


def test_an_operation_with_a_rule_stays() -> None:
    module = parse_module("func @f(%x: i32) -> (i32) {\n  %y = not %x : i32\n  return %y\n}")
    legalize(module, target=replace(GENERIC, ops=EmittedOps(frozenset(OPS))))
    (function,) = module
    assert [op.name for op in function.body] == ["not", "return"]
