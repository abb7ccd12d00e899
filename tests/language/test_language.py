"""Hints, assertions, prints, loops, and the lookup of builtins by kernels."""

from __future__ import annotations

import builtins
import inspect
import io
from typing import Any

import numpy as np
import pytest

import tile.language as tl
from tests.language.sketch import Sketch
from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.ir.ops.control import WarpSpecialize
from tile.ir.types import SCALARS, Scalar
from tile.language.base.builtin import MEMBERS, Bound, Builtin, builtin
from tile.language.base.static_args import compile_time, constant_value
from tile.language.base.tensor import Tensor
from tile.language.tensor_methods import tensor_attribute

# By name. `test_reference` checks which names exist: the stub is generated from them.
FUNCTIONS = {name: f for name in tl.__all__ if isinstance(f := getattr(tl, name), Builtin)}


def test_every_function_has_its_name_and_a_docstring() -> None:
    assert {name: function.name for name, function in FUNCTIONS.items()} == {
        n: n for n in FUNCTIONS
    }
    signatures = {name: inspect.signature(function) for name, function in FUNCTIONS.items()}
    assert [name for name, s in signatures.items() if "build" in s.parameters] == []
    inherited = inspect.getdoc(Builtin)
    assert [name for name, f in FUNCTIONS.items() if inspect.getdoc(f) in (None, inherited)] == []


def refusal(function: Builtin[..., Any]) -> str | None:
    """The message of a call outside a kernel, if it is refused."""
    try:
        function()
    except CompilationError as error:
        return error.message
    return None


def test_a_function_cannot_be_called_outside_a_kernel() -> None:
    assert {name: refusal(function) for name, function in FUNCTIONS.items()} == {
        name: f"tl.{name} can only be called inside a kernel (a @tile.jit function)"
        for name in FUNCTIONS
    }


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, "tl.arange: missing a required argument: 'start'"),
        ((0,), {"stop": 4}, "tl.arange: missing a required argument: 'end'"),
        ((0, 4, 1), {}, "tl.arange: too many positional arguments"),
        (
            (0, 4),
            {"strt": 1},
            "tl.arange: got an unexpected keyword argument 'strt'; did you mean `start`?",
        ),
    ],
)
def test_wrong_arguments_are_explained(args: Any, kwargs: Any, message: str) -> None:
    with pytest.raises(CompilationError) as caught:
        tl.arange.emit(Sketch().build, *args, **kwargs)
    assert caught.value.message.startswith(message)
    assert caught.value.notes == ["it is tl.arange(start, end)"]


def test_an_error_inside_a_function_is_not_taken_for_wrong_arguments() -> None:
    @builtin
    def broken(build: Builder, x: Any) -> Any:
        return len(x)

    with pytest.raises(TypeError, match="has no len"):
        broken.emit(Sketch().build, 3)


def test_attributes_of_a_value() -> None:
    sketch = Sketch("tile<4x8xf16>", "ptr<bf16>")
    x, p = sketch.args
    build = sketch.build
    assert tensor_attribute(build, x, "dtype") is tl.float16
    assert tensor_attribute(build, x, "shape") == (4, 8)
    assert tensor_attribute(build, x, "numel") == 32
    assert str(tensor_attribute(build, x, "type")) == "tile<4x8xf16>"
    assert tensor_attribute(build, x, "T").shape == (8, 4)
    assert tensor_attribute(build, p, "dtype").element_ty is tl.bfloat16
    to = tensor_attribute(build, x, "to")
    assert isinstance(to, Bound)
    assert to.name == "to"
    assert to.emit(build, tl.float32).dtype is tl.float32
    assert tensor_attribute(build, x, "sum").emit(build, axis=1, keep_dims=True).shape == (4, 1)
    assert tensor_attribute(build, p, "atomic_add").builtin is tl.atomic_add


def test_an_unknown_attribute_offers_those_that_are_close() -> None:
    sketch = Sketch("tile<4xf32>")
    with pytest.raises(CompilationError) as caught:
        tensor_attribute(sketch.build, sketch.args[0], "reshap")
    assert caught.value.message == (
        "a value of type tile<4xf32> has no attribute `reshap`; did you mean `reshape` or `shape`?"
    )
    with pytest.raises(CompilationError, match=r"has no attribute `zzz`$"):
        tensor_attribute(sketch.build, sketch.args[0], "zzz")


