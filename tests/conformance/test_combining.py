"""Combining regions of many kinds, and what moves elements about by their values.

Every case has one right answer, whatever the order in which a backend combines: sums are of small
integers, and functions for reductions are associative and commutative to the bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.conformance.kernels import Step, around, around_all
from tests.conformance.running import Device, assert_close
from tests.conformance.values import placeholder, random_array
from tests.evaluate import region
from tile.ir import semantics
from tile.ir.builder import Builder
from tile.ir.core import Block, Symbol, Value
from tile.ir.numpy_dtypes import numpy_dtype
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith, control, indexing, reduce, shape
from tile.ir.ops.arith import Predicate
from tile.ir.parser import parse_module
from tile.ir.types import ALL, F32, FLOATS, I1, I32, I64, INTEGERS, U32, Scalar, Tile, Type

PROGRAMS = 3
BATCH = 8  # operations in a kernel
SHAPES = ((32,), (1,), (4, 8), (8, 1, 4))
NUMBERS = (*INTEGERS, *FLOATS)
Fill = Callable[[Builder, list[Value], list[Value]], Sequence[Value]]


def apply(
    device: Device,
    defn: OpDef,
    types: Sequence[Type],
    arrays: Sequence[Any],
    attributes: dict[str, Any],
    blocks: Sequence[Block] = (),
    functions: str = "",
) -> tuple[list[Any], list[Type]]:
    """Return what every program stores of an operation's results, an array for each result."""
    module, results = around(defn, types, attributes, masked=False, regions=lambda: blocks)
    if functions:
        for function in parse_module(functions):
            module.add(function)
    outputs = [placeholder(ty.element, PROGRAMS * math.prod(ty.shape)) for ty in results]
    # A copy: lowering takes regions apart, and these are evaluated again.
    device.run(module.clone(), (PROGRAMS, 1, 1), [*arrays, *outputs, np.int32(0)])
    return outputs, results


def judge(
    defn: OpDef,
    types: Sequence[Type],
    arrays: Sequence[Any],
    attributes: dict[str, Any],
    outputs: Sequence[Any],
    results: Sequence[Type],
    regions: dict[str, Any],
) -> None:
    """Compare what all programs stored with what the operation means."""
    complete = defn.complete(attributes)
    complete.pop("result", None)
    assert defn.semantics is not None
    for program in range(PROGRAMS):
        pairs = zip(arrays, types, strict=True)
        own = [a.reshape(PROGRAMS, *ty.shape)[program : program + 1] for a, ty in pairs]
        with semantics.quiet():
            computed = defn.semantics(*own, **complete, **regions)
        values = computed if isinstance(computed, tuple) else (computed,)
        for output, value, ty in zip(outputs, values, results, strict=True):
            actual = output.reshape(PROGRAMS, *ty.shape)[program]
            wanted = np.broadcast_to(value, (1, *ty.shape))[0]
            what = f"{defn.name} {attributes} of {', '.join(map(str, types))}"
            assert_close(actual.ravel(), np.ascontiguousarray(wanted).ravel(), 0, what)


