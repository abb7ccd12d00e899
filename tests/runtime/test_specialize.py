from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tile
import tile.language as tl
from tile.errors import ArgumentTypeError, ArgumentValueError
from tile.ir.types import F32, I32, Pointer
from tile.runtime.signature import ParameterType
from tile.runtime.specialize import (
    Constant,
    Rule,
    constant,
    constant_key,
    leaf_of,
    runtime_key,
    spell_leaf,
)

RULE = Rule("argument 'n' of add()")
PLAIN = Rule("argument 'n' of add()", ones=False, alignment=False)


@pytest.mark.parametrize(
    ("value", "key", "unspecialized"),
    [
        (1, "i32:1", "i32"),
        (0, "i32:16", "i32"),
        (7, "i32", "i32"),
        (32, "i32:16", "i32"),
        (-48, "i32:16", "i32"),
        (7000, "i32:8", "i32"),
        (-12, "i32:4", "i32"),
        (2, "i32", "i32"),
        (2**40 + 8, "i64:8", "i64"),
        (2**31 - 1, "i32", "i32"),
        (2**31, "i64:16", "i64"),
        (2**31 + 1, "i64", "i64"),
        (-(2**31), "i32:16", "i32"),
        (-(2**31) - 1, "i64", "i64"),
        (2**63 - 1, "i64", "i64"),
        (2**63, "u64:16", "u64"),
        (2**64 - 1, "u64", "u64"),
        (-(2**63), "i64:16", "i64"),
        (1.0, "fp32", "fp32"),
        (True, "i1", "i1"),
        (np.int64(1), "i64", "i64"),
        (np.int8(16), "i8:16", "i8"),
        (np.int8(-8), "i8:8", "i8"),
        (np.uint64(2**63), "u64:16", "u64"),
        (np.float64(16), "fp32", "fp32"),
        (np.float16(16), "fp32", "fp32"),
        (np.bool_(False), "i1", "i1"),
        (ml_dtypes.bfloat16(1), "fp32", "fp32"),
    ],
)
def test_scalars(value, key: str, unspecialized: str) -> None:
    assert runtime_key(value, RULE) == key
    assert runtime_key(value, PLAIN) == unspecialized


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1])
def test_integers_that_no_type_holds(value: int) -> None:
    with pytest.raises(ArgumentValueError) as caught:
        runtime_key(value, RULE)
    assert f"argument 'n' of add() is {value}, which no integer type holds" in str(caught.value)
    assert "-9223372036854775808 (i64) to 18446744073709551615 (u64)" in str(caught.value)


@given(st.integers(-(2**63), 2**64 - 1))
def test_every_integer_fits_the_type_that_it_gets(value: int) -> None:
    leaf = leaf_of(value, runtime_key(value, RULE))
    if leaf == Constant(1):
        assert value == 1
        return
    assert isinstance(leaf, ParameterType)
    assert leaf.type.min_value <= value <= leaf.type.max_value
    assert leaf.divisible == next((d for d in (16, 8, 4) if value % d == 0), 1)
    assert int(np.dtype(leaf.type.name).type(value)) == value


def test_alignment_of_arrays() -> None:
    bytes_ = np.zeros(64, np.uint8)
    start = -bytes_.ctypes.data % 16
    aligned = bytes_[start : start + 32].view(np.float32)
    assert runtime_key(aligned, RULE) == "*fp32:16"
    assert runtime_key(aligned[1:], RULE) == "*fp32"
    assert runtime_key(aligned[4:], RULE) == "*fp32:16"
    assert runtime_key(aligned, PLAIN) == "*fp32"
    assert runtime_key(aligned, Rule("x", alignment=False)) == "*fp32"
    assert runtime_key(1, Rule("x", alignment=False)) == "i32:1"


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "longlong", "ulong", "float64", ml_dtypes.float8_e5m2]
)
def test_arrays_of_every_kind(dtype) -> None:
    key = runtime_key(np.zeros(3, dtype), PLAIN)
    assert key == "*" + {"bool": "i1", "int8": "i8", "uint16": "u16", "longlong": "i64"}.get(
        dtype, {"ulong": "u64", "float64": "fp64"}.get(dtype, "fp8e5")
    )