def test_a_method_is_the_function_of_that_name() -> None:
    own = {name: method for name, method in MEMBERS.items() if name not in FUNCTIONS}
    assert {*own} == {"item", "logical_and", "logical_or", "to"}
    assert all(m is FUNCTIONS[n] for n, m in MEMBERS.items() if n not in own)


def test_a_value_has_no_truth_while_it_is_compiled() -> None:
    (x,) = Sketch("i32").args
    with pytest.raises(
        CompilationError, match="a value of type i32 is known only when the kernel runs"
    ):
        bool(x)
    assert repr(x) == "<value of type i32>"


def test_compile_time_values() -> None:
    sketch = Sketch("i32")
    build = sketch.build
    assert constant_value(tl.to_tensor.emit(build, 5)) == 5
    assert constant_value(tl.to_tensor.emit(build, False)) is False
    assert constant_value(sketch.args[0]) is None
    assert constant_value(tl.zeros.emit(build, (4,), tl.int32)) is None
    assert constant_value(tl.constexpr(tl.constexpr(7))) == 7
    assert constant_value("text") == "text"
    with pytest.raises(
        CompilationError, match=r"the depth must be known when .* make it a parameter annotated"
    ):
        compile_time(sketch.args[0], "the depth")


def test_a_constexpr_computes_with_its_value() -> None:
    x = tl.constexpr(6)
    assert (x + 1).value == 7
    assert (13 - x).value == 7
    assert (x * tl.constexpr(2)).value == 12
    assert (2**x).value == 64
    assert (-x).value == -6
    assert (x > 5).value is True
    assert x == 6
    assert x != 7
    assert {x: 1}[6] == 1
    assert [0] * 7 == [0] * (x + 1).__index__()
    assert not tl.constexpr(0)
    assert repr(x) == "constexpr(6)"


def test_hints_gather_in_one_operation() -> None:
    sketch = Sketch("tile<8xi32>", "i32", "tile<4x4xi32>")
    x, n, y = sketch.args
    build = sketch.build
    tl.max_contiguous.emit(build, tl.multiple_of.emit(build, x, 16), [8])
    tl.multiple_of.emit(build, n, (4,))
    tl.max_constancy.emit(build, y, (1, 4))
    assert sketch.text() == [
        "%v = hint %a {divisible = (16)} : tile<8xi32>",
        "%v_1 = hint %a {divisible = (16), contiguous = (8)} : tile<8xi32>",
        "%v_2 = hint %b {divisible = (4)} : i32",
        "%v_3 = hint %c {constant = (1, 4)} : tile<4x4xi32>",
    ]


def test_a_second_promise_of_one_kind_does_not_replace_the_first() -> None:
    sketch = Sketch("i32")
    build = sketch.build
    tl.multiple_of.emit(build, tl.multiple_of.emit(build, *sketch.args, 16), 3)
    assert sketch.text()[1] == "%v_1 = hint %v {divisible = (3)} : i32"


def test_hints_that_are_refused() -> None:
    sketch = Sketch("tile<4x4xi32>", "i32")
    x, n = sketch.args
    build = sketch.build
    with pytest.raises(
        CompilationError, match="takes one value for each of 2 axes of tile<4x4xi32>, not 1"
    ):
        tl.multiple_of.emit(build, x, 16)
    with pytest.raises(
        CompilationError, match=r"an extent in the values of tl.max_contiguous must be known"
    ):
        tl.max_contiguous.emit(build, x, (n, n))
    with pytest.raises(CompilationError, match=r"tl.multiple_of takes a tile or scalar, not 3"):
        tl.multiple_of.emit(build, 3, 3)


def test_assumptions() -> None:
    sketch = Sketch("i1", "i32", "tile<4xi1>")
    c, n, x = sketch.args
    build = sketch.build
    tl.assume.emit(build, c)
    tl.assume.emit(build, n)
    tl.assume.emit(build, True)
    assert sketch.text() == ["assume %a", "%v = cast %b {to = i1} : i1", "assume %v"]
    with pytest.raises(
        CompilationError, match=r"tl.assume takes a scalar condition, not tile<4xi1>"
    ):
        tl.assume.emit(build, x)
    with pytest.raises(
        CompilationError, match=r"tl.assume was given a condition that is false at compile time"
    ):
        tl.assume.emit(build, False)


