"""Round trips of IR text: printed IR parses to the same IR."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.analysis.random_ir import functions
from tests.filecheck import ERROR
from tile.errors import CompilationError, ParseError
from tile.ir.builder import Builder
from tile.ir.core import Function
from tile.ir.declare import OPS
from tile.ir.module import Module
from tile.ir.ops import arith, control, debug, memory
from tile.ir.parser import parse_module
from tile.ir.printer import affine_map, print_module, print_op, print_value
from tile.ir.types import (
    ALL,
    BF16,
    F16,
    F32,
    F64,
    I1,
    I32,
    I64,
    U64,
    Fragment,
    Pointer,
    Scalar,
    Tile,
    Type,
)
from tile.ir.value_parser import parse_type
from tile.location import Loc
from tile.simt.ops import thread
from tile.tools.command import chunks

TESTS = Path(__file__).parent.parent


def printed_again(text: str, *, locations: bool = False) -> str:
    return print_module(parse_module(text), locations=locations)


def examples() -> Iterator[tuple[str, str]]:
    for defn in OPS:
        for example in defn.examples:
            parameters, bar, line = example.partition(" | ")
            if not bar:
                parameters, line = "", example
            body = "\n  ".join(line.splitlines())
            yield defn.name, f"func @test({parameters}) {{\n  {body}\n  return\n}}\n"


def test_every_example_is_read_and_printed() -> None:
    """Parsing, printing, parsing and printing again yields the same text, also with locations."""
    for name, text in examples():
        module = parse_module(text, f"example of {name}")
        assert any(op.name == name for op in module.walk()), text
        once = print_module(module)
        assert printed_again(once) == once
        located = print_module(module, locations=True)
        assert f'loc("example of {name}":2:' in located
        assert printed_again(located, locations=True) == located


def test_every_operation_but_terminators_has_an_example() -> None:
    bare = [defn.name for defn in OPS if not defn.examples]
    assert set(bare) == {"yield", "condition", "return"}


def text_tests() -> list[Path]:
    return sorted(TESTS.rglob("*.tile"))


def test_every_textual_test_is_read_and_printed() -> None:
    for path in text_tests():
        for chunk in chunks(path.read_text(encoding="utf-8")):
            if not any(ERROR.search(line) for line in chunk.splitlines()):
                once = printed_again(chunk)
                assert printed_again(once) == once, path


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(function=functions())
def test_random_functions_are_read_and_printed(function: Function) -> None:
    text = print_module(Module([function]))
    module = parse_module(text)
    assert print_module(module) == text
    shape = [(op.name, len(op.inputs), tuple(op.attributes)) for op in function.walk()]
    again = [(op.name, len(op.inputs), tuple(op.attributes)) for op in module.walk()]
    assert shape == again


# -- attributes, built in Python: what is printed is read as the same value


def through_text(build: Builder, function: Function) -> Function:
    build.op(control.return_)
    return parse_module(print_module(Module([function])))["f"]


NUMBERS: list[tuple[float | int | bool, Type]] = [
    *((value, F32) for value in (0.0, -0.0, 1.5, -0.1, 1e20, 1e-45, 3.4028235e38)),
    *((value, F64) for value in (1e300, 5e-324, 1 / 3, 1e-07, 123456789.123)),
    *((value, F16) for value in (65504.0, 6e-08)),
    *((value, ty) for value in (math.inf, -math.inf, math.nan) for ty in (F32, BF16)),
    *((value, I32) for value in (0, -1, 2147483647, -2147483648)),
    *((value, I64) for value in (1 << 62, -(1 << 63))),
    (U64.max_value, U64),
    (True, I1),
    (False, Tile((4, 8), I1)),
    (1.0, Tile((2, 2, 2, 2), F32)),
]


@pytest.mark.parametrize(("value", "ty"), NUMBERS, ids=str)
def test_constants_keep_value_and_type(value: float | int | bool, ty: Type) -> None:
    function = Function("f", [], [])
    build = Builder(function.body)
    build(arith.const, value=value, result=ty)
    first = through_text(build, function).body.first
    assert first is not None
    read = first["value"]
    assert type(read) is type(value)
    assert repr(read) == repr(value)
    assert first.result.type == ty


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain",
        'a "quoted" word',
        "back\\slash",
        "two\nlines\tand a tab",
        "// no comment",
        "é ☃ 𝄞",
    ],
)
def test_strings_keep_every_character(text: str) -> None:
    function = Function("f", [I1], ["c"])
    build = Builder(function.body)
    build.op(debug.device_assert, function.args[0], message=text)
    first = through_text(build, function).body.first
    assert first is not None
    assert first["message"] == text


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_tuples_and_enumerations(order: tuple[int, ...]) -> None:
    function = Function("f", [Tile((2, 4, 8), F32), Pointer(F32)], ["x", "p"])
    build = Builder(function.body)
    x, p = function.args
    build(arith.hint, x, divisible=(), contiguous=(1, 2, 8), constant=(1, 1, 1))
    build(memory.load, p, cache=memory.CacheModifier.CG, eviction=memory.Eviction.LAST)
    build(memory.load, p, volatile=True)
    hint, cached, volatile, _ = through_text(build, function).body
    assert (hint["divisible"], hint["contiguous"], hint["constant"]) == ((), (1, 2, 8), (1, 1, 1))
    assert (cached["cache"], cached["eviction"]) == ("cg", "evict_last")
    assert isinstance(cached["cache"], memory.CacheModifier)
    assert volatile["volatile"] is True
    assert volatile["cache"] is memory.CacheModifier.NONE


def shuffled(registers: tuple[int, ...]) -> str:
    """Return the text of a shuffle's `registers`, which must be read back as they are."""
    function = Function("f", [Fragment(1024, F32)], ["x"])
    build = Builder(function.body)
    build(thread.frag_shuffle, function.args[0], registers=registers)
    read = through_text(build, function).body.first
    assert read is not None
    assert read["registers"] == registers
    return re.findall(r"registers = (.*)\}", print_op(read))[0]


