"""Canonical forms mean the same, element by element: every operation with every telling constant."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.analysis.observed import Run
from tile.ir import semantics
from tile.ir.parser import parse_module
from tile.ir.passes import run_pipeline
from tile.ir.printer import print_module, print_value
from tile.ir.types import ALL, FLOATS, I1, I8, INTEGERS, SCALARS, U8, Scalar
from tile.ir.verifier import verify
from tile.transforms import pass_pipeline

assert pass_pipeline.TILE  # declares the passes

INTEGER_OPS = (
    *("add", "sub", "mul", "div", "rem", "and", "or", "xor", "shl", "shr", "min", "max"),
    *(f"cmp:{predicate}" for predicate in ("eq", "ne", "lt", "le", "gt", "ge")),
)
TRUTH_OPS = ("add", "sub", "mul", "and", "or", "xor", "cmp:eq", "cmp:ne", "cmp:lt", "cmp:ge")
FLOAT_OPS = (
    *("add", "sub", "mul", "div", "div_rn", "rem", "min", "max"),
    *(f"cmp:{predicate}" for predicate in ("eq", "ne", "lt", "le", "gt", "ge")),
)
SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, np.inf, -np.inf, np.nan, 6e-8, -6e-8, 65504.0, 3.0]


def edges(ty: Scalar) -> list[Any]:
    """Constants at which an operation of the type may become special."""
    if ty.is_bool():
        return [False, True]
    if ty.is_floating():
        return SPECIAL
    numbers = {0, 1, 2, 3, 7, ty.bits - 1, ty.bits, ty.max_value, ty.max_value - 1, ty.min_value}
    if ty.signed:
        numbers |= {-1, -2, ty.min_value + 1}
    return sorted(number for number in numbers if ty.min_value <= number <= ty.max_value)


def inputs(ty: Scalar) -> Any:
    """All numbers of a small type, and the telling ones of a large one."""
    if ty in (I8, U8):
        return np.arange(ty.min_value, ty.max_value + 1).astype(semantics.numpy_dtype(ty))
    numbers = [*edges(ty)] * 8
    count = 1 << (len(numbers).bit_length() - 1)
    return np.stack([semantics.constant(number, ty) for number in numbers[:count]])


def same_bits(x: Any, y: Any) -> bool:
    """Equal, zeros with their signs; any NaN is a NaN."""
    if x.dtype.kind in "biu":
        return np.array_equal(x, y)
    with semantics.quiet():
        wide, other = x.astype(np.float64), y.astype(np.float64)
    equal = (wide == other) & (np.signbit(wide) == np.signbit(other))
    return bool(np.all(equal | (np.isnan(wide) & np.isnan(other))))


def held_to_canonical_form(
    lines: list[str], results: list[str], ty: Scalar, *, signed_zeros: bool = True
) -> None:
    """Run a function of one tile `%x` before and after `canonicalize`."""
    x = inputs(ty)
    body = "\n  ".join([*lines, f"return {', '.join(f'%r{i}' for i in range(len(results)))}"])
    types = ", ".join(f"tile<{len(x)}x{element}>" for element in results)
    module = parse_module(f"func @f(%x: tile<{len(x)}x{ty}>) -> ({types}) {{\n  {body}\n}}\n")
    verify(module)
    with np.errstate(all="ignore"):
        wanted = Run(lambda value, array: None).function(module["f"], [x])
        run_pipeline(module, "canonicalize")
        verify(module)
        computed = Run(lambda value, array: None).function(module["f"], [x])
    for index, (before, after) in enumerate(zip(wanted, computed, strict=True)):
        if not signed_zeros and before.dtype.kind not in "biu":
            before, after = (array + semantics.constant(0.0, ty) for array in (before, after))
        assert same_bits(before, after), f"%r{index}: {lines}\n{print_module(module)}"


def spelled(op: str, x: str, y: str, index: int, ty: Scalar, count: int) -> tuple[str, str]:
    """A line of text that applies an operation, and the element that it gives."""
    name, _, predicate = op.partition(":")
    element = "i1" if predicate else ty.ir_name
    attributes = f" {{predicate = {predicate}}}" if predicate else ""
    return f"%r{index} = {name} {x}, {y}{attributes} : tile<{count}x{element}>", element


@pytest.mark.parametrize(
    ("ty", "op"),
    [
        *((ty, op) for ty in INTEGERS for op in INTEGER_OPS),
        *((ty, op) for ty in FLOATS for op in FLOAT_OPS),
        *((I1, op) for op in TRUTH_OPS),
    ],
    ids=str,
)
def test_binary_operations_with_constants(ty: Scalar, op: str) -> None:
    count = len(inputs(ty))
    lines, results = [], []
    for number in edges(ty):
        constant = f"%c{len(results)}"
        lines.append(f"{constant} = const {{value = {print_value(number)}}} : tile<{count}x{ty}>")
        for x, y in (("%x", constant), (constant, "%x")):
            line, element = spelled(op, x, y, len(results), ty, count)
            lines.append(line)
            results.append(element)
    line, element = spelled(op, "%x", "%x", len(results), ty, count)
    # Which of two zeros `min` and `max` give is not defined.
    signed_zeros = op not in ("min", "max")
    held_to_canonical_form([*lines, line], [*results, element], ty, signed_zeros=signed_zeros)


@pytest.mark.parametrize("op", ["add", "mul", "sub", "and", "or", "xor"])
@pytest.mark.parametrize("ty", [I8, U8], ids=str)
def test_chains_of_constants(ty: Scalar, op: str) -> None:
    lines, results = [], []
    for first, second in itertools.product(edges(ty), repeat=2):
        index = len(results)
        for name, number in (("a", first), ("b", second)):
            lines.append(f"%{name}{index} = const {{value = {number}}} : tile<256x{ty}>")
        lines.append(f"%m{index} = {op} %x, %a{index} : tile<256x{ty}>")
        lines.append(f"%r{index} = {op} %m{index}, %b{index} : tile<256x{ty}>")
        results.append(ty.ir_name)
    held_to_canonical_form(lines, results, ty)


@pytest.mark.parametrize("first", ALL, ids=str)
def test_casts_of_casts(first: Scalar) -> None:
    count = len(inputs(first))
    lines, results = [], []
    for through in ALL:
        lines.append(f"%m{through} = cast %x {{to = {through}}} : tile<{count}x{through}>")
        for last in ALL:
            index = len(results)
            lines.append(f"%r{index} = cast %m{through} {{to = {last}}} : tile<{count}x{last}>")
            results.append(last.ir_name)
    held_to_canonical_form(lines, results, first)


@pytest.mark.parametrize("ty", [I8, SCALARS["f32"], SCALARS["bf16"]], ids=str)
def test_negations_and_opposite_comparisons(ty: Scalar) -> None:
    count = len(inputs(ty))
    tile, truth = f"tile<{count}x{ty}>", f"tile<{count}xi1>"
    lines = [
        f"%c = const {{value = {'1.0' if ty.is_floating() else '1'}}} : {tile}",
        f"%n = neg %x : {tile}",
        f"%r0 = neg %n : {tile}",
        f"%r1 = sub %c, %n : {tile}",
    ]
    results = [ty.ir_name, ty.ir_name]
    for predicate in ("eq", "ne", "lt", "le", "gt", "ge"):
        lines.append(f"%c_{predicate} = cmp %x, %c {{predicate = {predicate}}} : {truth}")
        lines.append(f"%r{len(results)} = not %c_{predicate} : {truth}")
        results.append("i1")
    held_to_canonical_form(lines, results, ty)
