"""Reductions and scans by a region: text, type rules, verification, and order of combination."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tile.errors import ParseError, TypeRuleError, VerificationError
from tile.ir import semantics
from tile.ir.builder import create
from tile.ir.core import Block
from tile.ir.ops import control, reduce
from tile.ir.parser import parse_module
from tile.ir.printer import print_module
from tile.ir.types import F32
from tile.ir.verifier import verify

SUM = "region combine(%a: f32, %b: f32) {\n    %c = add %a, %b : f32\n    yield %c\n  }"


def function(body: str, parameters: str = "%x: tile<4x8xf32>", others: str = "") -> str:
    return f"func @test({parameters}) {{\n  {body}\n  return\n}}\n{others}"


# -- text


TEXTS = [
    function(f"%r = reduce_region %x {{axis = -1}} : tile<4xf32> {SUM}"),
    function(f"%r = scan_region %x {{axis = -2, reverse = true}} : tile<4x8xf32> {SUM}"),
    function(
        "%r, %s = reduce_region %x, %y {axis = -1} : f32, i64 "
        "region combine(%a: f32, %i: i64, %b: f32, %j: i64) {\n"
        "    %t = cmp %a, %b {predicate = gt} : i1\n"
        "    %v, %k = if %t : f32, i64 {\n"
        "      yield %a, %i\n"
        "    } else {\n"
        "      yield %b, %j\n"
        "    }\n"
        "    yield %v, %k\n"
        "  }",
        "%x: tile<8xf32>, %y: tile<8xi64>",
    ),
    function(
        "%r = scan_region %x {axis = -1} : tile<4x8xf32> region combine(%a: f32, %b: f32) {\n"
        "    %c = call %a, %b {callee = @later} : f32\n"
        "    yield %c\n"
        "  }",
        others="\nfunc @later(%a: f32, %b: f32) -> (f32) {\n  return %b\n}\n",
    ),
]


@pytest.mark.parametrize("text", TEXTS)
def test_text_is_read_and_printed_alike(text: str) -> None:
    module = parse_module(text)
    verify(module)
    assert print_module(module) == text
    located = print_module(module, locations=True)
    assert print_module(parse_module(located), locations=True) == located


def test_a_location_stands_before_the_regions() -> None:
    place = 'loc("k.py":7:4-9 "f" at "k.py":12:0)'
    text = function(f"%r = reduce_region %x {{axis = -1}} : tile<4xf32> {place} {SUM}")
    op = parse_module(text)["test"].body.first
    assert op is not None
    assert op.loc is not None
    assert (op.loc.line, op.loc.end_column, op.loc.caller.line) == (7, 9, 12)


def test_regions_of_one_function_name_their_arguments_apart() -> None:
    line = f"= reduce_region %x {{axis = -1}} : tile<4xf32> {SUM}"
    module = parse_module(function(f"%r {line}\n  %s {line}"))
    text = print_module(module)
    assert "region combine(%a_1: f32, %b_1: f32)" in text
    assert print_module(parse_module(text)) == text


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("%r = reduce_region %x {axis = -1} : tile<4xf32>", "expected `region`, found `return`"),
        (
            "%r = reduce_region %x {axis = -1} : tile<4xf32> region body(%a: f32, %b: f32) {\n}",
            "expected region `combine`, found `body`",
        ),
        (
            "%r = reduce_region %x {axis = -1} : tile<4xf32> region combine(a: f32) {\n}",
            "expected an argument, such as %a, found `a`",
        ),
        ("%r = add %x, %x : tile<4x8xf32> region combine() {\n}", "unknown operation `region`"),
        (f"%r = reduce_region %x {{axis = -1}} : f32 {SUM}", "has results (tile<4xf32>)"),
    ],
)
def test_wrong_text_is_refused(body: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_module(function(body))
    assert message in caught.value.message
    assert caught.value.loc is not None


# -- rules


def yielding(types: Sequence[Any], *results: int) -> Block:
    block = Block(types)
    block.append(create(control.yield_, [block.args[index] for index in results]))
    return block


def refused(body: str, parameters: str = "%x: tile<4x8xf32>") -> str:
    """Return the message of the type rule's error."""
    with pytest.raises(ParseError) as caught:
        parse_module(function(body, parameters))
    return caught.value.message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "%r = reduce_region %x {axis = 1} : f32 region combine(%a: f32, %b: f32) {\nyield %a\n}",
            "axis 1 is outside a tile of rank 2; axes are counted from the right",
        ),
        (
            "%r = scan_region %x {axis = -1} : f32 region combine(%a: f32) {\nyield %a\n}",
            "the region of scan_region takes arguments of types (f32, f32), not (f32)",
        ),
        (
            "%r = scan_region %x {axis = -1} : f32 region combine(%a: f32, %b: i32) {\nyield %a\n}",
            "the region of scan_region takes arguments of types (f32, f32), not (f32, i32)",
        ),
        (
            "%r = reduce_region %x {axis = -1} : f32 region combine(%a: f32, %b: f32) {\n"
            "yield %a, %b\n}",
            "the region of reduce_region yields one group, (f32), not (f32, f32)",
        ),
        (
            "%r = reduce_region %x {axis = -1} : f32 region combine(%a: f32, %b: f32) {\nreturn %a\n}",
            "the region of reduce_region ends with `yield`, not `return`",
        ),
        (
            "%r = reduce_region {axis = -1} : f32 region combine() {\nyield\n}",
            "reduce_region takes at least one tile",
        ),
    ],
)
def test_the_rules_refuse(body: str, message: str) -> None:
    assert refused(body) == message