@settings(deadline=None)
@given(st.integers(0, 1023), st.lists(st.integers(0, 1023), min_size=4, max_size=8), st.data())
def test_affine_tuples_are_short(offset: int, images: list[int], data: st.DataObject) -> None:
    registers = affine_map(offset, images)
    text = shuffled(registers)
    assert text == (f"{offset} ^ linear{images}" if offset else f"linear{images}")
    # A tuple with one element off the map is listed.
    changed = data.draw(st.integers(0, len(registers) - 1))
    others = (*registers[:changed], registers[changed] ^ 1, *registers[changed + 1 :])
    assert shuffled(others) == str(others)


@given(st.integers(0, 5).flatmap(lambda n: st.tuples(*[st.integers(0, 3)] * 2**n)))
def test_tuples_are_read_and_printed(registers: tuple[int, ...]) -> None:
    shuffled(registers)


def test_affine_tuples_by_example() -> None:
    assert shuffled(tuple(range(16))) == "linear[1, 2, 4, 8]"
    assert shuffled((16, 16, 20, 20, 17, 17, 21, 21) * 2) == "16 ^ linear[0, 4, 1, 0]"
    assert shuffled((0, 1, 2, 3, 4, 5, 6, 7)) == "(0, 1, 2, 3, 4, 5, 6, 7)"
    assert print_value((-1,) * 16) == str((-1,) * 16)


def test_an_operand_that_is_absent() -> None:
    text = (
        "func @f(%p: ptr<f32>, %x: f32, %m: i1) {\n"
        "  store %p, %x\n"
        "  store %p, %x, %m\n"
        "  %v = load %p, %m, %x : f32\n"
        "  %w = load %p, %m : f32\n"
        "  return\n"
        "}\n"
    )
    assert printed_again(text) == text
    assert printed_again(text.replace("store %p, %x\n", "store %p, %x, _\n")) == text