def test_assertions_while_compiling() -> None:
    sketch = Sketch("i1")
    tl.static_assert.emit(sketch.build, 4 > 3, "fine")
    with pytest.raises(CompilationError) as caught:
        tl.static_assert.emit(sketch.build, False, "BLOCK is a multiple of 16")
    assert caught.value.message == "static assertion failed: BLOCK is a multiple of 16"
    with pytest.raises(CompilationError) as caught:
        tl.static_assert.emit(sketch.build, 0)
    assert caught.value.message == "static assertion failed"
    with pytest.raises(CompilationError, match=r"the condition of tl.static_assert must be known"):
        tl.static_assert.emit(sketch.build, sketch.args[0])
    assert sketch.text() == []


def test_prints_while_compiling(capsys: pytest.CaptureFixture[str]) -> None:
    sketch = Sketch("tile<4xf32>")
    tl.static_print.emit(sketch.build, "x is", sketch.args[0], 3, tl.float16)
    assert capsys.readouterr().out == "x is <value of type tile<4xf32>> 3 fp16\n"
    stream = io.StringIO()
    tl.static_print.emit(sketch.build, 1, 2, sep="-", end="!", file=stream, flush=True)
    assert stream.getvalue() == "1-2!"


def test_prints_while_running() -> None:
    sketch = Sketch("tile<4xf32>")
    tl.device_print.emit(sketch.build, "x", sketch.args[0], 3, hex=True)
    tl.device_print.emit(sketch.build, "here")
    assert sketch.text() == [
        "%v = const {value = 3} : i32",
        'device_print %a, %v {prefix = "x", hex = true}',
        'device_print {prefix = "here"}',
    ]
    with pytest.raises(CompilationError, match=r"the prefix of tl.device_print is a text, not 3"):
        tl.device_print.emit(sketch.build, 3)


def test_assertions_while_running() -> None:
    sketch = Sketch("tile<4x1xi1>", "tile<8xi32>")
    c, m = sketch.args
    build = sketch.build
    tl.device_assert.emit(build, c)
    tl.device_assert.emit(build, True, "nothing to see")
    assert sketch.text() == ["device_assert %a"]
    tl.device_assert.emit(build, c, "fits", m)
    tl.device_assert.emit(build, False, "never")
    assert sketch.text()[1:] == [
        "%v = cast %b {to = i1} : tile<8xi1>",
        "%v_1 = broadcast %a {shape = (4, 8)} : tile<4x8xi1>",
        "%v_2 = expand_dims %v {axis = -2} : tile<1x8xi1>",
        "%v_3 = broadcast %v_2 {shape = (4, 8)} : tile<4x8xi1>",
        'device_assert %v_1, %v_3 {message = "fits"}',
        "%v_4 = const {value = false} : i1",
        'device_assert %v_4 {message = "never"}',
    ]


def test_a_barrier() -> None:
    sketch = Sketch()
    tl.debug_barrier.emit(sketch.build)
    assert sketch.text() == ["barrier"]


def test_ranges_hold_what_was_asked_for() -> None:
    loop = tl.range(8)
    assert (loop.start, loop.stop, loop.step) == (0, 8, 1)
    loop = tl.range(2, 8, 3, num_stages=4, loop_unroll_factor=2, flatten=True)
    assert (loop.start, loop.stop, loop.step) == (2, 8, 3)
    assert loop.attributes() == {
        "num_stages": 4,
        "unroll": 2,
        "flatten": True,
        "warp_specialize": WarpSpecialize.AUTO,
        "disallow_acc_multi_buffer": False,
        "disable_licm": False,
    }
    assert tl.range(1).attributes()["num_stages"] == 0
    assert tl.range(1).attributes()["unroll"] == 1
    (n,) = Sketch("i32").args
    assert tl.range(n).stop is n


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda n: tl.range(0, 8, 0), "the step of tl.range is 0"),
        (lambda n: tl.static_range(0, 8, 0), "the step of tl.static_range is 0"),
        (
            lambda n: tl.static_range(n),
            "a bound of tl.static_range must be known when the kernel is compiled",
        ),
        (
            lambda n: tl.range(8, num_stages=n).attributes(),
            "the num_stages of tl.range must be known",
        ),
        (
            lambda n: tl.range(8, num_stages=-1).attributes(),
            "the num_stages of tl.range is at least 0, not -1",
        ),
        (
            lambda n: tl.range(8, loop_unroll_factor=0).attributes(),
            "the loop_unroll_factor of tl.range is at",
        ),
        (lambda n: list(tl.range(8)), "tl.range can only be used inside a kernel"),
    ],
)
def test_ranges_that_are_refused(call: Any, message: str) -> None:
    (n,) = Sketch("i32").args
    with pytest.raises(CompilationError) as caught:
        call(n)
    assert caught.value.message.startswith(message)


