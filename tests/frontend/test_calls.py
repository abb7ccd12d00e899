"""Device functions: specialization, arguments, results."""

from __future__ import annotations

from collections import namedtuple

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.frontend.building import (
    INTS,
    PTR,
    module_of,
    ops_of,
    refusal,
    source_line,
    stored,
    text_of,
)
from tile.errors import CompilationError
from tile.frontend.python.source import DeviceFunction
from tile.ir.types import F32, I32

Pair = namedtuple("Pair", "first second")


@DeviceFunction
def scaled(x, by: tl.constexpr = 2, *, plus=0):
    return x * by + plus


@DeviceFunction
def sum_and_difference(pair):
    a, b = pair
    return a + b, a - b


@DeviceFunction
def signum(x):
    if x > 0:
        return 1
    elif x < 0:
        return -1
    return 0


@DeviceFunction
def first_above(limit, n):
    for i in range(n):
        if i * i > limit:
            return i
    return -1


@DeviceFunction
def element(kind: tl.constexpr):
    if kind == "half":
        return tl.float16
    return tl.float32


@DeviceFunction
def nothing():
    pass


@DeviceFunction
def apply(f: tl.constexpr, x):
    return f(x)


@DeviceFunction
def log_store(out, x):
    tl.store(out, x)


def functions(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(("func", "kernel"))]


def test_a_call_is_a_function_of_the_module():
    def kernel(out, a):
        tl.store(out, scaled(a, 3))

    text = text_of(kernel, INTS, I32)
    assert functions(text) == [
        "kernel @kernel(%out: ptr<i32>, %a: i32) {",
        "func @scaled__i32_c3_c0(%x: i32) -> (i32) {",
    ]
    assert "call %a {callee = @scaled__i32_c3_c0} : i32" in text


def test_one_specialization_serves_equal_types_and_constants():
    def kernel(out, a, b, N: tl.constexpr):
        tl.store(out, scaled(a))
        tl.store(out, scaled(b))
        tl.store(out, scaled(b, N))
        tl.store(out, scaled(b, by=2, plus=0))
        tl.store(out, scaled(b, 3))
        tl.store(out, scaled(a * 1.0, 2).to(tl.int32))

    text = text_of(kernel, INTS, I32, I32, N=2)
    names = [line.split("(")[0] for line in functions(text)[1:]]
    assert names == [
        "func @scaled__i32_c2_c0",
        "func @scaled__i32_c3_c0",
        "func @scaled__f32_c2_c0",
    ]


def test_equal_numbers_of_different_kinds_are_specialized_apart():
    def kernel(out, a):
        tl.store(out, scaled(a, 1))
        tl.store(out, scaled(a, True))
        tl.store(out, scaled(a, 1.0).to(tl.int32))

    assert len(functions(text_of(kernel, INTS, I32))) == 4


def test_defaults_keywords_and_order():
    def kernel(out, a):
        tl.store(out, scaled(a))
        tl.store(out, scaled(by=3, x=a))
        tl.store(out, scaled(a, 3, plus=a))
        tl.store(out, scaled(*(a, 5)))

    assert stored(kernel, 7) == [14, 21, 28, 35]


def test_a_constant_in_a_name_serves_a_constexpr_parameter():
    def kernel(out, a):
        by = 4
        tl.store(out, scaled(a, by))

    assert "@scaled__i32_c4_c0" in text_of(kernel, INTS, I32)


def test_numbers_stay_constant_inside():
    def kernel(out, a):
        tl.store(out, scaled(5, 2))

    text = text_of(kernel, INTS, I32)
    assert functions(text) == ["kernel @kernel(%out: ptr<i32>, %a: i32) {"]
    assert "const {value = 10} : i32" in text


def test_tuples_go_in_and_out_flat():
    def kernel(out, a, b):
        total, difference = sum_and_difference((a, b))
        tl.store(out, total)
        tl.store(out, difference)
        tl.store(out, sum_and_difference(Pair(second=b, first=a))[0])

    text = text_of(kernel, INTS, I32, I32)
    assert "(%pair.0: i32, %pair.1: i32) -> (i32, i32)" in text
    assert stored(kernel, 5, 3) == [8, 2, 8]


