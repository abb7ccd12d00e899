"""Errors of invalid programs: the reason, the location, and what to write instead."""

from __future__ import annotations

import functools
import importlib.util
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tile.language as tl
from tests.frontend.building import INTS, module_of, refusal, source_line, underlined
from tile.errors import CompilationError
from tile.frontend.python.constexpr_function import constexpr_function
from tile.frontend.python.source import DeviceFunction
from tile.ir.types import F32, I32, Pointer
from tile.location import Loc

MATH = math  # kernels call what it has
PLAIN_NUMBER = 3
PLAIN_TEXT = "text"
PLAIN_LIST = [1, 2]
ARRAY = np.zeros(3)


def plain_function(x):
    return x


@DeviceFunction
def other_kernel(x):
    return x


WIDE_NUMBER = tl.constexpr(1 << 30000)
WIDE_NUMBERS = tl.constexpr((1 << 30000,))


@constexpr_function
def wide_number(bits):
    return 1 << bits


@constexpr_function
def FAILS(x):
    raise StopIteration(x)


class SomeClass:
    attribute = 3


@pytest.fixture
def kernel_of(tmp_path) -> Callable[[str], Any]:
    """A kernel `kernel(out, a, b, N)` with the given body, in a file of its own."""

    def make(body: str) -> Any:
        lines = ["def kernel(out, a, b, N: tl.constexpr = 4):"]
        lines += ["    " + line for line in body.splitlines()]
        file = tmp_path / "kernels.py"
        file.write_text("\n".join(lines) + "\n")
        spec = importlib.util.spec_from_file_location("kernels", file)
        module = importlib.util.module_from_spec(spec)
        vars(module).update({k: v for k, v in globals().items() if not k.startswith("__")})
        spec.loader.exec_module(module)
        return module.kernel

    return make


# body, the text over the caret, how the message begins, what it or a note offers
SYNTAX = [
    ("class A:\n    pass", "class A:", "`class` is not supported", "tuples"),
    ("def f(x):\n    return x", "def f(x):", "a function inside a kernel", "@tile.jit"),
    ("with tl.x:\n    pass", "with tl.x:", "`with` is not supported", ""),
    ("try:\n    pass\nexcept E:\n    pass", "try:", "`try` is not supported", "tl.device_assert"),
    ("raise E", "raise E", "`raise` is not supported", "tl.static_assert"),
    ("import os", "import os", "`import` is not supported", "top of the file"),
    ("from os import path", "from os import path", "`import` is not supported", "top of the file"),
    ("global g", "global g", "`global` is not supported", "pointer"),
    ("del a", "del a", "`del` is not supported", ""),
    ("match a:\n    case 1:\n        pass", "match a:", "`match` is not supported", "`elif`"),
    ("x = lambda y: y", "lambda y: y", "`lambda` is not supported", "@tile.jit"),
    ("x = {i for i in (1, 2)}", "{i for i in (1, 2)}", "comprehensions", "tuple"),
    ("x = {i: 1 for i in (1, 2)}", "{i: 1 for i in (1, 2)}", "comprehensions", "tuple"),
    ("x = [i for i in 3]", "3", "a comprehension iterates over a tuple or a range", "not over 3"),
    ("x = {1: 2}", "{1: 2}", "dictionaries", "tuple"),
    ("x = {1, 2}", "{1, 2}", "sets", "tuple"),
    ("x = (y := 3)", "y := 3", "`:=` is not supported", "statement of its own"),
    ("x = b'bytes'", "b'bytes'", "bytes constants", ""),
    ("x = 3j", "3j", "complex constants", ""),
    ("for i in range(a):\n    pass\nelse:\n    pass", "pass", "`else` of a `for`", "flag"),
    ("while a > 0:\n    a -= 1\nelse:\n    pass", "pass", "`else` of a `while`", "flag"),
    ("a[0] = 3", "a[0]", "elements cannot be assigned", "tl.where"),
    ("a[0] += 3", "a[0]", "elements cannot be assigned", "tl.store"),
    ("a.x = 3", "a.x", "cannot assign to this", "names"),
    ("x, *y, z = (1,)", "x, *y, z", "3 names for 1 values", "(1,)"),
    ("x, y = (1, 2, 3)", "x, y", "2 names for 3 values (1, 2, 3)", ""),
    ("x, y = a", "x, y", "only a tuple can be unpacked, not i32", ""),
    ("for x, y in range(3):\n    pass", "x, y", "a loop over a range assigns one name", ""),
    (
        "for x in a:\n    pass",
        "a",
        "`for` runs over range, tl.range, tl.static_range or a tuple",
        "i32",
    ),
    (
        "for x in range(0, 5, 0):\n    pass",
        "range(0, 5, 0)",
        "the step of tl.range is 0",
        "start to stop",
    ),
    ("for x in range(1.5):\n    pass", "range(1.5)", "a range takes scalar integers, not 1.5", ""),
    (
        "for x in range(tl.arange(0, 4)):\n    pass",
        "range(tl.arange(0, 4))",
        "a range takes scalar",
        "4xi32",
    ),
    ("while True:\n    a += 1", "True", "this loop never ends", "`break`"),
    ("x = max(*a)", "*a", "only a tuple can be unpacked", "i32"),
    ("x = max(**a)", "a", "`**` in a call", "keyword"),
    ("return a", "return a", "a kernel returns nothing, and this returns i32", "tl.store"),
]


