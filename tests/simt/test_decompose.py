"""Decomposed tiles: the same values as before, and only what a warp can do, over random layouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.conformance.running import assert_close
from tests.evaluate import evaluate
from tests.sampling import examples
from tests.simt.layouts.layouts import invertible
from tests.simt.threads import Threads, held, whole
from tile.errors import TypeRuleError
from tile.ir import semantics
from tile.ir.builder import Builder
from tile.ir.core import Function, Value
from tile.ir.module import Module
from tile.ir.op_definition import Level, OpDef
from tile.ir.ops import control, indexing, reduce, shape
from tile.ir.ops.reduce import ArgKind, ReduceKind
from tile.ir.parser import parse_module
from tile.ir.printer import print_module
from tile.ir.types import F32, FLOATS, I1, I32, I64, INTEGERS, Scalar, Tile
from tile.ir.verifier import verify
from tile.simt.layouts.blocked import blocked
from tile.simt.layouts.dims import LANE, REGISTER, WARP, axis_name
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.lower.decompose import decompose
from tile.simt.lower.distribute import distribute
from tile.simt.memory.expose_shared import expose_shared
from tile.simt.ops.layout_inference import (
    LayoutBuilder,
    check_distributed,
    layout_of,
    reduced_layout,
)
from tile.simt.target import GENERIC, MMA, PLAIN, SimtTarget

Array = np.ndarray[Any, Any]

EXCHANGING = replace(GENERIC, tuning=replace(GENERIC.tuning, repeated_instructions=1))
TARGETS = [GENERIC, PLAIN, EXCHANGING]
DECOMPOSED = {reduce.reduce, reduce.arg_reduce, reduce.scan, indexing.sort, shape.flip}
SETTINGS = examples(6)
FEW = examples(2)
ROW = blocked([64], [1], [32], [2])


@st.composite
def distributed(
    draw: Any, extents: Sequence[int], odd: bool = False, warps: int | None = None
) -> LinearLayout:
    """A layout of 32 lanes and up to 8 warps, or so many bits of them; some may hold copies.

    Each basis moves along one axis by a power of two; or by anything at all, if `odd`.
    """
    bits = [extent.bit_length() - 1 for extent in extents]
    columns = [1 << bit for bit in range(sum(bits))]
    columns = invertible(draw, sum(bits)) if odd else draw(st.permutations(columns))
    holders = [LANE] * 5 + [WARP] * (draw(st.integers(0, 3)) if warps is None else warps)
    bases_by_name: dict[str, list[int]] = {REGISTER: [], LANE: [], WARP: []}
    for name in holders:
        copies = draw(st.integers(0, 3)) == 0
        bases_by_name[name].append(0 if copies or not columns else columns.pop())
    bases_by_name[REGISTER] = list(columns)
    outs = tuple((axis_name(axis), n) for axis, n in enumerate(bits))
    return LinearLayout(tuple((name, tuple(c)) for name, c in bases_by_name.items()), outs)


def extents(least: int = 1) -> st.SearchStrategy[list[int]]:
    sizes = st.sampled_from([1, 2, 4, 16, 64])
    return st.lists(sizes, min_size=least, max_size=3)


def function(types: Sequence[Any], build: Any) -> Module:
    """A module with one function, which returns what `build` makes of its arguments."""
    made = Function("f", types, [f"x{i}" for i in range(len(types))])
    b = LayoutBuilder(made.body)
    results = build(b, *made.args)
    b.op(control.return_, *results)
    made.result_types = tuple(value.type for value in results)
    return Module([made])


def values(data: Any, shape: Sequence[int], element: Scalar) -> Array:
    """Numbers of a small range, so that some are equal, and now and then one that is special."""
    dtype = semantics.numpy_dtype(element)
    seed = data.draw(st.integers(0, 1 << 32), label="seed")
    random = np.random.default_rng(seed)
    numbers = random.integers(0 if dtype.kind in "ub" else -6, 7, shape)
    if element.is_floating():
        special = random.choice([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0], shape)
        return np.where(random.random(shape) < seed % 3 / 4, special, numbers / 4).astype(dtype)
    wide = random.integers(0, 256, (*shape, dtype.itemsize), np.uint8).view(dtype)[..., 0]
    return numbers.astype(dtype) if seed % 2 or element is I1 else wide


def check(module: Module, target: SimtTarget, *arguments: Array, ulp: float = 0) -> Module:
    """Decompose a copy of a module; it means the same, and a warp can do it."""
    verify(module, Level.LAID_OUT)
    after = module.clone()
    decompose(after, target=target)
    verify(after, Level.LAID_OUT)
    for op in after.walk():
        assert op.defn not in DECOMPOSED, print_module(after)
        check_within_warps(op, target)
    wanted = evaluate(module["f"], *arguments)
    for number, (x, y) in enumerate(zip(evaluate(after["f"], *arguments), wanted, strict=True)):
        assert_close(unsigned_zeros(x), unsigned_zeros(y), ulp, f"result {number}")
    return after


def unsigned_zeros(x: Any) -> Array:
    """Which of two zeros is greater is not defined."""
    return np.where(x == 0, np.zeros((), x.dtype), x)


def check_within_warps(op: Any, target: SimtTarget) -> None:
    """Check that a reduction or scan combines only registers, and lanes that shuffle."""
    if op.defn not in (reduce.reduce_region, reduce.scan_region):
        return
    layout = layout_of(op.inputs[0])
    name = axis_name(len(layout.outs) + op["axis"])
    steps = {held: [] for held in (REGISTER, LANE, WARP)}
    for held in steps:
        for basis in layout.bases(held):
            along = basis[layout.out_dims.index(name)]
            assert not along or sum(map(bool, basis)) == 1, f"{layout} moves along several axes"
            steps[held].append(along)
    far = [along for held in ([WARP] if target.shuffles else [LANE, WARP]) for along in steps[held]]
    assert not any(far), f"{op.name} along {op['axis']} of {layout}"
    if op.defn is reduce.scan_region:
        lanes = [along for along in steps[LANE] if along]
        bits = layout.out_bits(name)
        first = steps[REGISTER][: bits - len(lanes)]
        assert [*first, *lanes] == [1 << bit for bit in range(bits)], f"{layout} has no order"


@st.composite
def reductions(draw: Any, odd: bool = False) -> tuple[LinearLayout, int]:
    shape = draw(extents())
    layout = draw(distributed(shape, odd))
    return layout, draw(st.integers(-len(shape), -1))


KINDS = [
    (kind, element)
    for kind in ReduceKind
    for element in ((I1, *INTEGERS) if kind.bitwise else (*INTEGERS, *FLOATS))
]
# What may differ in the order in which floats are added or multiplied.
ROUNDED = (ReduceKind.SUM, ReduceKind.PROD)


@pytest.mark.parametrize("kind, element", KINDS)
@FEW
@given(data=st.data(), where=reductions(), target=st.sampled_from(TARGETS), nan=st.booleans())
def test_reduce(
    data: Any, kind: ReduceKind, element: Scalar, where: Any, target: SimtTarget, nan: bool
) -> None:
    layout, axis = where
    ty = Tile(layout.shape, element, layout)
    module = function(
        [ty],
        lambda b, x: [b(reduce.reduce, x, axis=axis, kind=kind, propagate_nan=nan)],
    )
    check(module, target, values(data, layout.shape, element), ulp=8 * (kind in ROUNDED))


@pytest.mark.parametrize("kind, element", KINDS)
@FEW
@given(data=st.data(), where=reductions(), target=st.sampled_from(TARGETS), reverse=st.booleans())
def test_scan(
    data: Any, kind: ReduceKind, element: Scalar, where: Any, target: SimtTarget, reverse: bool
) -> None:
    layout, axis = where
    ty = Tile(layout.shape, element, layout)
    module = function([ty], lambda b, x: [b(reduce.scan, x, axis=axis, kind=kind, reverse=reverse)])
    check(module, target, values(data, layout.shape, element), ulp=8 * (kind in ROUNDED))


@SETTINGS
@given(
    st.data(),
    reductions(),
    st.sampled_from(list(ArgKind)),
    st.sampled_from((*INTEGERS, *FLOATS)),
    st.sampled_from([*TARGETS, MMA]),
    st.booleans(),
    st.booleans(),
)
def test_arg_reduce(
    data: Any,
    where: Any,
    kind: ArgKind,
    element: Scalar,
    target: SimtTarget,
    left: bool,
    only_index: bool,
) -> None:
    layout, axis = where
    ty = Tile(layout.shape, element, layout)

    def build(b: Builder, x: Value) -> Sequence[Value]:
        op = b.op(reduce.arg_reduce, x, axis=axis, kind=kind, tie_break_left=left)
        return op.results[only_index:]

    module = function([ty], build)
    check(module, target, values(data, layout.shape, element))


@pytest.mark.parametrize("kind", ArgKind)
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("warps", [1, 4])
def test_warps_reduce_the_order_of_elements(kind: ArgKind, left: bool, warps: int) -> None:
    """Ties, zeros of both signs, subnormal numbers, infinities and NaN, between all threads."""
    layout = blocked([256], [2], [32], [warps])
    module = function(
        [Tile(layout.shape, F32, layout)],
        lambda b, x: b.op(reduce.arg_reduce, x, axis=-1, kind=kind, tie_break_left=left).results[
            1:
        ],
    )
    random = np.random.default_rng(0)
    least = np.float32(1e-45)
    numbers = np.array([0, -0.0, 1, -1, least, -least, np.inf, -np.inf, np.nan], np.float32)
    for count in (*range(1, len(numbers) + 1), *[3] * 40):
        chosen = random.choice(numbers, count)
        check(module, MMA, random.choice(chosen, layout.shape).astype(np.float32))
    for one in numbers:
        text = print_module(check(module, MMA, np.full(layout.shape, one, np.float32)))
        assert "arg_reduce" not in text and text.count("bitcast") == 1


@pytest.mark.parametrize("element", [ty for ty in (*INTEGERS, *FLOATS) if ty.bits <= 32], ids=str)
@FEW
@given(data=st.data(), kind=st.sampled_from(list(ArgKind)), left=st.booleans())
def test_warps_reduce_the_order_of_each_type(
    element: Scalar, data: Any, kind: ArgKind, left: bool
) -> None:
    layout = blocked([4, 128], [1, 2], [1, 32], [2, 2])
    module = function(
        [Tile(layout.shape, element, layout)],
        lambda b, x: b.op(reduce.arg_reduce, x, axis=-1, kind=kind, tie_break_left=left).results[
            1:
        ],
    )
    check(module, MMA, values(data, layout.shape, element))


@SETTINGS
@given(
    st.data(),
    reductions(),
    st.sampled_from((I1, *INTEGERS, *FLOATS)),
    st.sampled_from(TARGETS),
    st.booleans(),
)
def test_sort(data: Any, where: Any, element: Scalar, target: SimtTarget, descending: bool) -> None:
    layout, axis = where
    ty = Tile(layout.shape, element, layout)
    shape = list(layout.shape)
    count = data.draw(st.sampled_from([None, *(1 << bit for bit in range(7))]), label="count")
    if count is not None:
        shape[axis] = count = min(count, shape[axis])
    free = data.draw(distributed(shape, warps=layout.in_bits(WARP)), label="result")
    module = function(
        [ty],
        lambda b, x: [
            b(indexing.sort, x, axis=axis, descending=descending, count=count, layout=free)
        ],
    )
    check(module, target, values(data, layout.shape, element))


@SETTINGS
@given(st.data(), reductions(), st.sampled_from(TARGETS))
def test_sort_keeps_both_zeros(data: Any, where: Any, target: SimtTarget) -> None:
    layout, axis = where
    ty = Tile(layout.shape, F32, layout)
    module = function([ty], lambda b, x: [b(indexing.sort, x, axis=axis)])
    zeros = np.where(values(data, layout.shape, I1), np.float32(0), np.float32(-0.0))
    after = check(module, target, zeros)
    (result,) = evaluate(after["f"], zeros)
    assert np.array_equal(np.signbit(result).sum(axis), np.signbit(zeros).sum(axis))


@SETTINGS
@given(st.data(), reductions(), st.sampled_from(TARGETS))
def test_flip(data: Any, where: Any, target: SimtTarget) -> None:
    layout, axis = where
    ty = Tile(layout.shape, I32, layout)
    module = function([ty], lambda b, x: [b(shape.flip, x, axis=axis)])
    check(module, target, values(data, layout.shape, I32))


# Combining functions of users, with several results: one with an `if`, and the sum of segments, in
# which it matters what stands before what.
REGIONS = {
    reduce.reduce_region: """region combine(%a: i32, %i: i64, %b: i32, %j: i64) {
  %less = cmp %a, %b {predicate = lt} : i1
  %c = if %less : i32 {
    yield %a
  } else {
    yield %b
  }
  %k = xor %i, %j : i64
  yield %c, %k
}""",
    reduce.scan_region: """region combine(%a: i32, %i: i64, %b: i32, %j: i64) {
  %c = or %a, %b : i32
  %one = const {value = 1} : i32
  %flag = and %b, %one : i32
  %starts = cmp %flag, %one {predicate = eq} : i1
  %sum = add %i, %j : i64
  %k = select %starts, %j, %sum : i64
  yield %c, %k
}""",
}


def by_region(
    name: OpDef, layout: LinearLayout, axis: int, results: str, attributes: str
) -> Module:
    """A function that combines two tiles, of i32 and of i64, by the region for that operation."""
    dims = "x".join(map(str, layout.shape))
    x, y = f"tile<{dims}xi32, {layout}>", f"tile<{dims}xi64, {layout}>"
    results = results or f"{x}, {y}"
    return parse_module(
        f"func @f(%x: {x}, %y: {y}) -> ({results}) {{\n"
        f"%r, %s = {name.name} %x, %y {{axis = {axis}{attributes}}} : {results} {REGIONS[name]}\n"
        "return %r, %s\n}"
    )


@SETTINGS
@given(st.data(), reductions(), st.sampled_from(TARGETS))
def test_reduce_by(data: Any, where: Any, target: SimtTarget) -> None:
    layout, axis = where
    left = reduced_layout(layout, axis)
    dims = "x".join(map(str, left.shape))
    results = f"tile<{dims}xi32, {left}>, tile<{dims}xi64, {left}>" if dims else "i32, i64"
    module = by_region(reduce.reduce_region, layout, axis, results, "")
    arguments = [values(data, layout.shape, element) for element in (I32, I64)]
    check(module, target, *arguments)


@SETTINGS
@given(st.data(), reductions(), st.sampled_from(TARGETS), st.booleans())
def test_scan_by(data: Any, where: Any, target: SimtTarget, reverse: bool) -> None:
    layout, axis = where
    attributes = ", reverse = true" if reverse else ""
    module = by_region(reduce.scan_region, layout, axis, "", attributes)
    arguments = [values(data, layout.shape, element) for element in (I32, I64)]
    check(module, target, *arguments)


@SETTINGS
@given(st.data(), reductions(odd=True), st.sampled_from(TARGETS))
def test_bases_along_several_axes(data: Any, where: Any, target: SimtTarget) -> None:
    layout, axis = where
    ty = Tile(layout.shape, I32, layout)

    def build(b: LayoutBuilder, x: Value) -> list[Value]:
        return [
            b(reduce.scan, x, axis=axis, kind=ReduceKind.SUM),
            b(indexing.sort, x, axis=axis),
            b(shape.flip, x, axis=axis),
        ]

    check(function([ty], build), target, values(data, layout.shape, I32))


@SETTINGS
@given(st.data(), reductions(odd=True), st.sampled_from(TARGETS))
def test_reductions_along_several_axes(data: Any, where: Any, target: SimtTarget) -> None:
    layout, axis = where
    left = reduced_layout(layout, axis)
    if left.outs:
        try:
            check_distributed(left, left.shape)
        except TypeRuleError:
            assume(False)  # no layout of a result: such a reduction does not exist
    ty = Tile(layout.shape, I32, layout)

    def build(b: LayoutBuilder, x: Value) -> list[Value]:
        best = b.op(reduce.arg_reduce, x, axis=axis, kind=ArgKind.MAX).results
        return [b(reduce.reduce, x, axis=axis, kind=ReduceKind.SUM), *best]

    check(function([ty], build), target, values(data, layout.shape, I32))


@pytest.mark.parametrize("propagate", [False, True])
@pytest.mark.parametrize("kind", [ReduceKind.MAX, ReduceKind.MIN])
@pytest.mark.parametrize("element", FLOATS, ids=str)
def test_a_nan_wins_if_asked_to(element: Scalar, kind: ReduceKind, propagate: bool) -> None:
    numbers = np.arange(64).astype(semantics.numpy_dtype(element))
    numbers[5] = np.nan
    module = function(
        [Tile((64,), element, ROW)],
        lambda b, x: [b(reduce.reduce, x, axis=-1, kind=kind, propagate_nan=propagate)],
    )
    after = check(module, GENERIC, numbers)
    assert np.isnan(evaluate(after["f"], numbers)[0]) == propagate


@pytest.mark.parametrize("element", FLOATS, ids=str)
def test_nans_of_either_sign_come_last(element: Scalar) -> None:
    numbers = (32 - np.arange(64)).astype(semantics.numpy_dtype(element))
    numbers[[0, 9]] = np.nan, -np.nan
    module = function([Tile((64,), element, ROW)], lambda b, x: [b(indexing.sort, x, axis=-1)])
    check(module, GENERIC, numbers)


def on_threads(module: Module, target: SimtTarget, *arguments: Array) -> Array:
    """The one tile that a function returns, put together from what its threads hold in the end."""
    layouts = [layout_of(value) for value in module["f"].args]
    (returned,) = module["f"].result_types
    assert isinstance(returned, Tile) and isinstance(returned.layout, LinearLayout)
    warps = layouts[0].in_size(WARP)
    decompose(module, target=target)
    verify(module, Level.LAID_OUT)
    expose_shared(module, target=target, num_warps=warps)
    distribute(module, target=target, num_warps=warps)
    operand_tiles = [held(*pair) for pair in zip(layouts, arguments, strict=True)]
    (fragments,) = Threads(target.warp_size, warps).call(module["f"], *operand_tiles)
    return whole(returned.layout, fragments)


@SETTINGS
@given(st.data(), reductions(), st.sampled_from((I32, I64)), st.sampled_from(TARGETS))
def test_gather(data: Any, where: Any, element: Scalar, target: SimtTarget) -> None:
    layout, axis = where
    shape = list(layout.shape)
    shape[axis] = data.draw(st.sampled_from([1, 2, 8, 32]), label="extent")
    other = data.draw(distributed(shape, warps=layout.in_bits(WARP)), label="index")
    assume(max(layout.in_bits(REGISTER), other.in_bits(REGISTER)) <= 7)  # what threads can hold
    types = [Tile(layout.shape, I32, layout), Tile(tuple(shape), element, other)]
    module = function(types, lambda b, x, i: [b(indexing.gather, x, i, axis=axis)])
    x = values(data, layout.shape, I32)
    indices = np.random.default_rng(x.size).integers(0, x.shape[axis], shape)
    indices = indices.astype(semantics.numpy_dtype(element))
    actual = on_threads(module, target, x, indices)
    assert np.array_equal(actual, np.take_along_axis(x, indices, axis))


@SETTINGS
@given(
    st.data(),
    st.sampled_from([1, 4, 64]),
    st.sampled_from([1, 2, 16, 256]),
    st.sampled_from(INTEGERS),
    st.sampled_from(TARGETS),
    st.booleans(),
)
def test_histogram(
    data: Any, count: int, bins: int, element: Scalar, target: SimtTarget, masked: bool
) -> None:
    layout = data.draw(distributed([count]), label="layout")
    result = data.draw(distributed([bins], warps=layout.in_bits(WARP)), label="result")
    types = [Tile((count,), element, layout), Tile((count,), I1, layout)]
    module = function(
        types,
        lambda b, x, mask: [
            b(indexing.histogram, x, mask if masked else None, bins=bins, layout=result)
        ],
    )
    arguments = [values(data, [count], ty) for ty in (element, I1)]
    (wanted,) = evaluate(module["f"], *arguments)
    assert np.array_equal(on_threads(module, target, *arguments), wanted)