def test_tiles_have_one_shape_and_hold_numbers() -> None:
    region = "region combine(%a: f32, %i: i32, %b: f32, %j: i32) {\nyield %a, %i\n}"
    message = refused(
        f"%r, %s = reduce_region %x, %y {{axis = -1}} : f32, i32 {region}",
        "%x: tile<8xf32>, %y: tile<4xi32>",
    )
    assert message == "reduce_region takes tiles of one shape, not tile<8xf32> and tile<4xi32>"
    region = "region combine(%a: ptr<f32>, %b: ptr<f32>) {\nyield %a\n}"
    message = refused(
        f"%r = scan_region %x {{axis = -1}} : tile<8xptr<f32>> {region}", "%x: tile<8xptr<f32>>"
    )
    assert message == "scan_region is not defined on ptr<f32>"
    message = refused(f"%r = scan_region %x {{axis = -1}} : f32 {SUM}", "%x: f32")
    assert message == "scan_region takes a tile, not f32"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("%i = program_id {axis = 0} : i32", "program_id"),
        ("%t = splat %a {shape = (4)} : tile<4xf32>", "splat"),
        ("%t = const {value = 1.0} : tile<4xf32>", "const"),
        ('device_print %a {prefix = "a"}', "device_print"),
        ("%z = const {value = 0} : i32\nfor %i = %z to %z step %z {\nyield\n}", "for"),
    ],
)
def test_a_region_computes_scalars_and_nothing_else(line: str, name: str) -> None:
    body = "%r = reduce_region %x {axis = -1} : f32 region combine(%a: f32, %b: f32) {\n"
    assert refused(f"{body}{line}\nyield %a\n}}") == (
        "reduce_region combines by arithmetic, comparison, selection and `if` of scalars; "
        f"`{name}` is not allowed there"
    )


def test_the_builder_refuses_as_the_text_does() -> None:
    x = Block([parse_module(TEXTS[0])["test"].args[0].type]).args[0]
    with pytest.raises(TypeRuleError, match="takes arguments of types"):
        create(reduce.reduce_region, [x], {"axis": -1}, [yielding([F32], 0)])
    op = create(reduce.reduce_region, [x], {"axis": -1}, [yielding([F32, F32], 1)])
    assert str(op.result.type) == "tile<4xf32>"


# -- the verifier


def broken(text: str) -> VerificationError:
    module = parse_module(text)
    with pytest.raises(VerificationError) as caught:
        verify(module)
    return caught.value


def test_a_region_sees_nothing_from_outside() -> None:
    body = (
        "%r = reduce_region %x {axis = -1} : tile<4xf32> region combine(%a: f32, %b: f32) {\n"
        "    %c = add %a, %y : f32\n    yield %c\n  }"
    )
    error = broken(function(body, "%x: tile<4x8xf32>, %y: f32"))
    assert error.message == "add uses %y from outside its isolated region"
    assert error.loc is not None
    assert error.loc.line == 3


def test_a_region_sees_no_constant_from_outside_either() -> None:
    body = (
        "%y = const {value = 1.0} : f32\n"
        "  %r = reduce_region %x {axis = -1} : tile<4xf32> region combine(%a: f32, %b: f32) {\n"
        "    %t = cmp %a, %b {predicate = lt} : i1\n"
        "    %c = if %t : f32 {\n      yield %y\n    } else {\n      yield %b\n    }\n"
        "    yield %c\n  }"
    )
    assert "yield uses %y from outside its isolated region" in broken(function(body)).message


def test_what_stands_behind_a_region_sees_what_was_there_before() -> None:
    body = (
        f"%r = reduce_region %x {{axis = -1}} : tile<4xf32> {SUM}\n"
        "  %s = add %x, %x : tile<4x8xf32>\n  %t = add %r, %r : tile<4xf32>"
    )
    verify(parse_module(function(body)))


CALL = (
    "%r = reduce_region %x {axis = -1} : tile<4xf32> region combine(%a: f32, %b: f32) {\n"
    "    %c = call %a, %b {callee = @f} : f32\n    yield %c\n  }"
)


def test_called_functions_are_held_to_the_same() -> None:
    others = (
        "func @f(%a: f32, %b: f32) -> (f32) {\n"
        "  %c = call %a {callee = @g} : f32\n  return %c\n}\n"
        "func @g(%a: f32) -> (f32) {\n"
        "  %t = splat %a {shape = (2)} : tile<2xf32>\n"
        "  %r = reduce %t {axis = -1, kind = sum} : f32\n  return %r\n}\n"
    )
    error = broken(function(CALL, others=others))
    assert error.message == (
        "reduce_region combines by arithmetic, comparison, selection and `if` of scalars; "
        "`splat` is not allowed there"
    )
    assert error.loc is not None
    assert error.loc.line == 13


