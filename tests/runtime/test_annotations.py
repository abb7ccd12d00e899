"""Annotated types of kernel parameters, and the types of NumPy scalars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tests import needs
from tests.runtime.fake_torch import Tensor, aligned
from tests.runtime.test_fast_path import Noting, noting  # noqa: F401 - a fixture
from tile.config import config
from tile.errors import ArgumentError, ArgumentTypeError, CompilationError
from tile.runtime.annotations import annotated_type
from tile.runtime.specialize import Rule, runtime_key

if TYPE_CHECKING:
    import nowhere

half = tl.float16


@tile.jit
def typed(
    o_ptr,
    a: tl.int64,
    b: "i64",  # noqa: F821, UP037 - the text of a text
    c: "tl.uint8" = 7,  # noqa: UP037
    d: half = 1,
    e: "fp64" = 0.1,  # noqa: UP037, F821
    f: float = 2,
    g: bool = 1,
    h: np.int16 = -3,
    x: tl.pointer_type(tl.float32) = None,
    y: "*fp32" = None,  # noqa: F722
):
    if x is not None:
        tl.store(o_ptr, tl.load(x))
    if y is not None:
        tl.store(o_ptr, tl.load(y))
    tl.store(o_ptr, a.to(tl.float64) + b + c + d + e + f + g + h)


@tile.jit
def plain(
    o_ptr: torch.Tensor,  # noqa: F821
    x_ptr: tl.tensor,
    n: int,
    m: int | None,
    k: nowhere.Type,
    s: str | None = None,
):
    tl.store(o_ptr, tl.load(x_ptr) + n + m + k)


TYPES = {
    "o_ptr": None,
    "a": tl.int64,
    "b": tl.int64,
    "c": tl.uint8,
    "d": tl.float16,
    "e": tl.float64,
    "f": tl.float32,
    "g": tl.int1,
    "h": tl.int16,
    **dict.fromkeys(("x", "y"), tl.pointer_type(tl.float32)),
}


def test_annotations_are_types() -> None:
    assert {p.name: annotated_type(typed, p) for p in typed.parameters} == TYPES
    assert {annotated_type(plain, p) for p in plain.parameters} == {None}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("const *fp32", tl.pointer_type(tl.float32)),
        ("*kfp16", tl.pointer_type(tl.float16)),
        ("tl.const", None),
        ("tl.constexpr", None),
        ("**tl.int32", tl.pointer_type(tl.pointer_type(tl.int32))),
        ("'u16'", tl.uint16),
        ("np.float64", tl.float64),
        ("np.complex64", None),
        ("tl.pointer_type(tl.bfloat16)", tl.pointer_type(tl.bfloat16)),
        ("half", tl.float16),
        ("not python", None),
        ("tl.tensor", None),
        (3, None),
        (list[int], None),
        (tl.float8e5, tl.float8e5),
    ],
)
def test_spellings(text: Any, expected: Any) -> None:
    def kernel(x):
        pass

    kernel.__annotations__["x"] = text
    function = tile.jit(kernel)
    assert annotated_type(function, function.parameters[0]) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tl.int46", "is annotated 'tl.int46': there is no type 'int46' (did you mean"),
        ("*fp23", "is annotated '*fp23': there is no type '*fp23' (did you mean *fp"),
    ],
)
def test_types_that_do_not_exist(text: str, words: str) -> None:
    def kernel(x):
        pass

    kernel.__annotations__["x"] = text
    with pytest.raises(ArgumentTypeError) as caught:
        tile.jit(kernel)[1,](5)
    assert "parameter 'x' of kernel() " + words in str(caught.value)


@pytest.mark.parametrize("backend", ["interp", pytest.param("opencl", marks=needs.pyopencl)])
def test_numbers_become_what_their_parameter_is(backend: str) -> None:
    out = np.zeros(1, np.float64)
    with config.scope(backend=backend):
        for a, b in ((1, 16), (np.int8(1), 16), (True, np.uint64(16))):
            kernel = typed[1,](out, a, b)
            assert out == 1 + 16 + 7 + 1 + 0.1 + 2 + 1 - 3
            assert kernel.signature == {
                "o_ptr": "*fp64:16" if out.ctypes.data % 16 == 0 else "*fp64",
                "a": "i64",
                "b": "i64:16",
                "c": "u8",
                "d": "fp16",
                "e": "fp64",
                "f": "fp32",
                "g": "i1",
                "h": "i16",
                "x": "constexpr",
                "y": "constexpr",
            }
        assert typed[1,](out, 5, 2**40, d=0.1) is kernel
        assert out == 5 + 2**40 + 7 + float(np.float16(0.1)) + 0.1 + 2 + 1 - 3


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"a": 2**63}, "argument 'a' of typed() is annotated i64, which does not hold 9223372"),
        ({"c": 256}, "argument 'c' of typed() is annotated u8, which does not hold 256"),
        ({"c": -1}, "annotated u8, which does not hold -1"),
        ({"c": np.int64(300)}, "annotated u8, which does not hold 300"),
        ({"g": 2}, "annotated i1, which does not hold 2"),
        ({"d": 1e6}, "annotated fp16, which does not hold 1000000.0"),
        ({"d": np.float64(65520)}, "annotated fp16, which does not hold 65520.0"),
        ({"f": 1e300}, "annotated fp32, which does not hold 1e+300"),
        ({"e": 10**400}, "annotated fp64, which does not hold 1000"),
        ({"a": 3.0}, "argument 'a' of typed() is annotated i64, and was given 3.0 (float)"),
        ({"a": np.float32(3)}, "annotated i64, and was given np.float32(3.0) (float32)"),
        ({"g": 1.0}, "annotated i1, and was given 1.0 (float)"),
        ({"a": np.zeros(3, np.int64)}, "annotated i64, and was given an array of int64"),
        ({"f": np.zeros(())}, "annotated fp32, and was given an array of float64"),
        ({"a": (1, 2)}, "annotated i64, and was given (1, 2) (tuple)"),
        ({"x": np.zeros(3)}, "argument 'x' of typed() is annotated *fp32, and was given an array"),
        ({"y": 0}, "argument 'y' of typed() is annotated *fp32, and was given 0 (int)"),
    ],
)
def test_what_a_parameter_does_not_hold_is_refused(given: dict[str, Any], words: str) -> None:
    out = np.zeros(1, np.float64)
    with pytest.raises(ArgumentError) as caught:
        typed[1,](out, **{"a": 1, "b": 1, **given})
    assert words in str(caught.value)


def test_floats_that_round_and_those_that_are_infinite() -> None:
    for value in (65519.0, float("inf"), float("nan"), -0.0, 2**15 + 1, 1e-30):
        assert runtime_key(value, Rule("x", type=tl.float16)) == "fp16"


def test_ordinary_annotations_say_nothing() -> None:
    out, x = np.zeros(1, np.int64), np.ones(1, np.int64)
    kernel = plain[1,](out, x, 2**40, 5, np.int8(3))
    assert out == 2**40 + 9
    assert [kernel.signature[n] for n in "nmk"] == ["i64:16", "i32", "i8"]


def test_unspecialized() -> None:
    kernel = tile.jit(do_not_specialize=["b"])(typed.fn)
    out = np.zeros(1, np.float64)
    one, two = (kernel[1,](out, 3, b) for b in (16, 17))
    assert one is two and one.signature["b"] == "i64"


def test_signatures_ahead_of_launches_agree() -> None:
    signature = {"o_ptr": "*fp64", "a": "i64", "b": "i64:16"}
    assert tile.compile(typed, signature, target="interp").signature["a"] == "i64"
    with pytest.raises(ArgumentTypeError, match=r"'a' of typed\(\) is annotated i64, and the sign"):
        tile.compile(typed, {**signature, "a": "i32"}, target="interp")


# -- repeats


@tile.jit
def numbers(x_ptr, n: tl.int64, m: tl.uint64, f: tl.float32, h: tl.float64):
    tl.store(x_ptr, n + m + f + h)


def test_repeats_are_held_to_the_types(noting: Noting) -> None:  # noqa: F811
    x = Tensor(aligned(4))
    kernel = tile.jit(numbers.fn)
    for n in (1, 5, 16):
        kernel[1,](x, n, 3, 1.5, 2.5)
    assert len(noting.launches) == 2  # 1 and 5 are alike
    assert noting.repeats == [((1, 1, 1), (x.data_ptr(), 5, 3, 1.5, 2.5))]
    for given in ((2**63, 3, 1.5, 2.5), (5, -1, 1.5, 2.5), (5, 3, 1e300, 2.5)):
        for _ in range(2):
            with pytest.raises(ArgumentError, match="does not hold"):
                kernel[1,](x, *given)
    for value in (float("inf"), float("nan"), -1e300, 3.4028235e38, 1e39):
        try:
            kernel[1,](x, 5, 3, value, 2.5)
        except ArgumentError:
            assert abs(value) in (1e300, 1e39)
    assert len(noting.repeats) == 1
    kernel[1,](x, 5, 3, float("inf"), 2.5)
    assert len(noting.repeats) == 2


# -- NumPy's scalars


@tile.jit
def promoted(x_ptr, o_ptr, alpha, BETA: tl.constexpr, GAMMA: tl.constexpr = np.float64(0.5)):  # noqa: B008
    x = tl.load(x_ptr) * alpha * BETA * GAMMA
    x = x + OUTSIDE
    tl.static_assert(x.dtype == tl.float32)
    tl.store(o_ptr, x)


OUTSIDE = tl.constexpr(np.float64(0.25))


@pytest.mark.parametrize("kind", [float, np.float64, np.float32, np.float16])
def test_floats_of_numpy_do_not_widen_a_kernel(kind: Any) -> None:
    x, out = np.full(1, 3, np.float32), np.zeros(1, np.float32)
    kernel = promoted[1,](x, out, kind(0.5), kind(0.25))
    assert kernel.signature["alpha"] == "fp32" and out == 3 * 0.5 * 0.25 * 0.5 + 0.25
    assert "f64" not in kernel.asm["tile"]


def test_floats_of_numpy_in_configurations() -> None:
    configs = [tile.Config({"BETA": np.float64(0.25)}), tile.Config({"BETA": np.float32(0.5)})]
    tuner = tile.autotune(configs, key=[], warmup=0, rep=0)(promoted)
    x, out = np.full(1, 3, np.float32), np.zeros(1, np.float32)
    tuner[1,](x, out, np.float64(1))
    assert out in (3 * 0.25 * 0.5 + 0.25, 3 * 0.5 * 0.5 + 0.25)


def test_a_captured_float_of_numpy() -> None:
    factor = tl.constexpr(np.float64(0.5))

    @tile.jit
    def scaled(x_ptr, o_ptr):
        x = tl.load(x_ptr) * factor
        tl.static_assert(x.dtype == tl.float32)
        tl.store(o_ptr, x)

    x, out = np.full(1, 3, np.float32), np.zeros(1, np.float32)
    scaled[1,](x, out)
    assert out == 1.5


# -- constant pointers


@tile.jit
def through(p):
    return p + 1


@tile.jit
def put(p, x):
    tl.store(p, x)


@tile.jit
def put_noinline(p: tl.const, x):
    tl.store(p, x)


@tile.jit
def constant(x: tl.const, o, n, HOW: tl.constexpr):
    if HOW == "store":
        tl.store(x, 1.0)
    elif HOW == "arithmetic":
        tl.store(through(x + n) + tl.arange(0, 4), 1.0)
    elif HOW == "atomic":
        tl.atomic_add(x, 1.0)
    elif HOW == "cas":
        tl.atomic_cas(x.to(tl.pointer_type(tl.int32)), 0, 1)
    elif HOW == "loop":
        p = x
        for _ in range(n):
            p += 1
        tl.store(p, 1.0)
    elif HOW == "select":
        tl.store(tl.where(n > 1, x, o), 1.0)
    elif HOW == "branch":
        p = o
        if n > 1:
            p = x
        tl.store(p, 1.0)
    elif HOW == "call":
        put(x, 1.0)
    elif HOW == "descriptor":
        d = tl.make_tensor_descriptor(x, [n], [1], [4])
        d.store([0], tl.zeros([4], tl.float32))
    elif HOW == "callee":
        put_noinline(o, 1.0)


HOWS = "store arithmetic atomic cas loop select branch call descriptor callee".split()


@pytest.mark.parametrize("how", HOWS)
def test_nothing_is_written_through_a_constant_pointer(how: str) -> None:
    x, out = np.zeros(16, np.float32), np.zeros(16, np.float32)
    with pytest.raises(CompilationError) as caught:
        constant[1,](x, out, 3, how)
    name = "p" if how == "callee" else "x"
    assert f"`{name}` is annotated tl.const, and `" in str(caught.value)
    assert "writes through it" in str(caught.value)
    assert "test_annotations.py" in str(caught.value)


@tile.jit
def reading(x: tl.const, y: "const *fp32", z: "*kfp32", o, n):  # noqa: F722, F821, UP037
    p = x
    for _ in range(n):
        p += 1
    d = tl.make_tensor_descriptor(x, [n], [1], [4])
    i = tl.arange(0, 4)
    tl.store(o + i, tl.load(p + i) + d.load([0]) + tl.load(y + i) + tl.load(z + i))


def test_a_constant_pointer_is_read() -> None:
    x, out = np.arange(16, dtype=np.float32), np.zeros(4, np.float32)
    reading[1,](x, x, x, out, 4)
    np.testing.assert_array_equal(out, x[:4] * 4 + 4)


def test_only_arrays_hold_float8e4b15() -> None:
    def scalar(y_ptr, x: tl.float8e4b15):
        tl.store(y_ptr, x.to(tl.float32))

    out = np.zeros(1, np.float32)
    words = r"argument 'x' of scalar\(\) is a number of type fp8e4b15, which only arrays can hold"
    with pytest.raises(ArgumentError, match=words):
        tile.jit(scalar)[1,](out, 0.5)
    types = {"y_ptr": "*fp32", "x": "fp8e4b15"}
    with pytest.raises(ArgumentError, match="which only arrays can hold"):
        tile.compile(tile.jit(scalar), types, {}, {}, "interp")[1,](out, 0.5)


def test_other_emulated_floats_are_passed_as_numbers() -> None:
    def scalar(y_ptr, x: tl.float8e4b8):
        tl.store(y_ptr, x.to(tl.float32))

    out = np.zeros(1, np.float32)
    tile.jit(scalar)[1,](out, 0.3)
    assert out == 0.3125
