"""Philox against known answers and a reference in Python's integers, and the functions built on it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tile.language as tl
from tests.language.sketch import Sketch
from tile.errors import CompilationError

MULTIPLIERS = {32: (0xD2511F53, 0xCD9E8D57), 64: (0xD2E7470EE14C6C93, 0xCA5A826395121157)}
INCREMENTS = {32: (0x9E3779B9, 0xBB67AE85), 64: (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)}


def reference(bits: int, counter: list[int], key: list[int], rounds: int = 10) -> list[int]:
    mask = (1 << bits) - 1
    a, b, c, d = counter
    low, high = key
    for _ in range(rounds):
        p, q = MULTIPLIERS[bits][0] * a, MULTIPLIERS[bits][1] * c
        a, b, c, d = (q >> bits) ^ b ^ low, q & mask, (p >> bits) ^ d ^ high, p & mask
        low, high = (low + INCREMENTS[bits][0]) & mask, (high + INCREMENTS[bits][1]) & mask
    return [a, b, c, d]


# Bits, rounds, counter, key and result, as published with the generator.
KNOWN = """
32  7 00000000 00000000 00000000 00000000 00000000 00000000 5f6fb709 0d893f64 4f121f81 4f730a48
32  7 ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff 5207ddc2 45165e59 4d8ee751 8c52f662
32  7 243f6a88 85a308d3 13198a2e 03707344 a4093822 299f31d0 4dfccaba 190a87f0 c47362ba b6b5242a
32 10 00000000 00000000 00000000 00000000 00000000 00000000 6627e8d5 e169c58d bc57ac4c 9b00dbd8
32 10 ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff 408f276d 41c83b0e a20bc7c6 6d5451fd
32 10 243f6a88 85a308d3 13198a2e 03707344 a4093822 299f31d0 d16cfe09 94fdcceb 5001e420 24126ea1
64 10 0000000000000000 0000000000000000 0000000000000000 0000000000000000 0000000000000000 \
0000000000000000 16554d9eca36314c db20fe9d672d0fdc d7e772cee186176b 7e68b68aec7ba23b
64 10 ffffffffffffffff ffffffffffffffff ffffffffffffffff ffffffffffffffff ffffffffffffffff \
ffffffffffffffff 87b092c3013fe90b 438c3c67be8d0224 9cc7d7c69cd777b6 a09caebf594f0ba0
64 10 243f6a8885a308d3 13198a2e03707344 a4093822299f31d0 082efa98ec4e6c89 452821e638d01377 \
be5466cf34e90c6c a528f45403e61d95 38c72dbd566e9788 a5a1610e72fd18b5 57bd43b5e52b7fe6
"""


def words(arrays: Any) -> list[int]:
    return [int(x) for x in arrays]


@pytest.mark.parametrize("line", KNOWN.strip().split("\n"))
def test_known_answers(line: str) -> None:
    bits, rounds, *numbers = line.split()
    counter, key, expected = (
        [int(n, 16) for n in part] for part in (numbers[:4], numbers[4:6], numbers[6:])
    )
    assert reference(int(bits), counter, key, int(rounds)) == expected
    sketch = Sketch(*[f"u{bits}"] * 6)
    results = tl.philox_impl.emit(sketch.build, *sketch.args, n_rounds=int(rounds))
    dtype = {"32": np.uint32, "64": np.uint64}[bits]
    assert words(sketch.run(results, *map(dtype, counter + key))) == expected


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, (1 << 64) - 1), st.lists(st.integers(0, (1 << 32) - 1), min_size=4, max_size=4)
)
def test_a_seed_of_64_bits_is_the_key(seed: int, offsets: list[int]) -> None:
    sketch = Sketch("u64", "tile<4xu32>")
    results = tl.randint4x.emit(sketch.build, *sketch.args)
    assert [str(r.type) for r in results] == ["tile<4xu32>"] * 4
    actual = sketch.run(results, np.uint64(seed), np.uint32(offsets))
    for i, offset in enumerate(offsets):
        expected = reference(32, [offset, 0, 0, 0], [seed & 0xFFFFFFFF, seed >> 32])
        assert [int(x[i]) for x in actual] == expected


@pytest.mark.parametrize(
    ("seed", "key"), [(7, [7, 0]), (-1, [0xFFFFFFFF, 0xFFFFFFFF]), (1 << 40, [0, 256])]
)
def test_a_number_as_seed(seed: int, key: list[int]) -> None:
    sketch = Sketch("i32")
    results = tl.randint4x.emit(sketch.build, seed, *sketch.args)
    assert words(sketch.run(results, np.int32(-2))) == reference(32, [0xFFFFFFFE, 0, 0, 0], key)


def test_an_offset_of_64_bits_is_two_words_of_the_counter() -> None:
    sketch = Sketch("i64")
    results = tl.randint4x.emit(sketch.build, 3, *sketch.args)
    offset = (5 << 32) + 9
    assert words(sketch.run(results, np.int64(offset))) == reference(32, [9, 5, 0, 0], [3, 0])


def test_counters_of_64_bits_take_the_seed_as_one_word() -> None:
    sketch = Sketch("i64", "i64")
    seed, c0 = sketch.args
    results = tl.philox.emit(sketch.build, seed, c0, 1, 2, 3)
    actual = sketch.run(results, np.int64(-5), np.int64(1 << 50))
    assert words(actual) == reference(64, [1 << 50, 1, 2, 3], [(1 << 64) - 5, 0])


def test_fewer_rounds() -> None:
    sketch = Sketch("tile<2xi32>")
    results = tl.randint4x.emit(sketch.build, 1, *sketch.args, n_rounds=1)
    assert [r.shape for r in results] == [(2,)] * 4
    actual = sketch.run(results, np.int32([3, 4]))
    for i, offset in enumerate((3, 4)):
        assert [int(x[i]) for x in actual] == reference(32, [offset, 0, 0, 0], [1, 0], 1)


def floats(bits: Any) -> Any:
    """Return the uniform floats of 32 random bits, computed in NumPy."""
    signed = bits.view(np.int32)
    return np.where(signed < 0, ~signed, signed).astype(np.float32) * np.float32(4.6566127342e-10)


def test_uniform_and_normal_numbers_are_made_of_the_four_words() -> None:
    offsets = np.arange(1024, dtype=np.int32)
    sketch = Sketch("i32", "tile<1024xi32>")
    build = sketch.build
    results = (
        *tl.randint4x.emit(build, *sketch.args),
        tl.randint.emit(build, *sketch.args),
        tl.rand.emit(build, *sketch.args),
        *tl.rand4x.emit(build, *sketch.args),
        tl.randn.emit(build, *sketch.args),
        *tl.randn4x.emit(build, *sketch.args),
    )
    actual = sketch.run(results, np.int32(42), offsets)
    integers, one, uniform, uniforms, normal, normals = (
        actual[:4],
        actual[4],
        actual[5],
        actual[6:10],
        actual[10],
        actual[11:],
    )
    np.testing.assert_array_equal(one, integers[0])
    for have, bits in zip(uniforms, integers, strict=True):
        np.testing.assert_array_equal(have, floats(bits))
        assert have.dtype == np.float32
        assert have.min() >= 0
        assert have.max() < 1
    np.testing.assert_array_equal(uniform, uniforms[0])
    np.testing.assert_array_equal(normal, normals[0])
    u = [x.astype(np.float64) for x in uniforms]
    for first in (0, 2):
        radius = np.sqrt(-2 * np.log(np.maximum(u[first], 1e-7)))
        angle = 2 * math.pi * u[first + 1]
        np.testing.assert_allclose(normals[first], radius * np.cos(angle), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(normals[first + 1], radius * np.sin(angle), rtol=1e-5, atol=1e-5)


def test_moments() -> None:
    size = 1 << 16
    sketch = Sketch("i32", f"tile<{size}xi32>")
    results = (tl.rand.emit(sketch.build, *sketch.args), tl.randn.emit(sketch.build, *sketch.args))
    uniform, normal = sketch.run(results, np.int32(1), np.arange(size, dtype=np.int32))
    # Five standard errors of mean and variance.
    assert abs(uniform.mean(dtype=float) - 0.5) < 5 * math.sqrt(1 / 12 / size)
    assert abs(uniform.var(dtype=float) - 1 / 12) < 5 * math.sqrt(1 / 180 / size)
    assert abs(normal.mean(dtype=float)) < 5 * math.sqrt(1 / size)
    assert abs(normal.var(dtype=float) - 1) < 5 * math.sqrt(2 / size)


@pytest.mark.parametrize(("name", "bits"), [("u32", 32), ("i32", 32), ("u64", 64), ("i64", 64)])
def test_the_extremes_of_uniform_floats(name: str, bits: int) -> None:
    sketch = Sketch(f"tile<4x{name}>")
    result = tl.uint_to_uniform_float.emit(sketch.build, *sketch.args)
    words = np.array([0, (1 << bits) - 1, (1 << bits - 1) - 1, 1 << bits - 1], f"u{bits // 8}")
    actual = sketch.run(result, words.view(f"{'iu'[name[0] == 'u']}{bits // 8}"))
    assert actual.dtype == np.float32
    assert actual[:2].tolist() == [0, 0]
    assert np.all(actual[2:] < 1)
    assert np.all(actual[2:] > 0.999999)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b, i, f: tl.rand.emit(b, f, i), "the seed of tl.philox is an integer, not f32"),
        (
            lambda b, i, f: tl.rand.emit(b, 1, f),
            "the offset of tl.randint4x is an integer, not f32",
        ),
        (
            lambda b, i, f: tl.philox.emit(b, 1, tl.cast.emit(b, i, tl.int8), 0, 0, 0),
            "the counters of tl.philox",
        ),
        (
            lambda b, i, f: tl.philox_impl.emit(b, i, i, i, i, i, i),
            "tl.philox_impl takes counters and keys that",
        ),
        (
            lambda b, i, f: tl.uint_to_uniform_float.emit(b, f),
            "tl.uint_to_uniform_float takes integers of 32",
        ),
        (
            lambda b, i, f: tl.rand.emit(b, 1, i, i),
            "the n_rounds of tl.philox_impl must be known when",
        ),
    ],
)
def test_what_random_numbers_refuse(call: Any, message: str) -> None:
    sketch = Sketch("i32", "f32")
    with pytest.raises(CompilationError) as caught:
        call(sketch.build, *sketch.args)
    assert caught.value.message.startswith(message)