@pytest.mark.parametrize("body, over, message, offer", SYNTAX, ids=[c[0][:24] for c in SYNTAX])
def test_syntax_that_is_not_in_the_language(kernel_of, body, over, message, offer):
    error = refusal(kernel_of(body), INTS, I32, I32)
    assert error.message.startswith(message)
    assert offer in str(error)
    assert underlined(error) == over
    assert error.loc.function == "kernel"


NAMES = [
    ("x = mising", "mising", "`mising` is not defined", ""),
    ("x = tl.lod(out)", "tl.lod", "module `tile.language` has no attribute `lod`", "`load`"),
    ("column = 3\nx = colunm", "colunm", "`colunm` is not defined", "`column`"),
    ("tl.store(out, x)\nx = a", "x", "`x` has no value yet", "x = a"),
    (
        "tl.store(out, PLAIN_NUMBER)\nPLAIN_NUMBER = a",
        "PLAIN_NUMBER",
        "`PLAIN_NUMBER` has no value",
        "local to it",
    ),
    (
        "if a > 0:\n    x = 1\ntl.store(out, x)",
        "x",
        "`x` may have no value here",
        "one branch of an `if`",
    ),
    (
        "for i in range(a):\n    x = i\ntl.store(out, x)",
        "x",
        "`x` may have no value here",
        "inside a loop",
    ),
    (
        "for i in range(a):\n    pass\ntl.store(out, i)",
        "i",
        "`i` may have no value here",
        "inside a loop",
    ),
    (
        "tl.store(out, x)\nif a > 0:\n    x = a\nx = b",
        "x",
        "`x` has no value yet",
        "x = a",
    ),
    (
        "for i in range(a):\n    if i > 0:\n        tl.store(out, x)\n    x = i",
        "x",
        "`x` has no value yet",
        "x = i",
    ),
    (
        "for k in tl.static_range(3):\n    if k == a:\n        continue\n    z = k\ntl.store(out, z)",
        "z",
        "`z` may have no value here",
        "`continue`",
    ),
    (
        "if a > 0:\n    x = 1\nelse:\n    x = 1.5\ntl.store(out, x)",
        "x",
        "`x` is i32 on one path to here and f32 on another",
        "x = 1.5",
    ),
    (
        "if a > 0:\n    x: tl.constexpr = tl.float16\nelse:\n    x: tl.constexpr = tl.float32\n"
        "y = tl.zeros((4,), x)",
        "x",
        "`x` is the type tl.float16 on one path to here and the type tl.float32",
        "tl.float32",
    ),
]


@pytest.mark.parametrize("body, over, message, offer", NAMES, ids=[c[0][:24] for c in NAMES])
def test_names_without_a_value(kernel_of, body, over, message, offer):
    error = refusal(kernel_of(body), INTS, I32, I32)
    assert error.message.startswith(message)
    assert offer in str(error)
    assert underlined(error) == over


LEFT_BEHIND = """\
for k in tl.static_range(2):
    if a > 2:
        if k == a - 3:
            continue
        z = 2 * k
    else:
        z = 3 * k
    tl.store(out, z)
tl.store(out, z)"""


