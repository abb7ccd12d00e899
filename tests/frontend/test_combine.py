"""Jitted functions as arguments of builtins: their results and their errors."""

from __future__ import annotations

import math

import tile.language as tl
from tests.frontend.building import (
    INTS,
    PTR,
    module_of,
    refusal,
    source_line,
    text_of,
    underlined,
)
from tile.frontend.python.fingerprint import exact_digest
from tile.frontend.python.source import DeviceFunction
from tile.ir.types import F32, I32


@DeviceFunction
def add(a, b):
    return a + b


@DeviceFunction
def scaled(a, b, by: tl.constexpr = 2):
    return a + b * by


@DeviceFunction
def first_of_two(a, i, b, j):
    return a, i


@DeviceFunction
def loads(a, b):
    return a + tl.load(b.to(tl.int64).to(tl.pointer_type(tl.float32)))


@DeviceFunction
def prints(a, b):
    report(a)
    return a + b


@DeviceFunction
def report(a):
    tl.device_print("a", a)


@DeviceFunction
def loops(a, b):
    total = a
    for _ in range(3):
        total += b
    return total


@DeviceFunction
def recursive(a, b):
    return tl.reduce(tl.zeros((4,), tl.float32), 0, recursive) + a


@DeviceFunction
def wrong(a, b):
    return a + missing  # noqa: F821 - refused for that


@DeviceFunction
def says_nothing(a, b):
    pass


@DeviceFunction
def wide(a, b):
    return (a + b) * 1.5


def plain(a, b):
    return a + b


def functions(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("func")]


def test_a_region_calls_the_function():
    def kernel(out, x):
        row = tl.load(x + tl.arange(0, 8))
        tl.store(out, tl.reduce(row, 0, add))
        tl.store(out + tl.arange(0, 8), tl.associative_scan(row, 0, add, reverse=True))

    text = text_of(kernel, PTR, PTR)
    assert functions(text) == ["func @add__f32_f32(%a: f32, %b: f32) -> (f32) {"]
    assert "= reduce_region %row {axis = -1} : f32 region combine(%a0: f32, %b0: f32) {" in text
    assert "{axis = -1, reverse = true} : tile<8xf32> region combine(" in text
    assert text.count("call %a0") == 2


def test_each_type_has_its_specialization_and_defaults_count():
    def kernel(out, n):
        ramp = tl.arange(0, 8)
        tl.store(out, tl.reduce(ramp, 0, scaled))
        tl.store(out, tl.reduce(ramp.to(tl.int64), 0, combine_fn=scaled).to(tl.int32))

    names = [line.split("(")[0] for line in functions(text_of(kernel, INTS, I32))]
    assert names == ["func @scaled__i32_i32_c2", "func @scaled__i64_i64_c2"]


def test_a_function_may_be_handed_on_as_a_parameter():
    @DeviceFunction
    def total(x, f: tl.constexpr):
        return tl.reduce(x, 0, f)

    def kernel(out, n, F: tl.constexpr):
        tl.store(out, total(tl.arange(0, 8), F))

    assert "reduce_region" in text_of(kernel, INTS, I32, F=add)


def test_operations_of_a_region_have_locations():
    def kernel(out, x):
        tl.store(out, tl.reduce(tl.load(x + tl.arange(0, 8)), 0, add))

    module = module_of(kernel, PTR, PTR)
    (call,) = (op for op in module.walk() if op.name == "call")
    assert call.loc is not None
    assert call.loc.function == "kernel"


def test_the_fingerprint_sees_the_function():
    def make(number):
        @DeviceFunction
        def combine(a, b):
            return a + b + number

        @DeviceFunction
        def kernel(out):
            tl.store(out, tl.reduce(tl.arange(0, 8), 0, combine))

        return exact_digest(kernel, ())

    assert make(tl.constexpr(1)) == make(tl.constexpr(1)) != make(tl.constexpr(2))


def test_memory_is_refused_where_it_is_used():
    def kernel(out, x):
        tl.store(out, tl.reduce(tl.load(x + tl.arange(0, 8)), 0, loads))

    error = refusal(kernel, PTR, PTR)
    assert error.message == (
        "tl.reduce combines by arithmetic, comparison, selection and `if` of scalars; `load` is "
        "not allowed there"
    )
    assert underlined(error) == "tl.load(b.to(tl.int64).to(tl.pointer_type(tl.float32)))"
    assert error.loc.caller is not None
    assert error.loc.caller.function == "kernel"