@pytest.mark.parametrize("x, expected", [(5, 1), (-5, -1), (0, 0)])
def test_results_of_several_returns(x, expected):
    def kernel(out, x):
        tl.store(out, signum(x))

    assert stored(kernel, x) == [expected]


@pytest.mark.parametrize("limit, n, expected", [(10, 9, 4), (10, 3, -1), (10, 0, -1)])
def test_a_return_out_of_a_loop(limit, n, expected):
    def kernel(out, limit, n):
        tl.store(out, first_above(limit, n))

    assert stored(kernel, limit, n) == [expected]


def test_types_and_functions_are_arguments_and_results():
    def kernel(out, a, KIND: tl.constexpr):
        x = tl.zeros((4,), element(KIND))
        tl.static_assert(x.dtype == tl.float16)
        tl.store(out, apply(signum, a))
        tl.static_assert(nothing() is None)

    text = text_of(kernel, INTS, I32, KIND="half")
    assert "call" in text and "element" not in text and "nothing" not in text


def test_a_function_that_only_stores_is_called():
    def kernel(out, a):
        log_store(out, a)

    assert stored(kernel, 3) == [3]


def test_noinline_functions_say_so():
    outlined = DeviceFunction(signum.fn, noinline=True)

    def kernel(out, a):
        tl.store(out, outlined(a))

    assert "func noinline @signum__i32" in text_of(kernel, INTS, I32)


def test_functions_of_one_name_are_distinguished():
    def make(number):
        def helper(x):
            return x + number

        return DeviceFunction(helper)

    one, two = make(tl.constexpr(1)), make(tl.constexpr(2))

    def kernel(out, a):
        tl.store(out, one(a) * two(a))

    text = text_of(kernel, INTS, I32)
    assert "@helper__i32(" in text and "@helper__i32_2(" in text
    assert stored(kernel, 3) == [4 * 5]


# -- refused


def test_recursion_shows_the_cycle():
    def kernel(out, a):
        tl.store(out, ping(a))

    error = refusal(kernel, INTS, I32)
    assert (
        error.message
        == "`ping` calls itself (ping -> pong -> ping); recursion is not supported, write a loop"
    )
    assert source_line(error) == "return ping(x - 1)"
    assert [place.function for place in error.loc.chain()] == ["pong", "ping", "kernel"]


@DeviceFunction
def ping(x):
    return pong(x)


@DeviceFunction
def pong(x):
    return ping(x - 1)


def test_an_error_inside_shows_the_calls_that_led_there():
    def kernel(out, a):
        tl.store(out, outer(a))

    text = str(refusal(kernel, INTS, I32))
    order = ["return x + missing", "return inner(x)", "tl.store(out, outer(a))"]
    assert sorted(order, key=text.index) == order
    assert text.count("called from") == 2


@DeviceFunction
def inner(x):
    return x + missing  # noqa: F821


@DeviceFunction
def outer(x):
    return inner(x)


@DeviceFunction
def two_types(x):
    if x > 0:
        return x
    return 1.5


@DeviceFunction
def falls_off(x):
    if x > 0:
        return x


@pytest.mark.parametrize(
    "call, message, line",
    [
        (two_types, "`two_types` returns 1.5 here and i32 on another path", "return 1.5"),
        (falls_off, "`falls_off` returns i32 here, but other paths reach its end", "return x"),
    ],
)
def test_paths_that_return_differently(call, message, line):
    def kernel(out, a):
        tl.store(out, call(a))

    error = refusal(kernel, INTS, I32)
    assert error.message.startswith(message)
    assert source_line(error) == line
    assert any("return x" in note or "def falls_off" in note for note in error.notes)