def test_a_name_that_a_path_which_left_did_not_assign_is_gone_after_the_loop(kernel_of):
    error = refusal(kernel_of(LEFT_BEHIND), INTS, I32, I32)
    assert error.message.startswith("`z` may have no value here: it is assigned only on paths")
    assert error.loc.line == 10


CAPTURED = [
    (
        "PLAIN_NUMBER",
        "`PLAIN_NUMBER` is a global variable of type int",
        "PLAIN_NUMBER = tl.constexpr(3)",
    ),
    ("PLAIN_TEXT", "`PLAIN_TEXT` is a global variable of type str", "tl.constexpr('text')"),
    ("PLAIN_LIST", "`PLAIN_LIST` is a global variable of type list", "as an argument"),
    ("ARRAY", "`ARRAY` is an array outside the kernel", "as an argument"),
    ("plain_function(a)", "`plain_function` is a plain Python function", "@tile.jit"),
    ("SomeClass.attribute", "`SomeClass`, <class", "cannot be called"),
    ("open('x')", "`open`", "cannot be called in a kernel"),
    ("np.float32", "`numpy.float32` is a type of NumPy", "tl.float32"),
    ("np.pi", "`numpy.pi` is a global variable of type float", "tl.constexpr(3.14"),
    ("np.sqrt(4)", "`numpy.sqrt`", "cannot be called in a kernel; write tl.sqrt"),
    ("np.arctan2(4, 4)", "`numpy.arctan2`", "write tl.math.atan2"),
    ("np.matmul(4, 4)", "`numpy.matmul`", "write tl.dot"),
]


@pytest.mark.parametrize("expression, message, offer", CAPTURED)
def test_what_a_kernel_may_not_see(kernel_of, expression, message, offer):
    error = refusal(kernel_of(f"x = {expression}"), INTS, I32, I32)
    assert error.message.startswith(message)
    assert offer in error.message
    assert underlined(error) in expression


REPLACED = [
    ("math.exp(a)", "an argument of `exp` must be known", "math.exp(a)", "write tl.exp"),
    ("tl.log1p(a)", "module `tile.language` has no", "tl.log1p", "write tl.math.log1p"),
    ("tl.libdevice", "module `tile.language` has no", "tl.libdevice", "tl.extra.libdevice"),
    ("tl.normcdf(a)", "module `tile.language` has no", "tl.normcdf", "tl.extra.libdevice.normcdf"),
    ("tl.maximun(a, b)", "module `tile.language` has no", "tl.maximun", "did you mean `maximum`"),
    ("a.float()", "a value of type i32 has no attribute", "a.float", "write x.to(tl.float32)"),
    ("a.astype(tl.int8)", "a value of type i32 has no attribute", "a.astype", "x.to(dtype)"),
]


@pytest.mark.parametrize(("expression", "message", "over", "offer"), REPLACED)
def test_names_of_other_libraries_have_a_replacement(kernel_of, expression, message, over, offer):
    error = refusal(kernel_of(f"x = {expression}"), INTS, I32, I32)
    assert error.message.startswith(message) and offer in error.message
    assert underlined(error) == over


def test_closures_are_held_to_the_same_rules():
    number = 3

    def kernel(out, a):
        tl.store(out, a * number)

    error = refusal(kernel, INTS, I32)
    assert error.message.startswith("`number` is a global variable of type int")
    assert underlined(error) == "number"


CARRIED = [
    (
        "x = 0\nfor i in range(a):\n    x += 1.5\n",
        "x",
        "`x` is i32 before the loop and f32 at the end of its body",
        "x = 0",
    ),
    (
        "x = 0.0\nwhile a > 0:\n    a -= 1\n    x = x + tl.arange(0, 4)",
        "x",
        "`x` is f32 before the loop and tile<4xf32> at the end of its body",
        "x = tl.zeros([4], tl.float32)",
    ),
    (
        "x = tl.zeros((4,), tl.float16)\nfor i in range(a):\n    x = x.to(tl.float32) * 2",
        "x",
        "`x` is tile<4xf16> before the loop and tile<4xf32> at the end of its body",
        "x.to(tl.float16)",
    ),
    (
        "x = 0\nfor i in range(a):\n    if i > 3:\n        x = x * 1.5\n        break\n    x = x + 1",
        "x",
        "`x` is i32 before the loop and f32 at the end of its body",
        "x = 0",
    ),
    (
        "d: tl.constexpr = tl.float16\nfor i in range(a):\n    y = tl.zeros((4,), d)\n"
        "    d: tl.constexpr = tl.float32",
        "d",
        "`d` is the type tl.float16 before the loop and the type tl.float32",
        "tl.static_range",
    ),
    (
        "t = (0, 0)\nfor i in range(a):\n    t = (t[0] + 1, t[1], 1)",
        "t",
        "`t` is (i32, i32) before the loop and (i32, i32, 1) at the end of its body",
        "t = (0, 0)",
    ),
]