def test_a_line_without_operands_before_a_result() -> None:
    """A value at the start of a line is a result, not an operand of the line before."""
    text = "func @f(%x: f32) {\n  barrier\n  %y = add %x, %x : f32\n  return\n}\n"
    assert printed_again(text) == text


@pytest.mark.parametrize("ty", [*ALL, Pointer(F32), Pointer(Pointer(I1))], ids=str)
def test_types(ty: Scalar | Pointer) -> None:
    for whole in (ty, Tile((1,), ty), Tile((2, 16, 4), ty)):
        assert parse_type(str(whole)) == whole


# -- names


def named(*names: str) -> list[str]:
    """Return the printed names of values that have these names in Python."""
    function = Function("f", [I32], ["x"])
    build = Builder(function.body)
    for name in names:
        build(arith.neg, function.args[0]).name = name
    build.op(control.return_)
    lines = print_module(Module([function])).splitlines()[1:-2]
    assert printed_again("\n".join(print_module(Module([function])).splitlines())) is not None
    return [line.partition(" = ")[0].strip() for line in lines]


def test_values_are_named_after_variables_and_numbered_where_taken() -> None:
    assert named("a", "a", "a") == ["%a", "%a_1", "%a_2"]
    assert named("a_1", "a", "a") == ["%a_1", "%a", "%a_2"]
    assert named("a", "a", "a_1") == ["%a", "%a_1", "%a_1_1"]
    assert named("", "", "x") == ["%v", "%v_1", "%x_1"]


def test_names_beyond_ascii() -> None:
    assert named("größe", "β") == ["%größe", "%β"]


# -- locations


@pytest.mark.parametrize(
    "loc",
    [
        Loc("a.py", 3),
        Loc("a.py", 3, 4, 9),
        Loc("a.py", 3, 4, 9, "kernel"),
        Loc('odd "name" \\ of.py', 1, 0, 1, "<lambda>"),
        Loc("<stdin>", 10, 2, 0, "f", Loc("b.py", 7, 1, 2, "g", Loc("c.py", 1))),
    ],
)
def test_locations_keep_everything(loc: Loc) -> None:
    function = Function("f", [I32], ["x"], loc=loc)
    build = Builder(function.body, loc=loc)
    build(arith.neg, function.args[0])
    build.op(control.return_)
    text = print_module(Module([function]), locations=True)
    again = parse_module(text)["f"]
    assert again.loc == loc
    assert [op.loc for op in again.walk()] == [loc, loc]
    assert print_module(Module([again]), locations=True) == text


def test_an_operation_without_location_has_its_place_in_the_text() -> None:
    module = parse_module("func @f(%x: f32) {\n  %y = neg %x : f32\n  return\n}\n", "f.tile")
    neg = module["f"].body.first
    assert neg is not None
    assert neg.loc == Loc("f.tile", 2, 7, 10)
    assert module["f"].loc == Loc("f.tile", 1, 0, 4)


def test_functions_keep_their_attributes() -> None:
    text = (
        "func noinline @f(%x: ptr<f32> {divisible = 16, readonly}, %n: i32) -> (i32, ptr<f32>) {\n"
        "  return %n, %x\n"
        "}\n"
        "\n"
        "kernel @k(%x: ptr<f32> {readonly, noalias}, %y: ptr<i32> {aliased, disjoint = (2, 3)}, "
        "%z: ptr<i32> {disjoint = (3)}, %w: ptr<i32>) {\n"
        "  return\n"
        "}\n"
    )
    module = parse_module(text)
    assert print_module(module) == text
    assert print_module(module.clone()) == text
    assert module["f"].noinline
    assert not module["f"].kernel
    assert [a.divisible for a in module["f"].arguments] == [16, 1]
    assert module.kernels == [module["k"]]


