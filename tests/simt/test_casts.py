"""Casts that `legalize` expands, against their semantics."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from tests.evaluate import Array, evaluate
from tile.ir import semantics
from tile.ir.core import Operation
from tile.ir.numpy_dtypes import numpy_dtype, scalar_of
from tile.ir.ops import arith
from tile.ir.ops.arith import Rounding
from tile.ir.parser import parse_module
from tile.ir.types import (
    ALL,
    ALL_FP8,
    EMULATED_FP8,
    F8E4M3FNUZ,
    F32,
    F64,
    FLOATS,
    FP8,
    I1,
    INTEGERS,
    NARROW_FLOATS,
    Scalar,
)
from tile.simt.lower.legalize import legalize
from tile.simt.target import GENERIC, EmittedOps

NARROW = (*ALL_FP8, *NARROW_FLOATS)
TARGET = replace(GENERIC, ops=EmittedOps(direct=(F32, F64)))
MACHINE_CASTS_TO_ZERO = {(F64, F32), (F32, NARROW_FLOATS[0])}


def is_of_a_machine(op: Operation) -> bool:
    """True for casts that round once by themselves: to f32, and between that and narrower floats."""
    source, to = op.inputs[0].type.element, op["to"]
    if op["rounding"] is Rounding.RTZ:
        return (source, to) in MACHINE_CASTS_TO_ZERO
    if {source, to} & {*FP8}:
        return {source, to} <= {*FP8, *NARROW_FLOATS, F32}
    return not {source, to} & {*EMULATED_FP8} and (to not in NARROW_FLOATS or source.is_floating())


def expanded(x: Array, source: Scalar, to: Scalar, rounding: str = "rtne") -> Array:
    """Return the cast of an array, computed by what `legalize` makes of it."""
    size = 1 << (len(x) - 1).bit_length()
    module = parse_module(
        f"func @f(%x: tile<{size}x{source}>) -> (tile<{size}x{to}>) {{\n"
        f"  %y = cast %x {{to = {to}, rounding = {rounding}}} : tile<{size}x{to}>\n"
        "  return %y\n}"
    )
    legalize(module, target=TARGET)
    (function,) = module
    assert all(map(is_of_a_machine, (op for op in function.body if op.defn is arith.cast)))
    padded = np.zeros(size, x.dtype)
    padded[: len(x)] = x
    (result,) = evaluate(function, padded)
    return result[: len(x)]


def assert_same_bits(actual: Array, expected: Array) -> None:
    """Equal bits, but for the NaNs of other formats than those of the module under test."""
    assert actual.dtype == expected.dtype
    bits = f"u{actual.itemsize}"
    wrong = actual.view(bits) != expected.view(bits)
    if scalar_of(actual.dtype) not in EMULATED_FP8:
        with semantics.quiet():
            wrong &= ~(np.isnan(actual) & np.isnan(expected))
    assert not wrong.any(), (np.flatnonzero(wrong)[:5], actual[wrong][:5], expected[wrong][:5])


def every(element: Scalar) -> Array:
    """All numbers of a format; of 16 bits, one in eleven."""
    step = 11 if element.bits == 16 else 1
    return np.arange(0, 1 << element.bits, step, f"u{element.itemsize}").view(numpy_dtype(element))


def edges(to: Scalar, wide: Scalar) -> Array:
    """Numbers of the format, the ties between them, what is next to both, and what is beyond."""
    with semantics.quiet():
        numbers = semantics.cast(every(to), F64)
    numbers = np.unique(np.abs(numbers[np.isfinite(numbers)]))
    middle = np.concatenate([numbers, (numbers[1:] + numbers[:-1]) / 2, numbers[-1:] * 1.0625])
    dtype = numpy_dtype(wide)
    with semantics.quiet():
        exact = middle.astype(dtype)
    sides = [np.nextafter(exact, dtype.type(bound)) for bound in (-np.inf, np.inf)]
    special = [np.inf, np.nan, np.finfo(dtype).max, np.finfo(dtype).tiny, 1e-40, 1e5, 3e-5]
    with semantics.quiet():
        positive = np.concatenate([exact, *sides, np.array(special, dtype)])
    return np.concatenate([positive, -positive])


@pytest.mark.parametrize("to", ALL, ids=str)
@pytest.mark.parametrize("source", ALL_FP8, ids=str)
def test_casts_of_all_values(source: Scalar, to: Scalar) -> None:
    x = every(source)
    with semantics.quiet():
        expected = semantics.cast(x, to)
    assert_same_bits(expanded(x, source, to), expected)


# Casts toward zero are those to fewer bits.
ROUNDED = [
    (to, source, rounding)
    for to, source, rounding in itertools.product(NARROW, FLOATS, ("rtne", "rtz"))
    if rounding == "rtne" or to.bits < source.bits
]


@pytest.mark.parametrize("to, source, rounding", ROUNDED, ids=str)
def test_casts_of_floats(to: Scalar, source: Scalar, rounding: str) -> None:
    if source.bits == 16:
        x = np.arange(1 << 16, dtype=np.uint16).view(numpy_dtype(source))
    else:
        bits = np.random.default_rng(3).integers(0, 256, 1 << 16, np.uint8)
        random = bits.view(numpy_dtype(source))
        x = np.concatenate([edges(to, source), random])
    with semantics.quiet():
        expected = semantics.cast(x, to, rounding)
    assert_same_bits(expanded(x, source, to, rounding), expected)


@pytest.mark.parametrize("source", [I1, *INTEGERS], ids=str)
@pytest.mark.parametrize("to", NARROW, ids=str)
def test_casts_of_integers(to: Scalar, source: Scalar) -> None:
    with semantics.quiet():
        whole = semantics.cast(edges(to, F64), source)
    ends = [source.min_value, source.max_value] if source is not I1 else [False, True]
    x = np.concatenate([whole, whole + 1, np.array(ends, numpy_dtype(source))])
    x = x.astype(numpy_dtype(source))
    with semantics.quiet():
        expected = semantics.cast(x, to)
    assert_same_bits(expanded(x, source, to), expected)


def test_fnuz_has_no_negative_zero() -> None:
    x = np.array([-0.0, -1e-9, -(2.0**-11)], np.float32)
    for rounding in ("rtne", "rtz"):
        codes = expanded(x, F32, F8E4M3FNUZ, rounding).view(np.uint8)
        assert codes.tolist() == [0, 0, 0]