@pytest.mark.parametrize("array", [np.zeros(()), np.zeros((0, 3)), np.zeros((2, 3)).T[::-1]])
def test_arrays_of_any_shape(array) -> None:
    assert str(runtime_key(array, PLAIN)) == "*fp64"


def test_none_is_a_constant() -> None:
    assert leaf_of(None, runtime_key(None, RULE)) == Constant(None)


def test_ones_are_constants() -> None:
    assert leaf_of(1, runtime_key(1, RULE)) == Constant(1)
    assert leaf_of(1, runtime_key(1, PLAIN)) == ParameterType(I32)


def test_a_wrapped_constant_for_a_runtime_parameter() -> None:
    value = tl.constexpr(48)
    assert leaf_of(value, runtime_key(value, RULE)) == Constant(48)


def test_tuples() -> None:
    value = (np.zeros(4, np.float32), (1, 5), None)
    leaf = leaf_of(value, runtime_key(value, PLAIN))
    assert leaf == (
        ParameterType(Pointer(F32)),
        (ParameterType(I32), ParameterType(I32)),
        Constant(None),
    )
    assert spell_leaf(leaf) == ("*fp32", ("i32", "i32"), "constexpr")
    assert runtime_key((1,), RULE) != runtime_key(((1,),), RULE) != runtime_key((1, 1), RULE)


# -- constants


DTYPES = st.sampled_from([tl.float32, tl.int8, None, "relu", "", len, max])
CONSTANTS = st.recursive(
    st.integers() | st.booleans() | st.floats() | DTYPES,
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=5,
)


def alike(a, b) -> bool:
    """The same in every way that a kernel could tell."""
    if type(a) is not type(b):
        return False
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, float):
        return (np.isnan(a) and np.isnan(b)) or (a == b and np.signbit(a) == np.signbit(b))
    return a == b


@given(CONSTANTS, CONSTANTS)
def test_keys_are_equal_for_equal_constants_alone(a, b) -> None:
    assert (constant_key(a) == constant_key(b)) == alike(a, b)


@pytest.mark.parametrize(
    ("a", "b"), [(1, True), (1, 1.0), (0.0, -0.0), ((1,), (1.0,)), (0, None), ("1", 1), ((), None)]
)
def test_constants_that_python_might_confuse(a, b) -> None:
    assert constant_key(a) != constant_key(b)


def test_nan_is_one_constant() -> None:
    assert constant_key(float("nan")) == constant_key(float("nan"))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (tl.constexpr(4), 4),
        (np.int64(4), 4),
        (tl.constexpr(np.float32(0.5)), 0.5),
        ((np.int8(1), tl.constexpr(2)), (1, 2)),
        (np.bool_(True), True),
        (ml_dtypes.bfloat16(2), 2.0),
    ],
)
def test_constants_come_out_of_their_wrappers(value, expected) -> None:
    actual = constant(value, "x")
    assert alike(actual, expected)


def test_a_dtype_and_a_numpy_class_are_constants() -> None:
    assert constant(tl.float32, "x") is tl.float32
    assert constant(np.float32, "x") is np.float32


@pytest.mark.parametrize(
    "value", [np.zeros(3), np.zeros(()), np.longdouble(1), tile.pointers([np.zeros(3)])]
)
def test_an_array_is_no_constant(value) -> None:
    with pytest.raises(
        ArgumentTypeError, match=r"argument 'B' of f\(\) is a tl.constexpr, .* an array"
    ):
        constant(value, "argument 'B' of f()")


@pytest.mark.parametrize("value", [[1], {1: 2}, (1, [2]), {3}])
def test_what_cannot_be_hashed_is_no_constant(value) -> None:
    with pytest.raises(ArgumentTypeError, match="it takes a hashable constant"):
        constant(value, "argument 'B' of f()")