def test_effects_are_refused_however_deep():
    def kernel(out, x):
        tl.store(out + tl.arange(0, 8), tl.load(x + tl.arange(0, 8)).associative_scan(0, prints))

    error = refusal(kernel, PTR, PTR)
    assert "tl.associative_scan combines by" in error.message
    assert "`device_print` is not allowed there" in error.message
    assert source_line(error) == 'tl.device_print("a", a)'


def test_loops_are_refused():
    def kernel(out, x):
        tl.store(out, tl.reduce(tl.load(x + tl.arange(0, 8)), 0, loops))

    error = refusal(kernel, PTR, PTR)
    assert "`for` is not allowed there" in error.message
    assert source_line(error) == "for _ in range(3):"


def test_recursion_is_refused():
    def kernel(out):
        tl.store(out, recursive(1.0, 2.0))

    assert "`recursive` calls itself" in refusal(kernel, PTR).message


def test_errors_in_the_function_are_shown_there():
    def kernel(out):
        tl.store(out, tl.reduce(tl.zeros((8,), tl.float32), 0, wrong))

    error = refusal(kernel, PTR)
    assert underlined(error) == "missing"
    assert [place.function for place in error.loc.chain()] == ["wrong", "kernel"]


def test_the_number_of_parameters_must_fit():
    def kernel(out):
        x = tl.zeros((8,), tl.float32)
        tl.store(out, tl.reduce((x, x), 0, add)[0])

    error = refusal(kernel, PTR)
    assert error.message == "`add` takes 2 arguments by position, not 4"
    assert underlined(error) == "tl.reduce((x, x), 0, add)"


def test_the_results_must_fit():
    def none(out):
        tl.store(out, tl.reduce(tl.zeros((8,), tl.float32), 0, says_nothing))

    def float_for_integer(out):
        tl.store(out, tl.reduce(tl.arange(0, 8), 0, wide))

    assert refusal(none, PTR).message == (
        "`says_nothing`, the combine_fn of tl.reduce, returns None where the tile has elements of "
        "tl.float32; convert one to the other"
    )
    error = refusal(float_for_integer, INTS)
    assert error.message == (
        "`wide`, the combine_fn of tl.reduce, returns tl.float32 where the tile has elements of "
        "tl.int32; convert one to the other"
    )
    assert underlined(error) == "tl.reduce(tl.arange(0, 8), 0, wide)"


def test_only_jitted_functions_combine():
    def undecorated(out):
        tl.store(out, tl.reduce(tl.arange(0, 8), 0, plain))

    def number(out):
        tl.store(out, tl.reduce(tl.arange(0, 8), 0, 3))

    def of_python(out):
        tl.store(out, tl.reduce(tl.arange(0, 8), 0, math.fsum))

    assert "`plain` is a plain Python function; decorate it" in refusal(undecorated, INTS).message
    expected = "the combine_fn of tl.reduce is a @tile.jit function, not "
    assert refusal(number, INTS).message == f"{expected}3"
    assert refusal(of_python, INTS).message.startswith(f"{expected}<built-in function fsum>")


def test_a_function_of_the_language_that_touches_memory_is_refused():
    def kernel(out):
        tl.store(out, tl.reduce(tl.arange(0, 8), 0, tl.device_print))

    error = refusal(kernel, INTS)
    assert source_line(error).startswith("tl.store(out, tl.reduce(")


def test_tuples_come_back_as_tuples():
    def kernel(out, x):
        v = tl.load(x + tl.arange(0, 8))
        both = tl.reduce((v, tl.arange(0, 8)), 0, first_of_two)
        tl.static_assert(len(both) == 2)
        tl.static_assert(both[1].dtype == tl.int32)
        tl.store(out, both[0])
        (alone,) = tl.reduce((v,), 0, add)
        tl.store(out, alone)

    assert F32 in {op.results[0].type for op in module_of(kernel, PTR, PTR).walk() if op.results}


@DeviceFunction
def as_tile(x):
    return x + tl.zeros((1,), tl.int1)


@DeviceFunction
def is_float(x):
    return as_tile(x).dtype.is_floating()


@DeviceFunction
def greatest(a, b):
    above = a > b
    if is_float(a):
        above |= a != a
    as_tile(b)
    return tl.where(above, a, b)


def test_operations_that_nothing_uses_are_dropped():
    def kernel(out, x):
        tl.store(out, tl.reduce(tl.load(x + tl.arange(0, 8)), 0, greatest))

    text = text_of(kernel, PTR, PTR)
    region = text[text.index("reduce_region") :]
    assert "call" in region and "as_tile" not in region.partition("func")[0]
    called = text[text.index("func @greatest") :].partition("\n}")[0]
    assert "call" not in called and "splat" not in called