def test_a_static_range_is_python_s() -> None:
    four = tl.to_tensor.emit(Sketch().build, 4)
    assert list(tl.static_range(four).values) == [0, 1, 2, 3]
    assert list(tl.static_range(8, 0, -3)) == [8, 5, 2]


def test_functions_of_python() -> None:
    table = tl.PYTHON_BUILTINS
    sketch = Sketch("i32", "tile<4x8xf32>")
    n, x = sketch.args
    build = sketch.build
    assert table[builtins.range] is tl.range
    assert table[builtins.abs] is tl.abs
    assert table[builtins.min].emit(build, 3, 2, 5) == 2
    assert table[builtins.max].emit(build, (3, 7)) == 7
    assert table[builtins.len].emit(build, (1, n)) == 2
    assert table[builtins.len].emit(build, x) == 4
    assert table[builtins.float].emit(build, "inf") == float("inf")
    assert table[builtins.int].emit(build, 3.7) == 3
    assert table[builtins.bool].emit(build, 2) is True
    least = table[builtins.min].emit(build, n, 3, 2.5)
    assert least.dtype is tl.float32
    table[builtins.print].emit(build, "n", "is", n)
    assert sketch.text()[-1] == 'device_print %a {prefix = "n is"}'


@pytest.mark.parametrize(
    ("function", "args", "message"),
    [
        (
            builtins.int,
            ("n",),
            "int(x) is for values known at compile time, and x is of type i32; write x.to(",
        ),
        (builtins.float, ("n",), "float(x) is for values known at compile time"),
        (builtins.bool, ("n",), "bool(x) is for values known at compile time"),
        (builtins.int, ("'x'",), "int('x' (str)): invalid literal for int()"),
        (builtins.max, ("n",), "max of one value; along the axes of a tile write tl.max(x, axis)"),
        (builtins.len, ("n",), "len of a scalar of type i32"),
    ],
)
def test_what_functions_of_python_refuse(
    function: Any, args: tuple[str, ...], message: str
) -> None:
    sketch = Sketch("i32")
    names = {"n": sketch.args[0], "'x'": "x"}
    values = [names[a] for a in args]
    if function is builtins.max:
        values = [tuple(values)]
    with pytest.raises(CompilationError) as caught:
        tl.PYTHON_BUILTINS[function].emit(sketch.build, *values)
    assert caught.value.message.startswith(message)


def test_types() -> None:
    assert tl.pi32_t == tl.pointer_type(tl.int32)
    (x,) = Sketch("tile<4x8xf32>").args
    assert tl.block_type(tl.float32, [4, 8]) == x.type
    assert isinstance(tl.float32, tl.dtype) and isinstance(x.type, tl.block_type)
    assert not isinstance(tl.float32, tl.block_type)
    assert tl.tensor is Tensor
    types = {name: ty for name in tl.__all__ if isinstance(ty := getattr(tl, name), tl.dtype)}
    assert len(types.keys() - {"void"}) == 19
    for name, ty in types.items():
        alias = {"float": "fp", "bfloat": "bf", "uint": "u", "int": "i"}
        if not isinstance(ty, Scalar):
            continue
        assert tl.dtype(ty.name) is ty and ty.codegen_name() == name
        prefix = name.rstrip("0123456789")
        if prefix in alias:
            assert ty.alias == alias[prefix] + name[len(prefix) :]
    assert [tl.float8e4nv.alias, tl.float8e5.alias] == ["fp8e4nv", "fp8e5"]
    emulated = (tl.float8e4b15, tl.float8e4b8, tl.float8e5b16)
    assert [ty.alias for ty in emulated] == ["fp8e4b15", "fp8e4b8", "fp8e5b16"]
    assert [(ty.fp_mantissa_width, ty.exponent_bias) for ty in emulated] == [
        (3, 15), (3, 8), (2, 16),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("ty", "name"),
    [
        (tl.int1, "int1"),
        (tl.int64, "int64"),
        (tl.uint8, "uint8"),
        (tl.float8e4nv, "fp8e4nv"),
        (tl.bfloat16, "bf16"),
        (tl.float32, "fp32"),
        (tl.void, "void"),
        (tl.pointer_type(tl.uint16), "pointer<uint16>"),
    ],
)
def test_names_of_types(ty: Any, name: str) -> None:
    assert ty.name == name == ty.cache_key_part
    queries = [query for query in dir(ty) if query.startswith("is_")]
    named = [query for query in queries if query.removeprefix("is_") in (*DTYPES, "fp8e4nv")]
    assert [q.removeprefix("is_") for q in named if getattr(ty, q)()] == (
        [name] if isinstance(ty, Scalar) else []
    )