class Batch:
    """Operations of which several go into one kernel: kernels take long to compile.

    Each is held against its meaning, one program at a time.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.items: list[tuple[Step, Sequence[Any]]] = []

    def add(
        self,
        defn: OpDef,
        types: Sequence[Type],
        arrays: Sequence[Any],
        attributes: dict[str, Any],
        fill: Fill | None = None,
    ) -> None:
        """One more; `fill` writes its region, if it has one."""
        blocks = () if fill is None else (group(types, fill),)
        self.items.append((Step(defn, types, attributes, blocks), arrays))
        if len(self.items) == BATCH:
            self.check()

    def check(self) -> None:
        """Run what was added since the last time, and compare."""
        items, self.items = self.items, []
        if not items:
            return
        outputs = [
            [placeholder(ty.element, PROGRAMS * math.prod(ty.shape)) for ty in step.results]
            for step, _ in items
        ]
        module = around_all([step for step, _ in items], masked=False)
        flat = [x for (_, arrays), own in zip(items, outputs, strict=True) for x in (*arrays, *own)]
        # A copy: lowering takes regions apart, and these are evaluated again.
        self.device.run(module.clone(), (PROGRAMS, 1, 1), [*flat, np.int32(0)])
        for (step, arrays), own in zip(items, outputs, strict=True):
            types = [ty for ty in step.operands if ty is not None]
            pairs = zip(step.defn.regions, step.regions, strict=True)
            regions = {name: partial(region, block) for name, block in pairs}
            judge(step.defn, types, arrays, step.attributes, own, step.results, regions)


def group(types: Sequence[Type], fill: Fill) -> Block:
    """A region for tiles of these types."""
    elements = [ty.element for ty in types]
    block = Block([*elements, *elements])
    with_end = Builder(block)
    first, second = block.args[: len(types)], block.args[len(types) :]
    with_end.op(control.yield_, *fill(with_end, first, second))
    return block


def axes(dims: tuple[int, ...]) -> Iterator[int]:
    yield from range(-len(dims), 0)


def small(element: Scalar, count: int, seed: int = 0) -> Any:
    """Numbers of which sums and products of a few are exact in every type."""
    values = np.random.default_rng(seed).integers(0, 4, count)
    return values.astype(semantics.numpy_dtype(element))


# -- functions


def add(build: Builder, first: list[Value], second: list[Value]) -> list[Value]:
    return [build(arith.add, a, b) for a, b in zip(first, second, strict=True)]


def first_greatest(build: Builder, first: list[Value], second: list[Value]) -> list[Value]:
    """The greater number with its index, of equal ones the lower index."""
    (a, i), (b, j) = first, second
    more = build(arith.cmp, a, b, predicate=Predicate.GT)
    same = build(arith.cmp, a, b, predicate=Predicate.EQ)
    lower = build(arith.cmp, i, j, predicate=Predicate.LT)
    keep = build(arith.or_, more, build(arith.and_, same, lower))
    return [build(arith.select, keep, a, b), build(arith.select, keep, i, j)]


def first_greatest_by_branches(
    build: Builder, first: list[Value], second: list[Value]
) -> list[Value]:
    """The same with an `if` inside an `if`."""
    (a, i), (b, j) = first, second
    same = build(arith.cmp, a, b, predicate=Predicate.EQ)
    ties, others = Block(), Block()
    with build.into(ties):
        lower = build(arith.cmp, i, j, predicate=Predicate.LT)
        build.op(control.yield_, *branch(build, lower, first, second))
    with build.into(others):
        more = build(arith.cmp, a, b, predicate=Predicate.GT)
        build.op(control.yield_, *branch(build, more, first, second))
    return build.op(control.if_, same, regions=[ties, others]).results


def branch(
    build: Builder, condition: Value, then: Sequence[Value], orelse: Sequence[Value]
) -> list[Value]:
    blocks = []
    for values in (then, orelse):
        block = Block()
        with build.into(block):
            build.op(control.yield_, *values)
        blocks.append(block)
    return build.op(control.if_, condition, regions=blocks).results


def recurrence(build: Builder, first: list[Value], second: list[Value]) -> list[Value]:
    """Functions x -> m * x + c, one after the other: not commutative."""
    (m, c), (n, d) = first, second
    return [build(arith.mul, m, n), build(arith.add, build(arith.mul, c, n), d)]


def segmented(build: Builder, first: list[Value], second: list[Value]) -> list[Value]:
    """Sums that begin anew where a flag is set: not commutative."""
    (x, f), (y, g) = first, second
    total = build(arith.select, g, y, build(arith.add, x, y))
    return [total, build(arith.or_, f, g)]


def either_end(which: int) -> Fill:
    return lambda build, first, second: (first, second)[which]


def constant(build: Builder, first: list[Value], second: list[Value]) -> list[Value]:
    return [build.constant(1, value.type) for value in first]


# -- cases


@pytest.mark.parametrize("element", NUMBERS, ids=str)
def test_sums(device: Device, element: Scalar) -> None:
    batch = Batch(device)
    for dims in SHAPES:
        types = [Tile(dims, element)]
        arrays = [small(element, PROGRAMS * math.prod(dims))]
        for axis in axes(dims):
            batch.add(reduce.reduce_region, types, arrays, {"axis": axis}, add)
            for reverse in (False, True):
                attributes = {"axis": axis, "reverse": reverse}
                batch.add(reduce.scan_region, types, arrays, attributes, add)
    batch.check()


@pytest.mark.parametrize("fill", [first_greatest, first_greatest_by_branches])
@pytest.mark.parametrize("element", NUMBERS, ids=str)
def test_two_tiles_that_decide_together(device: Device, element: Scalar, fill: Fill) -> None:
    batch = Batch(device)
    for dims in SHAPES:
        count = PROGRAMS * math.prod(dims)
        types = [Tile(dims, element), Tile(dims, I32)]
        arrays = [small(element, count, 1), np.arange(count, dtype=np.int32)[::-1].copy()]
        for axis in axes(dims):
            batch.add(reduce.reduce_region, types, arrays, {"axis": axis}, fill)
            batch.add(reduce.scan_region, types, arrays, {"axis": axis}, fill)
    batch.check()


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dims", SHAPES, ids=str)
def test_scans_keep_the_order(device: Device, dims: tuple[int, ...], reverse: bool) -> None:
    batch = Batch(device)
    rng = np.random.default_rng(2)
    count = PROGRAMS * math.prod(dims)
    for axis in axes(dims):
        attributes = {"axis": axis, "reverse": reverse}
        for element in (I32, U32, I64):
            arrays = [random_array(rng, element, count), random_array(rng, element, count)]
            types: list[Type] = [Tile(dims, element)] * 2
            batch.add(reduce.scan_region, types, arrays, attributes, recurrence)
        for element in FLOATS:
            types = [Tile(dims, element), Tile(dims, I1)]
            arrays = [small(element, count), rng.random(count) < 0.3]
            batch.add(reduce.scan_region, types, arrays, attributes, segmented)
        for which in (0, 1):
            batch.add(reduce.scan_region, types, arrays, attributes, either_end(which))
        batch.add(reduce.scan_region, types[:1], arrays[:1], attributes, constant)
    batch.check()


@pytest.mark.parametrize(("dims", "axis"), [((1024,), -1), ((16, 64), -1), ((64, 2, 16), -3)])
def test_large_tiles(device: Device, dims: tuple[int, ...], axis: int) -> None:
    """Combinations that do not commute, on tiles that all warps of a program share."""
    if device.target == "interp":
        pytest.skip("a tile is one array here")
    rng = np.random.default_rng(8)
    count = PROGRAMS * math.prod(dims)
    numbers = [random_array(rng, I32, count), random_array(rng, I32, count)]
    flagged = [small(F32, count), rng.random(count) < 0.1]
    ranked = [small(I32, count, 1), np.arange(count, dtype=np.int32)[::-1].copy()]
    pair: list[Type] = [Tile(dims, I32)] * 2
    batch = Batch(device)
    for reverse in (False, True):
        attributes = {"axis": axis, "reverse": reverse}
        batch.add(reduce.scan_region, pair, numbers, attributes, recurrence)
        types: list[Type] = [Tile(dims, F32), Tile(dims, I1)]
        batch.add(reduce.scan_region, types, flagged, attributes, segmented)
    for fill in (first_greatest, first_greatest_by_branches):
        batch.add(reduce.reduce_region, pair, ranked, {"axis": axis}, fill)
    batch.check()


@tile.jit
def bounds(x_ptr, least_ptr, most_ptr, first_ptr, SIZE: tl.constexpr):
    """Reductions and a scan of what is negated on the way, several elements to a thread."""
    i = tl.arange(0, SIZE)
    negated = -tl.load(x_ptr + i)
    tl.store(least_ptr, tl.min(negated, axis=0))
    tl.store(most_ptr, tl.max(negated, axis=0))
    tl.store(first_ptr + i, tl.associative_scan(negated, 0, tl.minimum))


@pytest.mark.parametrize("element", [I32, U32, I64], ids=str)
@pytest.mark.parametrize("place", range(8))
def test_extrema_of_what_is_negated(device: Device, element: Scalar, place: int) -> None:
    """One at a time of the places of a thread's elements has the least and then the greatest."""
    size = 1024
    x = np.arange(size).astype(numpy_dtype(element)) % 7 + 1
    x[64 + place], x[96 + place] = 90, 0 if element.ir_name.startswith("u") else -90
    types = {f"{name}_ptr": f"*{element.alias}" for name in ("x", "least", "most", "first")}
    options = {"num_warps": device.options.num_warps}
    least, most, first = np.zeros(1, x.dtype), np.zeros(1, x.dtype), np.zeros_like(x)
    kernel = tile.compile(bounds, types, {"SIZE": size}, options, device.target)
    kernel[1,](x.copy(), least, most, first)
    with np.errstate(over="ignore"):
        negated = np.negative(x)
    assert (least[0], most[0]) == (negated.min(), negated.max())
    np.testing.assert_array_equal(first, np.minimum.accumulate(negated))