def test_functions_that_only_compute_may_be_called() -> None:
    head = "func noinline @f(%a: f32, %b: f32) -> (f32)"
    others = f"{head} {{\n  %c = max %a, %b : f32\n  return %c\n}}\n"
    verify(parse_module(function(CALL, others=others)))


def test_a_function_that_is_not_there_is_missed() -> None:
    assert broken(function(CALL)).message.startswith("the module has no function @f; ")


# -- reference semantics


Region = Callable[..., Sequence[Any]]


def one_by_one(xs: Sequence[Any], combine: Region, axis: int, reverse: bool) -> list[Any]:
    """Return the scan computed element by element, along an axis moved to the front."""
    rows = [np.moveaxis(x, axis, 0)[:: -1 if reverse else 1] for x in xs]
    totals = [[row[0] for row in rows]]
    for index in range(1, len(rows[0])):
        totals.append(list(combine(*totals[-1], *(row[index] for row in rows))))
    stacked = [np.stack(column) for column in zip(*totals, strict=True)]
    return [np.moveaxis(s[:: -1 if reverse else 1], 0, axis) for s in stacked]


def affine(m1: Any, c1: Any, m2: Any, c2: Any) -> tuple[Any, Any]:
    """Functions x -> m * x + c of integers, the first applied first.

    Putting them together is associative to the bit, and not commutative.
    """
    return m1 * m2, c1 * m2 + c2


def last(x1: Any, x2: Any) -> tuple[Any]:
    return (x2,)


SHAPES = st.sampled_from([(1, 1), (1, 8), (3, 4), (2, 1, 8), (2, 4, 2), (1, 2, 4, 4), (5, 16)])


@settings(max_examples=80, deadline=None)
@given(SHAPES, st.booleans(), st.data())
def test_totals_are_those_of_one_element_after_the_other(
    shape: tuple[int, ...], reverse: bool, data: Any
) -> None:
    """Test functions that are associative in every bit, commutative or not."""
    axis = -data.draw(st.integers(1, len(shape) - 1))
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    m, c = random.integers(-9, 9, (2, *shape))
    if data.draw(st.booleans()):
        m = m[:1]  # the same for all programs
    if data.draw(st.booleans()):
        expected = one_by_one(np.broadcast_arrays(m, c), affine, axis, reverse)
        actual = semantics.scan_region((m, c), affine, axis, reverse)
        total = semantics.reduce_region((m, c), affine, axis)
    else:
        expected = one_by_one([c], last, axis, reverse)
        actual = semantics.scan_region((c,), last, axis, reverse)
        total = semantics.reduce_region((c,), last, axis)
    for x, y in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(x, y)
        assert x.dtype == c.dtype
    if not reverse:
        for x, y in zip(total, expected, strict=True):
            np.testing.assert_array_equal(x, np.moveaxis(y, axis, 0)[-1])


@pytest.mark.parametrize("extent", [1, 2, 4, 8, 32])
def test_the_order_is_fixed_and_the_last_of_a_scan_is_the_reduction(extent: int) -> None:
    """A float sum shows the grouping: adjacent elements first."""
    x = np.random.default_rng(extent).standard_normal((3, extent)).astype(np.float32)
    total = x
    while total.shape[1] > 1:
        total = total[:, 0::2] + total[:, 1::2]

    def add(a: Any, b: Any) -> tuple[Any]:
        return (a + b,)

    (reduced,) = semantics.reduce_region((x,), add, -1)
    (scanned,) = semantics.scan_region((x,), add, -1)
    np.testing.assert_array_equal(reduced, total[:, 0])
    np.testing.assert_array_equal(scanned[:, -1], reduced)
    np.testing.assert_allclose(scanned, np.cumsum(x.astype(np.float64), 1), rtol=1e-5, atol=1e-5)


def test_what_a_region_leaves_out_is_filled_in() -> None:
    """Constant results may have axes of extent 1, or be a single number."""
    x = np.arange(12, dtype=np.int32).reshape(3, 4)

    def seven(a: Any, b: Any) -> tuple[Any]:
        return (np.full(1, 7, np.int32),)

    np.testing.assert_array_equal(semantics.reduce_region((x,), seven, -1)[0], [7, 7, 7])
    np.testing.assert_array_equal(
        semantics.scan_region((x,), seven, -1)[0][:, 1:], np.full((3, 3), 7)
    )


def test_the_number_of_calls_grows_with_the_logarithm() -> None:
    calls = []

    def add(a: Any, b: Any) -> tuple[Any]:
        calls.append(a.size)
        return (a + b,)

    x = np.ones((1, 1024))
    semantics.reduce_region((x,), add, -1)
    assert (len(calls), sum(calls)) == (10, 1023)
    calls.clear()
    semantics.scan_region((x,), add, -1)
    assert len(calls) == 19
    assert sum(calls) < 2048
