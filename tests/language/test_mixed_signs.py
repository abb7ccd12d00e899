"""Binary operators on integers of all widths and signs, against Triton's rules in NumPy.

The operands meet at one type: the wider one, of equal width the unsigned one. `>>` is arithmetic
where its left operand is signed, everything else as the common type is. `/`, `//` and `%` refuse
operands of different signs.
"""

from __future__ import annotations

import itertools
import operator
from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tests import needs
from tests.sampling import is_nightly
from tile.config import config
from tile.errors import CompilationError

TYPES = [np.dtype(f"{sign}{size}") for size in (1, 2, 4, 8) for sign in "iu"]
OPERATORS: dict[str, Any] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "min": np.minimum,
    "max": np.maximum,
    "<<": operator.lshift,
}
DIVIDING = ("/", "//", "%")
PAIRS = list(itertools.product(TYPES, repeat=2))


def pairs(first: int) -> list[tuple[np.dtype, np.dtype]]:
    """Return a third of the pairs of types, from one of the first three on; nightly all."""
    return PAIRS if is_nightly() else PAIRS[first % 3 :: 3]


@tile.jit
def apply(x_ptr, y_ptr, o_ptr, OP: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    x, y = tl.load(x_ptr + i), tl.load(y_ptr + i)
    if OP == "+":
        z = x + y
    elif OP == "-":
        z = x - y
    elif OP == "*":
        z = x * y
    elif OP == "&":
        z = x & y
    elif OP == "|":
        z = x | y
    elif OP == "^":
        z = x ^ y
    elif OP == "==":
        z = x == y
    elif OP == "!=":
        z = x != y
    elif OP == "<":
        z = x < y
    elif OP == "<=":
        z = x <= y
    elif OP == ">":
        z = x > y
    elif OP == ">=":
        z = x >= y
    elif OP == "min":
        z = tl.minimum(x, y)
    elif OP == "max":
        z = tl.maximum(x, y)
    elif OP == "<<":
        z = x << y
    elif OP == ">>":
        z = x >> y
    elif OP == ">>=":
        z = x
        z >>= y
    elif OP == "/":
        z = x / y
    elif OP == "//":
        z = x // y
    else:
        z = x % y
    tl.static_assert(z.dtype == o_ptr.dtype.element_ty)
    tl.store(o_ptr + i, z)


def common(a: np.dtype, b: np.dtype) -> np.dtype:
    """The type of Triton's `integer_promote_impl`."""
    if a.kind == b.kind:
        return max(a, b, key=lambda dtype: dtype.itemsize)
    unsigned, signed = (a, b) if a.kind == "u" else (b, a)
    return unsigned if unsigned.itemsize >= signed.itemsize else signed


def numbers(dtype: np.dtype, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    info = np.iinfo(dtype)
    edges = [info.min, info.max, 0, 1, info.max - 1]
    drawn = rng.integers(info.min, info.max, 27, dtype, endpoint=True)
    return np.concatenate([np.array(edges, dtype), drawn])


def launch(x: np.ndarray, y: np.ndarray, op: str, result: np.dtype) -> np.ndarray:
    out = np.zeros(len(x), result)
    apply[1,](x, y, out, op, len(x))
    return out


@pytest.mark.parametrize("op", OPERATORS)
def test_at_the_common_type(op: str) -> None:
    for a, b in pairs(list(OPERATORS).index(op)):
        ty = common(a, b)
        x, y = numbers(a, 0), numbers(b, 1)
        if op == "<<":
            y = (y % min(8, 8 * ty.itemsize)).astype(b)
        with np.errstate(all="ignore"):
            expected = OPERATORS[op](x.astype(ty), y.astype(ty))
        np.testing.assert_array_equal(launch(x, y, op, expected.dtype), expected, f"{a} {op} {b}")


@pytest.mark.parametrize(
    ("op", "backend", "first"),
    [
        (">>", "interp", 0),
        (">>", "interp:thread", 1),
        pytest.param(">>", "opencl", 2, marks=needs.pyopencl),
        (">>=", "interp", 1),  # the frontend makes it an operator and an assignment
    ],
)
def test_the_left_operand_says_how_it_is_shifted(op: str, backend: str, first: int) -> None:
    name, _, level = backend.partition(":")
    with config.scope(backend=name, **({"interp_level": level} if level else {})):
        for a, b in pairs(first):
            ty = common(a, b)
            x = numbers(a, 0)
            y = (numbers(b, 1) % (8 * a.itemsize)).astype(b)
            expected = (
                x.astype(np.int64 if a.kind == "i" else np.uint64)
                >> y.astype(np.int64 if a.kind == "i" else np.uint64)
            ).astype(ty)
            np.testing.assert_array_equal(launch(x, y, op, ty), expected, f"{a} {op} {b}")


@pytest.mark.parametrize("op", DIVIDING)
def test_divisions_of_different_signs_are_refused(op: str) -> None:
    for a in TYPES:
        for b in TYPES:
            x, y = np.full(4, 100, a), np.full(4, 7, b)
            if a.kind != b.kind:
                with pytest.raises(CompilationError, match="they have different signedness"):
                    launch(x, y, op, common(a, b))
                continue
            result = np.dtype(np.float32) if op == "/" else common(a, b)
            expected = {"/": np.float32(100) / np.float32(7), "//": 14, "%": 2}[op]
            np.testing.assert_allclose(launch(x, y, op, result), expected, rtol=1e-6)


@tile.jit
def shift_numbers(x_ptr, o_ptr, p_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(o_ptr + i, x >> 1)
    tl.store(p_ptr + i, 100 >> x)


@pytest.mark.parametrize("dtype", TYPES)
def test_numbers_have_the_type_of_the_other_operand(dtype: np.dtype) -> None:
    x = np.array([0, 1, 2, 5], dtype)
    out, shifted = np.zeros(4, dtype), np.zeros(4, dtype)
    shift_numbers[1,](x, out, shifted, 4)
    np.testing.assert_array_equal(out, x >> 1)
    np.testing.assert_array_equal(shifted, 100 >> x.astype(np.int64))
    if dtype.kind == "i":
        shift_numbers[1,](-x, out, np.zeros(4, dtype), 4)
        np.testing.assert_array_equal(out, -x >> 1)
