"""Aggregates: classes of values with fields and methods."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.frontend.building import refusal, stored, text_of, underlined
from tile.errors import ArgumentTypeError
from tile.frontend.python.aggregates import Aggregate
from tile.frontend.python.fingerprint import exact_digest
from tile.ir.types import I32, Pointer

INTS = Pointer(I32)


@tile.aggregate
class Pair:
    """Two values."""

    first: tl.tensor
    second: tl.tensor

    def __init__(self, first, second):
        self.first = first
        self.second = second

    @tile.jit
    def unpack(self):
        return self.first, self.get_second()

    def get_second(self, _semantic=None):
        return tl.add(self.second, 0, _semantic=_semantic)

    @staticmethod
    @tile.jit
    def of(x):
        return Pair(x, x + 1)

    @tile.jit
    def __add__(self, other):
        return Pair(self.first + other.first, self.second + other.second)

    @tile.jit
    def __radd__(self, other):
        return Pair(self.first + other, self.second)

    @tile.jit
    def __getitem__(self, scale):
        return self.first * scale

    @tile.jit
    def __lt__(self, other):
        return self.first < other.first

    @tile.jit
    def __neg__(self):
        return Pair(-self.first, -self.second)

    @tile.jit
    def __call__(self, x):
        return self.first * x + self.second


@tile.aggregate
class Span:
    start: tl.tensor
    BLOCK: tl.constexpr = 4

    @tile.jit
    def offsets(self):
        return self.start + tl.arange(0, self.BLOCK)

    @tile.jit
    def moved(self, by):
        self.start += by
        return self

    @staticmethod
    def at_zero(BLOCK):
        return Span(0, BLOCK)


@tile.aggregate
class Named(Span):
    pair: Pair

    @tile.jit
    def total(self):
        return self.start + self.pair.first + self.pair.second


def fields_and_methods(out, n):
    p = Pair(n, 11)
    a, b = p.unpack()
    tl.store(out, a)
    tl.store(out + 1, b)
    q = Pair.of(n)
    tl.store(out + 2, q.first)
    tl.store(out + 3, q.second)


def operators(out, n):
    p = Pair(n, 2)
    tl.store(out, (p + p).first)
    tl.store(out + 1, (10 + p).first)
    tl.store(out + 2, p[7])
    tl.store(out + 3, (p < Pair(5, 5)).to(tl.int32))
    tl.store(out + 4, (-p).second)
    tl.store(out + 5, p(100))


def assigned(out, n):
    p = Pair(n, 2)
    q = p
    q.second = 42
    q.first += 1
    if n > 3:
        q.first = 0
    tl.store(out, p.first + p.second)
    tl.store(out + 1, q.first)
    tl.store(out + 2, q.second)


def carried(out, n):
    s = Span.at_zero(4)
    for i in range(n):
        s = s.moved(i)
        s.start += tl.sum(tl.arange(0, s.BLOCK))
    tl.store(out, s.start)
    tl.store(out + 1, s.BLOCK)


def derived(out, n):
    x = Named(n, 8, Pair(1, 2))
    tl.store(out, x.total())
    x.pair.second = 30
    tl.store(out + 1, x.total())
    y = tile.aggregate_replace(x, start=0, BLOCK=2)
    tl.store(out + 2, y.total() + y.BLOCK)


@pytest.mark.parametrize(
    ("kernel", "n", "expected"),
    [
        (fields_and_methods, 5, [5, 11, 5, 6]),
        (operators, 3, [6, 13, 21, 1, -2, 302]),
        (assigned, 3, [5, 4, 42]),
        (assigned, 4, [6, 0, 42]),
        (derived, 3, [6, 34, 33]),
    ],
)
def test_kernels(kernel, n, expected) -> None:
    assert stored(kernel, n) == expected


def test_constant_fields_stay_constants_in_loops() -> None:
    text = text_of(carried, INTS, I32)
    assert "iter(%s_start" in text.replace(".", "_") and "tile<4xi32>" in text
    assert text.count("iter(") == 1


@tile.jit
def from_the_host(out, span, pair):
    tl.store(out + span.offsets(), pair.first * 10 + pair.second)


def test_values_from_the_host() -> None:
    out = np.zeros(8, np.int32)
    kernel = from_the_host[1,](out, Span(2, 4), Pair(3, 4))
    assert out.tolist() == [0, 0, 34, 34, 34, 34, 0, 0]
    assert kernel.constants == {} and kernel.signature["span"].BLOCK == "constexpr"
    from_the_host[1,](out, Span(0, 2), Pair(3, 4))
    assert out.tolist() == [34] * 6 + [0] * 2


def test_a_value_is_a_tuple_of_its_fields() -> None:
    pair = Pair(1, 2)
    assert isinstance(pair, tuple) and isinstance(pair, Aggregate)
    assert pair == (1, 2) and pair.first == 1 and repr(pair) == "Pair(first=1, second=2)"
    assert pickle.loads(pickle.dumps(pair)) == pair
    assert tile.aggregate_replace(pair, second=5) == (1, 5)
    assert Span(3).BLOCK.value == 4 and Span(start=3, BLOCK=8).BLOCK.value == 8
    assert Named(1, pair=pair)._fields == ("start", "BLOCK", "pair")
    assert Pair.__doc__ == "Two values."


def test_a_method_is_part_of_the_key_of_a_kernel() -> None:
    def kernel(out, n):
        tl.store(out, Local(n).value())

    keys = set()
    for change in (1, 2):

        def read(self):
            return self.x + change  # noqa: B023 - the closure is read at once

        @tile.aggregate
        class Local:
            x: tl.tensor
            value = tile.jit(read)

        keys.add(exact_digest(tile.jit(kernel), ()))
    assert len(keys) == 2 and None not in keys


def reads_unknown(out):
    tl.store(out, Pair(1, 2).third)


def sets_unknown(out):
    p = Pair(1, 2)
    p.third = 3


def sets_a_tile(out):
    x = tl.arange(0, 4)
    x.first = 3


def runtime_constant(out, n):
    Span(n, n)


def wrong_kind(out):
    Named(1, 2, 3)


def missing(out):
    Named(1)


def wrong_tensor(out):
    Pair("a", 2)


@pytest.mark.parametrize(
    ("kernel", "message", "place"),
    [
        (reads_unknown, "has no attribute `third`", "Pair(1, 2).third"),
        (sets_unknown, "Pair has no field 'third'", "p.third"),
        (sets_a_tile, "cannot assign to this, an attribute of tile<4xi32>", "x.first"),
        (runtime_constant, "Expected constexpr for attribute 'BLOCK' of Span", "Span(n, n)"),
        (wrong_kind, "Expected Pair for attribute 'pair' of Named", "Named(1, 2, 3)"),
        (missing, "Named is missing a value for 'pair'", "Named(1)"),
        (wrong_tensor, "Expected Tensor for attribute 'first' of Pair, got 'a'", 'Pair("a", 2)'),
    ],
)
def test_refusals(kernel, message, place) -> None:
    types = (INTS, I32) if kernel is runtime_constant else (INTS,)
    error = refusal(kernel, *types)
    assert message in error.message
    assert underlined(error) == place


def test_classes_that_are_refused() -> None:
    with pytest.raises(ArgumentTypeError, match="only inherit from other aggregates, and int"):
        tile.aggregate(type("Wrong", (int,), {}))
    with pytest.raises(ArgumentTypeError, match="decorates a class"):
        tile.aggregate(3)
    with pytest.raises(ArgumentTypeError, match="expects an aggregate instance, got 3"):
        tile.aggregate_replace(3, x=1)
    with pytest.raises(AttributeError, match="use aggregate_replace"):
        Pair(1, 2).first = 3

    @tile.aggregate
    class Partial:
        x: tl.tensor

        def __init__(self):
            """Set nothing."""

    with pytest.raises(ArgumentTypeError, match="did not initialize attribute 'x'"):
        Partial()

    @tile.aggregate
    class Jitted:
        x: tl.tensor

        @tile.jit
        def __init__(self):
            self.x = 1

    with pytest.raises(ArgumentTypeError, match="__init__ cannot be a @jit function"):
        Jitted()