DTYPES = [ty.name for ty in SCALARS.values()]


def test_properties_of_types() -> None:
    assert (tl.bfloat16.fp_mantissa_width, tl.bfloat16.exponent_bias) == (7, 127)
    for ty in (tl.float16, tl.float32, tl.float64):
        info = np.finfo(f"f{ty.itemsize}")
        assert (ty.fp_mantissa_width, ty.exponent_bias) == (info.nmant, info.maxexp - 1)
    assert (tl.uint8.get_int_min_value(), tl.uint8.get_int_max_value()) == (0, 255)
    assert tl.dtype.is_dtype("fp32") and not tl.dtype.is_dtype("float32")
    assert tl.dtype.UINT_TYPES == ["int1", "uint8", "uint16", "uint32", "uint64"]
    numbers = [*tl.dtype.SINT_TYPES, *tl.dtype.UINT_TYPES, *tl.dtype.FP_TYPES]
    assert sorted(numbers) == sorted(DTYPES) and set(tl.dtype.STANDARD_FP_TYPES) < set(numbers)
    assert tl.int8.FP_TYPES == tl.dtype.FP_TYPES and tl.float32.is_dtype("void")
    assert tl.void.is_void() and not tl.float32.is_void()
    block = tl.block_type(tl.int8, [4, 8]).with_element_ty(tl.float16)
    assert (block.nbytes, block.get_block_shapes(), block.mangle()) == (64, (4, 8), "fp16S4_8S")
    assert tl.pointer_type(tl.float32, 1, False).mangle() == "Pfp32"
    assert (tl.void.mangle(), tl.float64.with_element_ty(tl.int8)) == ("V", tl.int8)
    with pytest.raises(CompilationError, match="'float' names no type; the types are int1, int8"):
        tl.dtype("float")


def test_constexpr_outside_kernels() -> None:
    pair, zero = tl.constexpr((3, 4)), tl.constexpr(0)
    assert (pair[tl.constexpr(1)], list(pair)) == (4, [3, 4])
    assert (zero.logical_or(5).value, zero.logical_and(5).value) == (5, 0)
    assert (+tl.constexpr(True) == 1, zero.__not__().value) == (True, True)
    assert tl.constexpr(len)("abc") == 3
    assert zero.type == tl.constexpr_type(0) and zero.type != tl.constexpr_type(1)
    assert len({zero.type, tl.constexpr_type(0)}) == 1 and zero.type.mangle() == "c0"


def test_numpy_numbers_are_numbers() -> None:
    sketch = Sketch("tile<4xi8>")
    result = tl.where.emit(sketch.build, sketch.args[0], np.float32(1.5), np.int64(2))
    assert result.dtype is tl.float32


def test_expect_zero_is_a_note() -> None:
    sketch = Sketch("tile<4xf32>", "tile<4xi1>", "tile<8xi1>")
    x, mask, other = sketch.args
    assert tl.expect_zero.emit(sketch.build, x, mask) is x
    with pytest.raises(CompilationError, match=r"\[4\] and \[8\] cannot be broadcast together"):
        tl.expect_zero.emit(sketch.build, x, other)


def test_kinds_and_signedness() -> None:
    kinds = tl.dtype.KIND
    assert tl.int1.kind() is kinds.BOOLEAN and tl.bfloat16.kind() is kinds.FLOATING
    assert tl.uint8.kind() is kinds.INTEGRAL < kinds.FLOATING
    assert tl.int8.int_signedness is tl.dtype.SIGNEDNESS.SIGNED
    assert tl.int1.int_signedness is tl.uint64.int_signedness is tl.dtype.SIGNEDNESS.UNSIGNED
    assert not hasattr(tl.float32, "int_signedness") and not hasattr(tl.int32, "fp_mantissa_width")
