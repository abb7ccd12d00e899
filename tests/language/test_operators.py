"""Operators: results on compile-time and runtime values, and errors."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.language.sketch import Sketch
from tile.errors import CompilationError
from tile.ir import semantics
from tile.ir.types import SCALARS
from tile.language import operators
from tile.language.base.tensor import Tensor

SHAPES = [(), (1,), (4,), (1, 4), (2, 1), (2, 4), (2, 1, 4)]


def quotient(a: int, b: int) -> int:
    magnitude = abs(a) // abs(b)
    return magnitude if (a < 0) == (b < 0) else -magnitude


INTEGER_MEANINGS: dict[str, Any] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": quotient,
    "%": lambda a, b: a - b * quotient(a, b),
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")


def apply(sketch: Sketch, op: str, a: Any, b: Any) -> Any:
    chosen = operators.compare if op in COMPARISONS else operators.binary
    return chosen(sketch.build, op, a, b)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(sorted(INTEGER_MEANINGS)),
    st.sampled_from(["i8", "u8", "i32", "u32", "i64", "u64"]),
    st.data(),
)
def test_integer_operators_wrap_and_divide_towards_zero(op: str, name: str, data: Any) -> None:
    ty = SCALARS[name]
    number = st.integers(ty.min_value, ty.max_value) | st.integers(0, 3)
    a = data.draw(st.lists(number, min_size=4, max_size=4))
    divisor = number.filter(bool) if op in ("//", "%") else number
    b = data.draw(st.lists(divisor, min_size=4, max_size=4))
    weak = data.draw(st.booleans())
    sketch = Sketch(f"tile<4x{name}>", f"tile<4x{name}>")
    dtype = semantics.numpy_dtype(ty)
    x, y = np.array(a, dtype), np.array(b, dtype)
    right = b[0] if weak else sketch.args[1]
    actual = sketch.run(apply(sketch, op, sketch.args[0], right), x, y)
    for i, value in enumerate(actual.tolist()):
        exact = INTEGER_MEANINGS[op](a[i], b[0] if weak else b[i])
        wrapped = int(np.array(exact & ((1 << 64) - 1), np.uint64).astype(dtype))
        assert value == (exact if op in COMPARISONS else wrapped), (op, a[i], b[i])


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["+", "-", "*", "/", "<", "=="]),
    st.sampled_from(SHAPES),
    st.sampled_from(SHAPES),
    st.integers(0, 1000),
)
def test_float_operators_broadcast_as_numpy_does(
    op: str, left: tuple[int, ...], right: tuple[int, ...], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    a = rng.integers(-3, 4, left).astype(np.float32)
    b = rng.integers(1, 4, right).astype(np.float32)

    def ty(shape: tuple[int, ...]) -> str:
        return f"tile<{'x'.join(map(str, shape))}xf32>" if shape else "f32"

    sketch = Sketch(ty(left), ty(right))
    actual = sketch.run(apply(sketch, op, *sketch.args), a, b)
    expected = np.asarray(operators.PYTHON[op](a, b))
    assert actual.shape == expected.shape
    np.testing.assert_array_equal(actual, expected)


def test_an_integer_quotient_is_a_float() -> None:
    sketch = Sketch("tile<4xi32>")
    result = operators.binary(sketch.build, "/", sketch.args[0], 2)
    assert str(result.type) == "tile<4xf32>"
    actual = sketch.run(result, np.array([1, -3, 7, 0], np.int32))
    np.testing.assert_array_equal(actual, np.float32([0.5, -1.5, 3.5, 0]))


def test_a_float_remainder_has_the_sign_of_the_dividend() -> None:
    sketch = Sketch("tile<2xf32>", "tile<2xf32>")
    result = operators.binary(sketch.build, "%", *sketch.args)
    actual = sketch.run(result, np.float32([-5.5, 5.5]), np.float32([2, -2]))
    np.testing.assert_array_equal(actual, np.float32([-1.5, 1.5]))


def test_shifts_follow_the_signedness() -> None:
    sketch = Sketch("tile<2xi8>", "tile<2xu8>")
    signed = operators.binary(sketch.build, ">>", sketch.args[0], 1)
    unsigned = operators.binary(sketch.build, ">>", sketch.args[1], 1)
    left = operators.binary(sketch.build, "<<", sketch.args[0], 1)
    a, b, c = sketch.run((signed, unsigned, left), np.int8([-128, 3]), np.uint8([128, 3]))
    assert (a.tolist(), b.tolist(), c.tolist()) == ([-64, 1], [64, 1], [0, 6])


def test_unary_operators() -> None:
    sketch = Sketch("tile<2xi8>", "tile<2xi1>", "tile<2xf32>")
    i, b, f = sketch.args
    results = (
        operators.unary(sketch.build, "-", i),
        operators.unary(sketch.build, "~", i),
        operators.unary(sketch.build, "not", i),
        operators.unary(sketch.build, "~", b),
        operators.unary(sketch.build, "not", b),
        operators.unary(sketch.build, "-", b),
        operators.unary(sketch.build, "-", f),
        operators.unary(sketch.build, "not", f),
    )
    assert operators.unary(sketch.build, "+", f) is f
    actual = sketch.run(
        results, np.int8([-128, 5]), np.array([True, False]), np.float32([0.0, -1.5])
    )
    assert [x.tolist() for x in actual] == [
        [-128, -5],
        [127, -6],
        [False, False],
        [False, True],
        [False, True],
        [True, False],
        [-0.0, 1.5],
        [True, False],
    ]
    assert np.signbit(actual[6][0]), "minus zero"


def test_logical_operators_make_truth_values() -> None:
    sketch = Sketch("tile<4xi32>", "tile<4xf32>", "i1")
    i, f, c = sketch.args
    both = operators.logical(sketch.build, "and", i, f)
    either = operators.logical(sketch.build, "or", i, f)
    scalar = operators.logical(sketch.build, "and", c, i)
    actual = sketch.run(
        (both, either, scalar),
        np.int32([0, 0, 2, 2]),
        np.float32([0, 0.5, 0, np.nan]),
        np.bool_(True),
    )
    assert [x.tolist() for x in actual] == [
        [False, False, False, True],
        [False, True, True, True],
        [False, False, True, True],
    ]


def test_a_compile_time_operand_decides_a_logical_operator() -> None:
    sketch = Sketch("i1")
    (c,) = sketch.args
    for op, number, expected in [
        ("and", False, False),
        ("and", 3, c),
        ("or", 3, 3),
        ("or", None, c),
        ("or", 0, c),
    ]:
        assert operators.logical(sketch.build, op, number, c) is expected
        assert operators.logical(sketch.build, op, c, number) is expected
    assert operators.logical(sketch.build, "and", 0, 2) == 0
    assert sketch.text() == []


@pytest.mark.parametrize(
    ("op", "a", "b", "expected"),
    [
        ("//", -7, 2, -4),
        ("%", -7, 2, 1),
        ("/", 7, 2, 3.5),
        ("**", 2, 10, 1024),
        ("+", (1, 2), (3,), (1, 2, 3)),
        ("+", "a", "b", "ab"),
        ("<<", 1, 40, 1 << 40),
    ],
)
def test_two_compile_time_values_follow_python(op: str, a: Any, b: Any, expected: Any) -> None:
    result = operators.binary(Sketch().build, op, a, b)
    assert result == expected
    assert type(result) is type(expected)
    assert operators.compare(Sketch().build, "==", a, b) is (a == b)


@pytest.mark.parametrize(
    ("op", "a", "b", "message"),
    [
        ("//", 1, 0, "1 // 0: integer division or modulo by zero"),
        ("+", 1, None, "1 + None: unsupported operand type(s) for +: 'int' and 'NoneType'"),
        ("<<", 1, -1, "1 << -1: negative shift count"),
    ],
)
def test_an_error_of_python_is_an_error_of_the_kernel(
    op: str, a: Any, b: Any, message: str
) -> None:
    with pytest.raises(CompilationError) as caught:
        operators.binary(Sketch().build, op, a, b)
    assert caught.value.message == message


REFUSED: list[tuple[str, str, Any, str]] = [
    ("+", "tile<4xf32>", None, "`+` has invalid operands of type tile<4xf32> and None"),
    ("+", "tile<4xf32>", "x", "`+` has invalid operands of type tile<4xf32> and 'x' (str)"),
    ("<", "tile<4xf32>", (1,), "`<` has invalid operands of type tile<4xf32> and (1,) (tuple)"),
    ("&", "tile<4xf32>", 1, "`&` has invalid operands of type tile<4xf32> and 1"),
    ("&", "tile<4xi32>", 1.5, "`&` has invalid operands of type tile<4xi32> and 1.5"),
    (
        "//",
        "tile<4xf32>",
        2,
        "`//` is defined on integers, not on tile<4xf32>; write tl.floor(x / y)",
    ),
    (
        "**",
        "tile<4xf32>",
        2,
        "`**` is not defined on tiles and scalars; multiply, or write tl.exp2",
    ),
    (
        "@",
        "tile<4x4xf32>",
        2,
        "`@` is not defined on tiles and scalars; write tl.dot(a, b)",
    ),
    (
        "*",
        "f8e4m3",
        2,
        "`*` is not defined on tl.float8e4nv, which is for storage, casts and tl.dot",
    ),
    ("*", "ptr<f32>", 2, "`*` has invalid operands of type ptr<f32> and 2"),
    ("+", "ptr<f32>", 2.0, "`+` has invalid operands of type ptr<f32> and 2.0"),
    ("==", "ptr<f32>", 0, "`==` has invalid operands of type ptr<f32> and 0"),
]


@pytest.mark.parametrize(("op", "ty", "other", "message"), REFUSED)
def test_what_operators_refuse(op: str, ty: str, other: Any, message: str) -> None:
    sketch = Sketch(ty)
    with pytest.raises(CompilationError) as caught:
        apply(sketch, op, sketch.args[0], other)
    assert caught.value.message.startswith(message)


@pytest.mark.parametrize(
    ("op", "ty"), [("-", "ptr<f32>"), ("~", "f32"), ("~", "ptr<f32>"), ("+", "ptr<i8>")]
)
def test_unary_operators_that_are_refused(op: str, ty: str) -> None:
    sketch = Sketch(ty)
    with pytest.raises(
        CompilationError, match=f"`{'[+]' if op == '+' else op}` is not defined on {ty}"
    ):
        operators.unary(sketch.build, op, sketch.args[0])


def test_mixed_signedness_in_a_division() -> None:
    sketch = Sketch("i32", "u32")
    with pytest.raises(CompilationError) as caught:
        operators.binary(sketch.build, "%", *sketch.args)
    assert caught.value.message == (
        "Cannot use `%` with tl.int32 and tl.uint32 because they have different signedness; cast "
        "one of them to the signedness of the other"
    )


def test_pointers_advance_by_elements() -> None:
    sketch = Sketch("ptr<f16>", "tile<4xi32>")
    p, i = sketch.args
    operators.binary(sketch.build, "+", i, p)
    operators.binary(sketch.build, "-", p, i)
    operators.binary(sketch.build, "+", p, 3)
    assert sketch.text() == [
        "%v = splat %a {shape = (4)} : tile<4xptr<f16>>",
        "%v_1 = addptr %v, %b {stride = 2} : tile<4xptr<f16>>",
        "%v_2 = neg %b : tile<4xi32>",
        "%v_3 = splat %a {shape = (4)} : tile<4xptr<f16>>",
        "%v_4 = addptr %v_3, %v_2 {stride = 2} : tile<4xptr<f16>>",
        "%v_5 = const {value = 3} : i32",
        "%v_6 = addptr %a, %v_5 {stride = 2} : ptr<f16>",
    ]


@pytest.mark.parametrize("name", ["i1", "i8", "u8", "i16", "u16", "i32", "u32", "i64"])
@pytest.mark.parametrize("op", ["+", "-"])
def test_every_offset_is_extended_by_its_own_sign(name: str, op: str) -> None:
    ty = SCALARS[name]
    sketch = Sketch("ptr<i32>", name)
    p, i = sketch.args
    result = operators.binary(sketch.build, op, p, i)
    offset = ty.max_value if name in ("i32", "i64") else ty.min_value or ty.max_value
    if name == "i64":
        offset = 12345
    dtype = semantics.numpy_dtype(ty)
    actual = sketch.run(result, np.int64(1 << 40), np.array(offset, dtype))
    assert int(actual) == (1 << 40) + 4 * (offset if op == "+" else -offset)


def test_pointers_compare_by_address() -> None:
    sketch = Sketch("ptr<i32>", "ptr<i32>", "ptr<f32>")
    p, q, r = sketch.args
    less = operators.compare(sketch.build, "<", p, q)
    with pytest.raises(
        CompilationError, match="`==` has invalid operands of type ptr<i32> and ptr<f32>"
    ):
        operators.compare(sketch.build, "==", p, r)
    with pytest.raises(CompilationError, match="not defined on two pointers; for a difference"):
        operators.binary(sketch.build, "-", p, q)
    with pytest.raises(CompilationError, match="not defined on two pointers"):
        operators.binary(sketch.build, "+", p, q)
    with pytest.raises(CompilationError, match=r"`-` has invalid operands of type 3 and ptr<i32>"):
        operators.binary(sketch.build, "-", 3, p)
    assert sketch.run(less, np.int64(8), np.int64(16), np.int64(0)).tolist() is True


@pytest.mark.parametrize(
    "index",
    [
        None,
        (slice(None), None),
        (None, slice(None)),
        (None, slice(None), slice(None), None),
        (Ellipsis, None),
        (slice(None), None, Ellipsis, None),
        (None, Ellipsis),
        slice(None),
        Ellipsis,
        (),
    ],
    ids=repr,
)
def test_subscripts_add_axes_as_in_numpy(index: Any) -> None:
    x = np.arange(8, dtype=np.int32).reshape(2, 4)
    sketch = Sketch("tile<2x4xi32>")
    actual = sketch.run(operators.subscript(sketch.build, sketch.args[0], index), x)
    np.testing.assert_array_equal(actual, x[index])


def test_a_scalar_takes_new_axes_too() -> None:
    sketch = Sketch("f32")
    result = operators.subscript(sketch.build, sketch.args[0], (None, None))
    assert str(result.type) == "tile<1x1xf32>"


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ((slice(None), slice(None)), "too many indices for a value of type tile<4xf32>"),
        ((Ellipsis, None, Ellipsis), "too many indices"),
        (4, "index 4 is outside axis 0 of tile<4xf32>; its indices are -4 to 3"),
        (-5, "index -5 is outside axis 0"),
        (slice(2, 2), "this slice has 0 elements of axis 0 of tile<4xf32>"),
        (slice(None, None, 0), "the step of a slice of a tile cannot be 0"),
        (1.5, "unsupported tensor index: an index into a tile must be an integer, not 1.5"),
        ("a", "unsupported tensor index: an index into a tile must be an integer"),
        (slice(0.5), "a bound of a slice must be an integer"),
    ],
)
def test_other_subscripts_of_a_tile_are_refused(index: Any, message: str) -> None:
    sketch = Sketch("tile<4xf32>")
    with pytest.raises(CompilationError) as caught:
        operators.subscript(sketch.build, sketch.args[0], index)
    assert caught.value.message.startswith(message)


def test_subscripts_of_compile_time_values() -> None:
    sketch = Sketch("i32")
    one = Tensor(sketch.build.constant(1, SCALARS["i32"]))
    (n,) = sketch.args
    build = sketch.build
    assert operators.subscript(build, (4, 8, n), one) == 8
    assert operators.subscript(build, (4, 8, n), -1) is n
    assert operators.subscript(build, (4, 8, 16), slice(one, None)) == (8, 16)
    assert operators.subscript(build, {"a": 3}, "a") == 3
    with pytest.raises(
        CompilationError, match="an index into str must be known when the kernel is compiled"
    ):
        operators.subscript(build, "text", n)
    with pytest.raises(CompilationError, match="tuple index out of range"):
        operators.subscript(build, (4, 8), 2)
    with pytest.raises(CompilationError, match="not subscriptable"):
        operators.subscript(build, 3, 0)