def test_comments_and_blanks_say_nothing() -> None:
    text = "// first\nfunc   @f ( %x :f32 ) { // here\n\n\n\treturn // there\n}\n// last"
    assert printed_again(text) == "func @f(%x: f32) {\n  return\n}\n"


def test_one_operation_alone_for_messages() -> None:
    module = parse_module("func @f(%x: f32) {\n  %y = mul %x, %x : f32\n  return\n}\n")
    first = module["f"].body.first
    assert first is not None
    assert print_op(first) == "%y = mul %x, %x : f32"


# -- text that is wrong: the message, and the place of the caret


def body(line: str) -> str:
    return f"func @f(%x: f32, %n: i32, %t: tile<8xf32>) {{\n  {line}\n  return\n}}\n"


WRONG = [
    ("module @f", "expected `func`, found `module`", 1, "module"),
    ("func f() {\n}", "expected a function's name, such as @f, found `f`", 1, "f("),
    ("func @f(%x f32) {\n}", "expected `:`, found `f32`", 1, "f32"),
    ("func @f(%x: f33) {\n}", "unknown type `f33`; scalars are i1", 1, "f33"),
    ("func @f(%x: tile<8>) {\n}", "expected extents such as 8x16x, found `8`", 1, "8>"),
    ("func @f(%x: tile<0xf32>) {\n}", "tile extents are positive, and 0 is not", 1, "tile"),
    ("func @f(%x: i32 {divisible = 0}) {\n}", "`divisible` is positive, not 0", 1, "0"),
    (
        "func @f(%x: i32 {even = 2}) {\n}",
        "a parameter has no attribute `even`; it has divisible, readonly,",
        1,
        "even",
    ),
    ("func @f(%x: ptr<f32> {8}) {\n}", "expected an attribute of a parameter, found `8`", 1, "8"),
    (
        "func @f(%x: ptr<f32> {readonly,\nreadonly}) {\n}",
        "`readonly` is stated twice",
        2,
        "readonly",
    ),
    ("func @f() {\n  return\n}\nfunc @f() {\n  return\n}", "@f is defined twice", 4, "func"),
    ("func @f(%x: i32, %x: i32) {\n  return\n}", "%x is defined twice", 1, "%x: i32)"),
    ("func @f() {\n  return\n", "expected an operation, found `end of text`", 3, ""),
    ("func @f() {\n  $\n}", "unexpected character '$'", 2, "$"),
    ('func @f() {\n  "open\n}', "unexpected character '\"'", 2, '"'),
    (body("%y = frobnicate %x : f32"), "unknown operation `frobnicate`", 2, "frobnicate"),
    (body("%y = neg %z : f32"), "%z is not defined here", 2, "%z"),
    (body("%x = neg %x : f32"), "%x is defined twice", 2, "%x"),
    (body("%y = neg %x : i32"), "neg has results (f32), but the text says (i32)", 2, "neg"),
    (body("%y, %z = neg %x : f32"), "neg has 1 results, not 2", 2, "neg"),
    (body("neg %x : f32"), "neg has 1 results, not 0", 2, "neg"),
    (body("%y = neg %x"), "neg has results (f32), but the text says ()", 2, "neg"),
    (body("%y = const {value = 1}"), "const states one result type after a colon", 2, "const"),
    (body("%y = neg %x {fast = true} : f32"), "neg has no attribute `fast`", 2, "fast"),
    (body("%y = cast %x : f32"), "cast needs its attribute `to`", 2, "cast"),
    (body("%y = neg %x {schedule = (1)} : f32"), "a schedule is (stage, order), not (1,)", 2, "("),
    (
        body("%y = const {value = x} : f32"),
        "expected a value of type bool or int or float",
        2,
        "x}",
    ),
    (body("%y = const {value = 1.5} : i32"), "is an integer, not 1.5", 2, "const"),
    (body("%y = program_id {axis = 1.0} : i32"), "expected a value of type int", 2, "1.0"),
    (body("%y = program_id {axis 0} : i32"), "expected `=`, found `0`", 2, "0}"),
    (body("%y = cmp %x, %x {predicate = below} : i1"), "expected one of eq, ne, lt", 2, "below"),
    (body("%y = reshape %t {shape = 8} : tile<8xf32>"), "expected `(`, found `8`", 2, "8}"),
    (
        body("%y = reshape %t {shape = 8 ^ 1} : tile<8xf32>"),
        "expected `linear`, found `1`",
        2,
        "1}",
    ),
    (
        body(f"%y = reshape %t {{shape = linear{[1] * 21}}} : tile<8xf32>"),
        "`linear` takes at most 20 images, not 21",
        2,
        "linear",
    ),
    (body("%y = call %x {callee = f} : f32"), "expected a function, such as @f", 2, "f}"),
    (body("device_assert %t {message = no}"), "expected a string, found `no`", 2, "no"),
    (body("%y = neg %x : f32 loc(3)"), "expected a file name, found `3`", 2, "3)"),
    (body("for %i = %n to %n {\n  yield\n}"), "expected `step`, found `{`", 2, "{"),
    (body("for i = %n to %n step %n {\n  yield\n}"), "expected the count, such as %i", 2, "i ="),
    (body("for %i = %n to _ step %n {\n  yield\n}"), "a value is needed here", 2, "_"),
    (
        body("while {\n  condition %c\n}").replace("%n: i32", "%c: i1"),
        "expected `do`, found `return`",
        5,
        "return",
    ),
    (body("if %t {\n    yield\n  }"), "if takes a scalar condition of type i1", 2, "if"),
    (body("%y = neg %t, : f32"), "expected a value, such as %x", 2, ":"),
]