FUNCTIONS = """
func @outer(%a: i32, %b: i32) -> (i32) {
  %c = call %a, %b {callee = @inner} : i32
  %t = cmp %c, %a {predicate = lt} : i1
  %r = if %t : i32 {
    yield %a
  } else {
    yield %c
  }
  return %r
}
func noinline @inner(%a: i32, %b: i32) -> (i32) {
  %c = max %a, %b : i32
  return %c
}
"""


def test_regions_that_call_functions(device: Device) -> None:
    types = [Tile((4, 8), I32)]
    x = random_array(np.random.default_rng(3), I32, PROGRAMS * 32)

    def fill(build: Builder, first: list[Value], second: list[Value]) -> list[Value]:
        callee = {"callee": Symbol("outer"), "results": (I32,)}
        return build.op(control.call, *first, *second, **callee).results

    outputs, _ = apply(
        device, reduce.reduce_region, types, [x], {"axis": -1}, [group(types, fill)], FUNCTIONS
    )
    np.testing.assert_array_equal(outputs[0], x.reshape(-1, 8).max(1))


@pytest.mark.parametrize("element", ALL, ids=str)
def test_moves(device: Device, element: Scalar) -> None:
    batch = Batch(device)
    rng = np.random.default_rng(4)
    for dims in ((), (16,), (4, 8), (2, 4, 2)):
        count = PROGRAMS * math.prod(dims)
        x, y = (random_array(rng, element, count) for _ in range(2))
        ty: Type = Tile(dims, element) if dims else element
        batch.add(shape.join, [ty, ty], [x, y], {})
        both = random_array(rng, element, 2 * count)
        batch.add(shape.split, [Tile((*dims, 2), element)], [both], {})
        for axis in axes(dims):
            batch.add(shape.flip, [ty], [x], {"axis": axis})
    batch.check()