@pytest.mark.parametrize("body, over, message, offer", CARRIED, ids=[c[2][:30] for c in CARRIED])
def test_carried_names_keep_their_type(kernel_of, body, over, message, offer):
    error = refusal(kernel_of(body), INTS, I32, I32)
    assert error.message.startswith(message)
    assert offer in "\n".join(error.notes)
    assert underlined(error) == over


CONDITIONS = [
    (
        "if tl.arange(0, 4) > 2:\n    pass",
        "tl.arange(0, 4) > 2",
        "`if` takes one condition",
        "tl.where",
    ),
    (
        "while tl.arange(0, 4) > 2:\n    pass",
        "tl.arange(0, 4) > 2",
        "`while` takes one condition",
        "tl.max",
    ),
    ("x = 1 if tl.arange(0, 4) > 2 else 2", "tl.arange(0, 4) > 2", "`if` takes one", "tl.where"),
    (
        "if out:\n    pass",
        "out",
        "`if` takes a number as its condition, not the pointer",
        "tl.int64",
    ),
]


@pytest.mark.parametrize(
    "body, over, message, offer", CONDITIONS, ids=[c[0][:20] for c in CONDITIONS]
)
def test_conditions_that_are_none(kernel_of, body, over, message, offer):
    error = refusal(kernel_of(body), INTS, I32, I32)
    assert error.message.startswith(message)
    assert offer in str(error)
    assert underlined(error) == over


EXPRESSIONS = [
    (
        "x = a if b > 0 else 1.5",
        "a if b > 0 else 1.5",
        "this is i32 if the condition holds and 1.5 if not",
    ),
    ("x = a.nothing", "a.nothing", "a value of type i32 has no attribute `nothing`"),
    ("x = [a].append(b)", "[a].append", "to add to it write `values = (*values, x)`"),
    (
        "x = tl.float32(a)",
        "tl.float32(a)",
        "tl.float32 is a type and not a function; to convert, write x.to(",
    ),
    ("x = a(3)", "a(3)", "this is i32, a value and not a function"),
    (
        "x = other_kernel[(3,)](a)",
        "other_kernel[(3,)]",
        "a kernel launches no kernels; to call `other_kernel`",
    ),
    ("x = N(3)", "N(3)", "4 cannot be called in a kernel"),
    ("x = N // 0", "N // 0", "4 // 0: integer"),
    ("x = N + 'text'", "N + 'text'", "4 + 'text' (str): unsupported operand"),
    ("x = MATH.sqrt(-1)", "MATH.sqrt(-1)", "`sqrt` failed: ValueError"),
    (
        "x = MATH.sqrt(a)",
        "MATH.sqrt(a)",
        "an argument of `sqrt` must be known when the kernel is compiled",
    ),
    ("x = a in (1, 2)", "a in (1, 2)", "`in` is for values known when the kernel is compiled"),
    ("x = 1 in N", "1 in N", "1 in 4: argument of type"),
    ("x = f'{N:q}'", "N", "4 cannot be formatted as `q`"),
    (
        "tl.static_print(f'a is {a}')",
        "a",
        "an f-string is evaluated when the kernel is compiled, and this is i32",
    ),
    ("x: tl.constexpr = a", "a", "`x` is annotated tl.constexpr, so its value must be known"),
    (
        "x: tl.int64 = 3",
        "tl.int64",
        "`x` is annotated tl.int64 and its value is i32; an annotation does not",
    ),
    (
        "tl.static_assert(N == 5, 'N is five')",
        "tl.static_assert(N == 5, 'N is five')",
        "static assertion failed: N is five",
    ),
    ("assert N == 5, f'N is {N}'", "N == 5", "assertion failed: N is 4"),
    (
        "x = tl.zeros((a,), tl.float32)",
        "tl.zeros((a,), tl.float32)",
        "an extent in the shape of tl.zeros must be known",
    ),
    (
        "x = tl.zeros((3, 100), tl.float32).reshape(300)",
        "tl.zeros((3, 100), tl.float32).reshape(300)",
        "a reshape from tile<3x100xf32> to tile<300xf32> takes extents that are powers of two, and",
    ),
    (
        "x = tl.arange(0, 4)[a]",
        "tl.arange(0, 4)[a]",
        "unsupported tensor index: it must be known when the kernel is compiled",
    ),
    (
        "x = tl.arange(0, 8)[6:1]",
        "tl.arange(0, 8)[6:1]",
        "this slice has 0 elements of axis 0 of tile<8xi32>",
    ),
    (
        "x = tl.arange(0, 4) + tl.arange(0, 8)",
        "tl.arange(0, 4) + tl.arange(0, 8)",
        "shapes [4] and [8] cannot be broadcast",
    ),
    ("x = tl.load(a)", "tl.load(a)", ""),
    ("x = tl.load()", "tl.load()", "tl.load: missing a required argument"),
    ("x += 1", "x", "`x` has no value yet"),
]


