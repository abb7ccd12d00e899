"""Legalized arithmetic gives what the operations mean."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.evaluate import evaluate
from tile.ir import semantics
from tile.ir.declare import OPS
from tile.ir.numpy_dtypes import numpy_dtype
from tile.ir.ops.arith import Predicate, Rounding
from tile.ir.parser import parse_module
from tile.ir.types import BF16, F16, Scalar
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


def fma_operands(element: Scalar) -> tuple[Any, Any, Any]:
    """Operands whose products lie midway, with addends that decide the rounding; and random ones."""
    rng, numbers = np.random.default_rng(11), every(element)
    x, y, z = (rng.choice(numbers, 1 << 16) for _ in range(3))
    near = slice(0, len(x) // 2)
    bits = numpy_dtype(element)
    with np.errstate(all="ignore"):
        x[near] = rng.integers(1, 2 << element.fp_mantissa_width, len(x) // 2).astype(bits)
        y[near] = rng.integers(1, 2 << element.fp_mantissa_width, len(x) // 2).astype(bits)
        z[near] = rng.choice([-1, -0.999, 1e-3, -1e-3, 1, 0.999, 0], len(x) // 2).astype(bits)
    return x, y, z


@pytest.mark.parametrize("element", [F16, BF16], ids=str)
def test_an_fma_is_rounded_once(element: Scalar) -> None:
    x, y, z = fma_operands(element)
    ty = f"tile<{len(x)}x{element}>"
    text = (
        f"func @f(%x: {ty}, %y: {ty}, %z: {ty}) -> ({ty}) {{\n  %r = fma %x, %y, %z : {ty}\n"
        "  return %r\n}"
    )
    module = parse_module(text)
    legalize(module, target=GENERIC)
    (function,) = module
    with semantics.quiet():
        want = semantics.fma(x, y, z).astype(np.float32)
        (result,) = evaluate(function, x, y, z)
        twice = (x.astype(np.float32) * y.astype(np.float32) + z.astype(np.float32)).astype(x.dtype)
    np.testing.assert_array_equal(result.astype(np.float32), want)
    assert (twice.astype(np.float32) != want).any()  # the operands tell the difference


def test_an_operation_with_a_rule_stays() -> None:
    module = parse_module("func @f(%x: i32) -> (i32) {\n  %y = not %x : i32\n  return %y\n}")
    legalize(module, target=replace(GENERIC, ops=EmittedOps(frozenset(OPS))))
    (function,) = module
    assert [op.name for op in function.body] == ["not", "return"]
