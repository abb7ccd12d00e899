"""Looking at values, calls and source."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.debugger.programs import CALLS, FAULT
from tests.debugger.sessions import Transcript, session

TYPES = """
from typing import NamedTuple

class Pair(NamedTuple):
    first: tl.tensor
    second: tl.constexpr

@tile.jit
def kernel(x_ptr, h_ptr, p_ptr, o_ptr, n, flag, B: tl.constexpr, D: tl.constexpr):
    r = tl.arange(0, B)
    m = r[:, None] < n
    x = tl.load(x_ptr + r[:, None] * 3 + r[None, :], mask=m & (r[None, :] < 3))
    h = tl.load(h_ptr + r)
    near = tl.load(p_ptr + 1)
    far = near + r
    t = (n, Pair(h, 3), "text")
    d = tl.make_tensor_descriptor(h_ptr, shape=[n * 4], strides=[1], block_shape=[8])
    late: tl.constexpr = D
    s = tl.sum(h.to(tl.float32), 0)
    if flag:
        once = s
    tl.store(o_ptr + r, h)

x = np.arange(12, dtype=np.float32).reshape(4, 3)[:3]
h = np.arange(8).astype(np.float16)
a, b = np.zeros(3, np.float32), np.ones(5, np.float32)
kernel[(1,)](x, h, tile.pointers([a, b]), np.zeros(4, np.float16), 2, True, B=4, D=tl.float32)
"""


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Transcript:
    asked = (
        "r m x h near far t d late s n flag B x_ptr x*2 x.sum() h[1:3]+1 np.abs(-h) "
        "(x_ptr+1).load() far.load() p_ptr x_ptr-r p_ptr.load() x_ptr.array far[1:] t[1].first "
        "x_ptr+s t[1].second far.index far.inside d.shape"
    ).split()
    commands = [f"p {text}" for text in asked] + [f"whatis {text}" for text in asked]
    return session(
        tmp_path_factory.mktemp("looking"), TYPES, "b 25", "c", *commands, "vars", "a", "q"
    )


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ("r", "int32, shape (4,)\n[0 1 2 3]"),
        ("m", "bool, shape (4, 1)\n[[ True]\n [ True]\n [False]\n [False]]"),
        (
            "x",
            "float32, shape (4, 4)\n[[0. 1. 2. --]\n [3. 4. 5. --]\n [-- -- -- --]\n [-- -- -- --]]\n"
            "-- is undefined (10 of 16 elements): the load's mask is false there and it has no "
            "`other`, at kernel.py:15",
        ),
        ("h", "float16, shape (4,)\n[0. 1. 2. 3.]"),
        ("near", "p_ptr[1] + 0"),
        ("far", "pointers to f32, shape (4,)\np_ptr[1] + [0 1 2 3]"),
        ("t", "(2, (<float16, shape (4,)>, 3), 'text')"),
        ("d", "descriptor of h_ptr + 0: shape (8,), strides (1,)"),
        ("late", "tl.float32"),
        ("s", "6.0"),
        ("n", "2"),
        ("B", "4"),
        ("x_ptr", "x_ptr + 0"),
        ("x.sum()", "15.0"),
        ("h[1:3]+1", "float16, shape (2,)\n[2. 3.]"),
        ("(x_ptr+1).load()", "1.0"),
        ("far.load()", "float32, shape (4,)\n[1. 1. 1. 1.]"),
        ("p_ptr.load()", None),
        (
            "x_ptr-r",
            "pointers to f32, shape (4,)\nx_ptr + [ 0  -1! -2! -3!]\n"
            "! is outside `x_ptr`, float32, shape (3, 3)",
        ),
        ("far[1:]", "pointers to f32, shape (3,)\np_ptr[1] + [1 2 3]"),
        ("t[1].first", "float16, shape (4,)\n[0. 1. 2. 3.]"),
        ("t[1].second", "3"),
        ("x_ptr+s", "*** TypeError: a pointer moves by integers, not by float32"),
        ("far.index", "int64, shape (4,)\n[0 1 2 3]"),
        ("far.inside", "bool, shape (4,)\n[ True  True  True  True]"),
        ("d.shape", "(8,)"),
    ],
)
def test_values_are_numpys(typed: Transcript, asked: str, shown: str | None) -> None:
    reply = typed.answer(f"p {asked}")
    assert reply == shown if shown is not None else not reply.startswith("***")


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ("x", "tile of float32, shape (4, 4)"),
        ("s", "scalar of float32"),
        ("n", "scalar of int32"),
        ("x_ptr", "pointer to f32"),
        ("far", "tile of pointers to f32, shape (4,)"),
        ("d", "descriptor of f16, shape (8,)"),
        ("B", "known while the kernel is compiled: int"),
        ("late", "known while the kernel is compiled: tl.float32"),
    ],
)
def test_whatis_says_the_kind(typed: Transcript, asked: str, shown: str) -> None:
    assert typed.answer(f"whatis {asked}") == shown


def test_arguments_and_variables_are_listed(typed: Transcript) -> None:
    arguments = typed.answer("a").splitlines()
    assert arguments == [
        "x_ptr = x_ptr + 0", "h_ptr = h_ptr + 0", "p_ptr = p_ptr + 0", "o_ptr = o_ptr + 0", "n = 2",
        "flag = True", "B = 4", "D = tl.float32",
    ]  # fmt: skip
    assert "far = <pointers to f32, shape (4,)>" in typed.answer("vars").splitlines()


def test_names_without_a_value_say_why(tmp_path: Path) -> None:
    said = session(tmp_path, TYPES, "b 25", "c", "p once", "p hh", "vars", "u", "p once", "q")
    assert said.answer("p once", 0) == (
        "*** `once` has no value here: it is assigned only in one branch of an `if`"
    )
    assert said.answer("p hh") == "*** NameError: name 'hh' is not defined; did you mean `h`?"
    assert "once = (no value here)" in said.answer("vars")
    assert said.answer("p once", 1) == "*** NameError: name 'once' is not defined"


def test_undefined_elements_stay_so_in_what_is_computed(tmp_path: Path) -> None:
    said = session(
        tmp_path,
        CALLS.replace(", other=0.0", ""),
        "program 3",
        "b 18",
        "c",
        "p x + 1",
        "p x.sum()",
        "q",
    )
    assert said.answer("p x + 1") == "float64, shape (4,)\n[13. 14.  --  --]"


def test_python_is_computed_and_names_of_the_users_own_last(tmp_path: Path) -> None:
    said = session(
        tmp_path, CALLS, "y = 3", "y", "b 18", "c", "y = x * y", "y", "!y.max()", "x = 1",
        "import math", "math.pi > 3", "no such command", "for", "p [v for v in i if v > pid]",
        "p (lambda q: q + pid)(1)", "n", "y.sum()", "q",
    )  # fmt: skip
    assert said.answer("y", 0) == "3"
    assert said.answer("y", 1) == "float32, shape (4,)\n[0. 3. 6. 9.]"
    assert said.answer("!y.max()") == "9.0"
    assert "which the debugger cannot change" in said.answer("x = 1")
    assert said.answer("math.pi > 3") == "True"
    assert said.answer("no such command") == (
        "*** `no` is neither a command nor Python; `help` lists the commands"
    )
    assert said.answer("p (lambda q: q + pid)(1)") == "1"
    assert said.answer("y.sum()") == "18.0"


def test_display_prints_what_changed(tmp_path: Path) -> None:
    said = session(
        tmp_path, CALLS, "program 3", "b 21", "c", "display k", "display nope", "c", "c", "display", "undisplay k",
        "undisplay q", "display", "q",
    )  # fmt: skip
    assert said.answer("display k") == "display k: 0"
    assert said.answer("display nope") == "*** NameError: name 'nope' is not defined"
    assert said.answer("c", 1).endswith("display k: 1  [old: 0]")
    assert said.answer("c", 2).endswith("display k: 2  [old: 1]")
    assert said.answers("display") == ["k: 2", ""]
    assert said.answer("undisplay q") == "*** `q` is not displayed here"


def test_up_and_down_the_chain_of_calls_into_python(tmp_path: Path) -> None:
    said = session(
        tmp_path,
        CALLS,
        "b scaled",
        "c",
        "u",
        "p x_ptr",
        "u",
        "p x[:2], o.sum()",
        "a",
        "u",
        "d",
        "d 7",
        "d",
        "w",
        "q",
    )
    assert said.answer("u", 0) == "> kernel.py(21)kernel()\n-> x = scaled(x, k)"
    assert said.answer("p x_ptr") == "x_ptr + 0"
    assert said.answer("u", 1) == "> kernel.py(26)<module>()\n-> kernel[(4,)](x, o, 14, B=4)"
    assert said.answer("p x[:2], o.sum()").startswith("(array([0., 1.], dtype=float32), ")
    assert said.answer("u", 2) == "*** Oldest frame"
    assert said.answer("d", 0) == "> kernel.py(21)kernel()\n-> x = scaled(x, k)"
    assert said.answer("d", 1) == "*** Newest frame"
    assert [line for line in said.answer("w").splitlines() if line.startswith(("  k", "> "))] == [
        "  kernel.py(26)<module>()", "  kernel.py(21)kernel()", "> kernel.py(7)scaled()",
    ]  # fmt: skip


def test_source_is_listed(tmp_path: Path) -> None:
    said = session(
        tmp_path,
        CALLS,
        "l",
        "b 17",
        "c",
        "l",
        "l",
        "l .",
        "l 5, 6",
        "l 9, 2",
        "l x",
        "ll",
        "l 24",
        "l",
        "u",
        "ll",
        "q",
    )
    assert said.answer("l", 0).splitlines()[0] == "  1  \timport numpy as np"
    listed = said.answer("l", 1).splitlines()
    assert listed[5] == " 17 B->\t    x = tl.load(x_ptr + i, mask=mask, other=0.0)"
    assert len(listed) == 11 and listed[0].startswith(" 12")
    assert said.answer("l", 2).splitlines()[0].startswith(" 23")
    assert said.answer("l .").splitlines()[0].startswith(" 12")
    assert said.answer("l 5, 6").splitlines() == ["  5  \t@tile.jit", "  6  \tdef scaled(v, k):"]
    assert len(said.answer("l 9, 2").splitlines()) == 3
    assert said.answer("l x") == "*** `list` takes one or two numbers of lines, not `x`"
    function = said.answer("ll", 0).splitlines()
    assert (function[0], len(function)) == (" 12  \t@tile.jit", 11)
    assert said.answer("l 24").splitlines()[-1] == "[EOF]"
    assert said.answer("l", 3) == "[EOF]"
    assert said.answer("ll", 1).splitlines()[0] == "  1  \timport numpy as np"


def test_help_teaches(tmp_path: Path) -> None:
    said = session(
        tmp_path, FAULT, "h", "help before", "h values", "h programs-together", "h nope", "q"
    )
    assert "before [count]" in said.answer("h")
    assert said.answer("help before").startswith("before [count]\nGo back to where the selected")
    assert "`--` is an undefined element" in said.answer("h values")
    assert "in batches" in said.answer("h programs-together")
    assert said.answer("h nope") == "*** no command or topic is called `nope`; `help` lists them"


FORMATS = """
@tile.jit
def kernel(x_ptr, o_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < 2)
    tl.store(o_ptr + i, x, mask=i < 2)

x = np.array([0x38, 0xFF], np.uint8).view(numpy_dtype(tl.float8e4b15))
kernel[(1,)](x, x.copy(), B=4)
"""


def test_floats_that_numpy_lacks_are_shown_as_numbers(tmp_path: Path) -> None:
    text = "from tile.ir.numpy_dtypes import numpy_dtype\n" + FORMATS
    said = session(tmp_path, text, "b 11", "c", "p x", "p (x_ptr+1).load()", "p x * 2", "q")
    assert said.answer("p x").splitlines()[1].split() == ["[0.00390625", "-1.875", "--", "--]"]
    assert "-1.875" in said.answer("p (x_ptr+1).load()")
    assert "-3.75" in said.answer("p x * 2")