@pytest.mark.parametrize(
    "args, message",
    [
        ("()", "`scaled` is missing an argument for `x`"),
        ("(a, 2, 3)", "`scaled` takes 2 arguments by position, not 3"),
        ("(a, x=a)", "`scaled` got two values for `x`"),
        ("(a, bye=2)", "`scaled` has no parameter `bye`; did you mean `by`?"),
        (
            "(a, a)",
            "`by` of `scaled` is tl.constexpr, so it must be known when the kernel is compiled",
        ),
    ],
)
def test_arguments_that_do_not_fit(args, message, tmp_path):
    import importlib.util

    file = tmp_path / "kernels.py"
    file.write_text(f"def kernel(out, a):\n    tl.store(out, scaled{args})\n")
    spec = importlib.util.spec_from_file_location("kernels", file)
    module = importlib.util.module_from_spec(spec)
    module.tl, module.scaled = tl, scaled
    spec.loader.exec_module(module)
    error = refusal(module.kernel, INTS, I32)
    assert error.message.startswith(message)
    assert (error.loc.line, error.loc.column) == (2, 18)


def test_arguments_that_are_left_are_a_tuple():
    @DeviceFunction
    def total(first, *rest, scale=1):
        for i in tl.static_range(len(rest)):
            first += rest[i] * scale
        return first

    @DeviceFunction
    def nested(*args):
        return total(*args, scale=2)

    @tile.jit
    def kernel(out, a):
        tl.store(out, total(a))
        tl.store(out + 1, total(a, 2, tl.load(out), scale=a))
        tl.store(out + 2, nested(a, 1, a))

    out = np.zeros(3, np.int32)
    kernel[(1,)](out, 3)
    assert out.tolist() == [3, 3 + (2 + 3) * 3, 3 + (1 + 3) * 2]


def test_star_parameters_of_kernels_and_keywords_are_refused():
    @DeviceFunction
    def many(**args):
        return 1

    def kernel(out, a):
        tl.store(out, many(a=a))

    def variadic(*args):
        pass

    error = refusal(kernel, INTS, I32)
    assert error.message.startswith("`**args` is not supported")
    error = refusal(variadic)
    assert error.message.startswith("`*args` is not supported")
    launched = tile.jit(variadic)
    with pytest.raises(CompilationError, match=r"`\*args` is not supported"):
        launched[(1,)](1)


def test_a_device_function_may_return_early_without_a_value():
    @DeviceFunction
    def maybe_store(out, x):
        if x < 0:
            return
        tl.store(out, x)

    def kernel(out, a):
        maybe_store(out, a)
        tl.store(out, 100)

    assert stored(kernel, 3) == [3, 100]
    assert stored(kernel, -3) == [100]


def test_float_arguments_of_any_kind_compile():
    def kernel(out, x):
        tl.store(out, scaled(x, 0.5, plus=1.0))

    assert "func @scaled__f32_c0_5_c1_0(%x: f32) -> (f32)" in text_of(kernel, PTR, F32)
    assert ops_of(module_of(kernel, PTR, F32)).count("call") == 1


def test_items_of_tuples_are_assigned_and_unpacked():
    def kernel(out, n):
        t = (n, (1, 2), 3)
        u = t
        t[-1] = n + 4
        t[1][0] = 5
        for i in range(n):
            t[0] += i
        first, *rest = t
        *start, last = (1, 2, n)
        tl.store(out, first)
        tl.store(out + 1, rest[0][0] + rest[1])
        tl.store(out + 2, u[1][0] + u[2])
        tl.store(out + 3, start[1] + last)

    assert stored(kernel, 4) == [10, 13, 4, 6]


def past_the_end(out):
    t = (1, 2)
    t[2] = 3


def at_runtime(out, n):
    t = (1, 2)
    t[n] = 3


def test_items_that_cannot_be_assigned():
    assert refusal(past_the_end, INTS).message == "index 2 is out of range: the tuple has 2 items"
    assert "an index into a tuple must be known" in refusal(at_runtime, INTS, I32).message