@pytest.mark.parametrize("kind", [I32, I64], ids=str)
@pytest.mark.parametrize("element", ALL, ids=str)
def test_gather(device: Device, element: Scalar, kind: Scalar) -> None:
    batch = Batch(device)
    rng = np.random.default_rng(5)
    for dims in ((16,), (4, 8), (2, 4, 4)):
        x = random_array(rng, element, PROGRAMS * math.prod(dims))
        for axis in axes(dims):
            for extent in (1, 32):
                wanted = list(dims)
                wanted[axis] = extent
                indices = rng.integers(0, dims[axis], PROGRAMS * math.prod(wanted))
                types = [Tile(dims, element), Tile(tuple(wanted), kind)]
                arrays = [x, indices.astype(semantics.numpy_dtype(kind))]
                batch.add(indexing.gather, types, arrays, {"axis": axis})
    batch.check()


@pytest.mark.parametrize("element", ALL, ids=str)
def test_scatter(device: Device, element: Scalar) -> None:
    batch = Batch(device)
    rng = np.random.default_rng(5)
    for dims in ((1,), (16,), (512,), (4, 8), (2, 4, 4)):
        x = random_array(rng, element, PROGRAMS * math.prod(dims))
        types = [Tile(dims, element), Tile(dims, I32)]
        for axis in axes(dims):
            index = np.broadcast_to(np.indices(dims)[axis], (PROGRAMS, *dims))
            index = rng.permuted(index, axis=axis).astype(np.int32)
            batch.add(indexing.scatter, types, [x, index.ravel()], {"axis": axis})
    batch.check()


def test_rank(device: Device) -> None:
    """Few elements are sorted; warps count many, here in bins of which some are not used."""
    batch = Batch(device)
    rng = np.random.default_rng(6)
    for extent, bins, used in (
        (1, 1, 1),
        (16, 16, 16),
        (256, 3, 3),
        (1024, 256, 256),
        (512, 64, 1),
    ):
        x = rng.integers(0, used, PROGRAMS * extent).astype(np.int32)
        batch.add(indexing.rank, [Tile((extent,), I32)], [x], {"bins": bins})
    batch.check()


@pytest.mark.parametrize("element", INTEGERS, ids=str)
def test_histogram(device: Device, element: Scalar) -> None:
    """Numbers outside the bins, the ends of the type among them, count nowhere."""
    batch = Batch(device)
    rng = np.random.default_rng(6)
    for extent, bins in ((1, 1), (16, 4), (128, 16), (16, 128)):
        x = random_array(rng, element, PROGRAMS * extent)
        mask = rng.random(PROGRAMS * extent) < 0.6
        types = [Tile((extent,), element), Tile((extent,), I1)]
        batch.add(indexing.histogram, types, [x, mask], {"bins": bins})
        batch.add(indexing.histogram, types[:1], [x], {"bins": bins})
    batch.check()


@pytest.mark.parametrize("element", indexing.SORTED, ids=str)
def test_sort(device: Device, element: Scalar) -> None:
    """NaNs are above all numbers; zeros have one sign, since their order is not promised."""
    batch = Batch(device)
    rng = np.random.default_rng(7)
    for dims in SHAPES:
        x = random_array(rng, element, PROGRAMS * math.prod(dims))
        if element.is_floating():
            x[x == 0] = 0
        for axis in axes(dims):
            few = max(1, dims[axis] // 4)
            for descending, count in ((False, None), (True, None), (False, few), (True, few)):
                attributes = {"axis": axis, "descending": descending, "count": count}
                batch.add(indexing.sort, [Tile(dims, element)], [x], attributes)
    batch.check()