@pytest.mark.parametrize("body, over, message", EXPRESSIONS, ids=[c[0][:30] for c in EXPRESSIONS])
def test_expressions_that_mean_nothing(kernel_of, body, over, message):
    error = refusal(kernel_of(body), INTS, I32, I32)
    assert message in error.message
    assert underlined(error) == over
    assert (error.loc.line, error.loc.file[-10:]) == (2, "kernels.py")


def test_the_caret_of_an_expression_on_several_lines_ends_with_its_first(kernel_of):
    error = refusal(kernel_of("x = tl.load(\n    mising,\n    4)"), INTS, I32, I32)
    assert underlined(error) == "mising" and error.loc.line == 3
    error = refusal(
        kernel_of("x = tl.load(  # why\n    out,\n    4, 5, 6, 7, 8, 9)"), INTS, I32, I32
    )
    assert underlined(error).startswith("tl.load(") and error.loc.line == 2


DEEP = {
    "an elif": (
        "if a == 0:\n    x = 1\n" + "".join(f"elif a == {i}:\n    x = 1\n" for i in range(900)),
        "",
    ),
    "a sign": ("x = " + "-" * 900 + "a", "-"),
    "a condition": ("x = " + "1 if a else " * 700 + "2", ""),
    "an early return": ("".join(f"if a == {i}:\n    return\n" for i in range(900)), ""),
}


@pytest.mark.parametrize("body, over", DEEP.values(), ids=DEEP)
def test_a_program_nested_too_deeply_is_refused_where_it_is(kernel_of, body, over):
    error = refusal(kernel_of(body), INTS, I32, I32)
    assert error.message.startswith("this is nested too deeply to be compiled")
    assert underlined(error).startswith(over)
    assert len(str(error)) < 1000


def test_what_is_long_and_not_deep_compiles(kernel_of):
    """Chains of operators, and 200 `elif`s."""
    module_of(kernel_of("x = " + " + ".join(["a"] * 900)), INTS, I32, I32)
    module_of(kernel_of("x = " + " and ".join(["a > b"] * 900)), INTS, I32, I32)
    chain = "".join(f"elif a == {i}:\n    x = {i}\n" for i in range(200))
    module_of(kernel_of(f"if a < 0:\n    x = 1\n{chain}else:\n    x = 7\nout + x"), INTS, I32, I32)


def test_many_calls_of_one_another_are_shown_in_part():
    place = Loc("no-such-file.py", 1, function="f")
    for number in range(100):
        place = Loc("no-such-file.py", number, function="f", caller=place)
    text = str(CompilationError("wrong", loc=place))
    assert "... called through 77 more" in text
    assert len(text.splitlines()) < 40


def test_star_parameters_have_their_place():
    def kernel(out, **rest):
        pass

    error = refusal(DeviceFunction(kernel), Pointer(F32))
    assert underlined(error) == "rest"
    assert source_line(error) == "def kernel(out, **rest):"
    assert not error.notes


def test_a_wrapper_of_anything_says_that_it_is_one():
    def inner(out, x):
        tl.store(out, x)

    @functools.wraps(inner)
    def wrapper(*args, **kwargs):
        return inner(*args, **kwargs)

    error = refusal(DeviceFunction(wrapper), INTS, I32)
    assert underlined(error) == "kwargs"
    assert "this is `wrapper`, which another decorator put around `inner`" in error.notes[0]