@pytest.mark.parametrize(("text", "message", "line", "word"), WRONG, ids=[w[1] for w in WRONG])
def test_wrong_text_is_refused_at_its_place(text: str, message: str, line: int, word: str) -> None:
    with pytest.raises(ParseError) as refused:
        parse_module(text)
    error = refused.value
    assert message in error.message
    assert error.loc is not None
    assert error.loc.line == line
    if word:
        assert text.splitlines()[line - 1][error.loc.column :].startswith(word)
        caret = str(error).splitlines()[-1]
        assert caret.index("^") - caret.index("|") - 2 == error.loc.column


@pytest.mark.parametrize("text", ["f33", "tile<8xf32", "ptr<tile<8xf32>>", "f32 f32", ""])
def test_wrong_types_are_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse_type(text)


def test_a_name_ends_with_its_region() -> None:
    text = body("if %c {\n    %y = neg %x : f32\n    yield\n  }\n  %z = neg %y : f32")
    with pytest.raises(ParseError, match="%y is not defined here"):
        parse_module(text.replace("%n: i32", "%c: i1"))


DEEP = 3000


@pytest.mark.parametrize(
    "text",
    [
        "if %x {\n" * DEEP + "yield\n} {\nyield\n}\n" * DEEP,
        f"%y = const {{value = 0}} : {'ptr<' * DEEP}f32{'>' * DEEP}\n",
    ],
    ids=["regions", "types"],
)
def test_text_that_is_nested_too_deeply(text: str) -> None:
    with pytest.raises(CompilationError, match="this is nested too deeply to be compiled"):
        parse_module(f"func @f(%x: i1) {{\n{text}return\n}}\n")


def test_a_type_that_is_nested_too_deeply() -> None:
    with pytest.raises(CompilationError, match="this is nested too deeply to be compiled"):
        parse_type("ptr<" * DEEP + "f32" + ">" * DEEP)


def test_values_that_no_attribute_has() -> None:
    with pytest.raises(TypeError, match="is not an attribute value"):
        print_value([1, 2])