class Hostile:
    """A constant whose methods all raise what nobody expects."""

    def __repr__(self):
        raise KeyError("no repr")

    def __hash__(self):
        return 1

    def fails(self, *_):
        raise RuntimeError("no such thing")

    __add__ = __bool__ = __contains__ = __getitem__ = __neg__ = __lt__ = fails
    attribute = property(fails)


HUGE = "too large: a value known when the kernel is compiled has at most"
WIDE = hex(1 << 30000)
CONSTANTS = [
    ("x = N + 1", "RuntimeError: no such thing"),
    ("x = -N", "RuntimeError: no such thing"),
    ("x = N[0]", "RuntimeError: no such thing"),
    ("x = N < 3", "RuntimeError: no such thing"),
    ("x = 3 in N", "RuntimeError: no such thing"),
    ("x = N.attribute", "RuntimeError: no such thing"),
    ("x = f'{N}'", "KeyError: 'no repr'"),
    ("x = f'{N!r}'", "KeyError: 'no repr'"),
    ("x = str(N)", "KeyError: 'no repr'"),
    ("if N:\n    pass", "RuntimeError: no such thing"),
    ("assert N", "RuntimeError: no such thing"),
    ("x = N and a", "RuntimeError: no such thing"),
    ("x = not N", "RuntimeError: no such thing"),
    ("x = 1 if N else 2", "RuntimeError: no such thing"),
    ("tl.store(out, N)", "Hostile object whose repr raises KeyError"),
    ("x = tl.zeros((N,), tl.int32)", "Hostile object whose repr raises KeyError"),
    ("x = N.nothing", "Hostile object whose repr raises KeyError"),
    ("x = N()", "Hostile object whose repr raises KeyError"),
    ("x = FAILS(a)", "an argument of `FAILS` must be known"),
    ("x = FAILS(3)", "`FAILS` failed: StopIteration: 3"),
    ("x = 1 << 100000", HUGE),
    ("x = 10 ** 10 ** 10", HUGE),
    ("x = 3 << (1 << 60)", HUGE),
    ("x = 'text' * (1 << 40)", HUGE),
    ("x = (a, a) * (1 << 40)", HUGE),
    ("x = MATH.factorial(10 ** 7)", HUGE),
    ("x = MATH.comb(10 ** 9, 10 ** 8)", HUGE),
    ("x = MATH.perm(10 ** 9, 10 ** 8)", HUGE),
    ("for i in tl.static_range(10 ** 9):\n    a += i", "would unroll 1,000,000,000 iterations"),
    ("for i in tl.static_range(0, -(10 ** 9), -3):\n    a += i", "would unroll 333,333,334"),
    ("x = max()", "max of ()"),
    ("x = min(3, 'a')", "min of (3, 'a')"),
    (f"x = {WIDE}", HUGE),
    ("x = WIDE_NUMBER", HUGE),
    ("x = a + WIDE_NUMBERS[0]", HUGE),
    ("x = tl.zeros(WIDE_NUMBERS, tl.int32)", HUGE),
    ("x = wide_number(30000)", HUGE),
    ("tl.store(out, 1 << 4000)", "does not fit any type"),
    ("x = a + (1 << 4000)", "is out of range for type tl.int32"),
    ("x = tl.full((4,), 1 << 4000, tl.int32)", "the integer"),
    ("x = tl.arange(0, 1 << 4000)", ""),
    ("x = tl.zeros((1 << 4000,), tl.int32)", ""),
    ("for i in range(1 << 4000):\n    pass", "does not fit any type"),
    ("x = a.to(1 << 4000)", ""),
    ("x = tl.sum(tl.arange(0, 4), 1 << 4000)", "axis"),
    ("x = 'a' * 60000 + 3", "characters"),
    ("x, y = (0,) * 60000", "..."),
]


@pytest.mark.parametrize("body, said", CONSTANTS, ids=[c[0][:40] for c in CONSTANTS])
def test_constants_that_are_huge_or_hostile(kernel_of, body, said):
    error = refusal(kernel_of(body), INTS, I32, I32, N=Hostile())
    assert said in str(error)
    assert len(str(error)) < 4000
