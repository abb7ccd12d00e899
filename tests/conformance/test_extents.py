"""Tiles whose extents are no powers of two: every operation that takes them, whatever is past their end.

The interpreter runs them as they are, and other backends run padded ones. Operands are loaded with a
mask that is true in memory, so that padding is what the mask excludes: `other`, which is chosen to
spoil results.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest

import tile.language as tl
from tests.conformance.kernels import Step, around_all
from tests.conformance.running import Device
from tests.conformance.test_pure import (
    BATCH,
    CONSTANTS,
    LEAST_ULP,
    PROGRAMS,
    Case,
    combining,
    dot,
    inputs,
    judge,
    reduction,
)
from tests.conformance.values import placeholder
from tests.frontend.building import module_of
from tile.errors import DeviceAssertionError
from tile.ir import semantics
from tile.ir.builder import Builder
from tile.ir.core import Value
from tile.ir.declare import OPS
from tile.ir.op_definition import Level
from tile.ir.ops.reduce import ArgKind, ReduceKind
from tile.ir.semantics.libdevice import SYMBOLS
from tile.ir.types import (
    BF16,
    F16,
    F32,
    F64,
    FP8,
    I1,
    I8,
    I32,
    I64,
    U8,
    Pointer,
    Precision,
    Scalar,
    Tile,
    Type,
    with_element,
    with_shape,
)
from tile.runtime.jit import jit

SHAPES = ((13,), (3, 7), (3, 2, 5))
SAMPLE = (I1, U8, I32, BF16, F32, F64)

# -- operations without effects


def elementwise() -> Iterator[Case]:
    """Each operation on one type and shape."""
    special = {"select", "cmp", "cast", "bitcast", "launder", "table", "extern_elementwise"}
    declared = (d for d in OPS if d.elementwise and Level.TILE in d.levels)
    for index, defn in enumerate(d for d in declared if d.name not in special):
        ty = with_shape(SHAPES[index % 3], defn.accepts[index % len(defn.accepts)])
        yield Case(defn, (ty,) * len(defn.operands))
    x = Tile((3, 7), F32)
    yield Case(OPS["select"], (with_element(x, I1), x, x))
    yield Case(OPS["cmp"], (x, x), {"predicate": "lt"})
    yield Case(OPS["cast"], (x,), {"to": F16})
    yield Case(OPS["bitcast"], (x,), {"to": I32})
    yield Case(OPS["launder"], (with_element(x, BF16), with_element(x, I32)))
    yield Case(OPS["table"], (with_element(x, I32),), {"of": U8, "entries": (3, 1, 4, 1)})
    log1p = SYMBOLS["__nv_log1pf"]
    ulp = max(log1p.ulp, LEAST_ULP)
    yield Case(OPS["extern_elementwise"], (x,), {"symbol": log1p.name}, ulp=ulp)
    yield Case(OPS["hint"], (with_element(x, I32),), {"constant": (1, 1)})


def shapes() -> Iterator[Case]:
    for name, operand, attributes in (
        ("splat", (), [{"shape": (7,)}, {"shape": (3, 4, 5)}]),
        ("broadcast", (3, 1, 8), [{"shape": (3, 5, 8)}]),
        ("expand_dims", (3, 7), [{"axis": axis} for axis in (-1, -2, -3)]),
        ("reshape", (3, 7), [{"shape": (1, 3, 1, 7)}, {"shape": (3, 7, 1)}]),
        ("reshape", (6, 4), [{"shape": (24,)}, {"shape": (3, 8)}, {"shape": (3, 2, 4)}]),
        ("reshape", (3, 4, 5), [{"shape": (12, 5)}]),
        ("reshape", (5, 4, 12), [{"shape": (20, 3, 4)}]),
        ("trans", (2, 3, 5), [{"order": order} for order in itertools.permutations(range(3))]),
        ("flip", (3, 7), [{"axis": -1}, {"axis": -2}]),
        ("flip", (4, 7), [{"axis": -1}, {"axis": -2}]),
        ("split", (3, 5, 2), [{}]),
    ):
        for element, more in itertools.product((I1, F32, I64), attributes):
            yield Case(OPS[name], (with_shape(operand, element),), dict(more))
    for element in (U8, F32):
        yield Case(OPS["join"], (Tile((3, 5), element),) * 2)


def reductions(name: str, **more: Any) -> Iterator[Case]:
    """All kinds along axes with padding, and one along an axis without."""
    for kind, element, shape in itertools.product(ReduceKind, SAMPLE, SHAPES[:2]):
        for axis in range(-len(shape), 0):
            yield from reduction(OPS[name], Tile(shape, element), kind, axis, **more)
    yield from reduction(OPS[name], Tile((3, 4), I32), ReduceKind.SUM, -1, **more)


def reductions_and_nan() -> Iterator[Case]:
    yield from reductions("reduce")
    for kind, element in itertools.product((ReduceKind.MAX, ReduceKind.MIN), (F16, F32)):
        attributes = {"axis": -1, "kind": kind, "propagate_nan": True}
        yield Case(OPS["reduce"], (Tile((3, 7), element),), attributes)


def arg_reductions() -> Iterator[Case]:
    for kind, element, left in itertools.product(ArgKind, SAMPLE[1:], (True, False)):
        attributes = {"axis": -1, "kind": kind, "tie_break_left": left}
        yield Case(OPS["arg_reduce"], (Tile((3, 7), element),), attributes)


def regions(name: str) -> Iterator[Case]:
    """The greatest of negative numbers."""
    for element, shape in itertools.product((I32, F32), SHAPES[:2]):
        for axis, more in itertools.product(range(-len(shape), 0), ({}, {"reverse": True})):
            if not more or "reverse" in OPS[name].attributes:
                make = functools.partial(combining, element)
                attributes = {"axis": axis, **more}
                negative: dict[str, Any] = {"integers": (-100, -1), "domain": (-4.0, -1.0)}
                yield Case(
                    OPS[name], (Tile(shape, element),), attributes, make, special=False, **negative
                )


def indices() -> Iterator[Case]:
    for element in (U8, F32):
        for x, index, axis in (((3, 7), (3, 5), -1), ((5, 4), (3, 4), -2), ((8, 3), (7, 3), -2)):
            yield Case(OPS["gather"], (Tile(x, element), Tile(index, I32)), {"axis": axis})
    for bins, mask in itertools.product((16, 11), (None, Tile((37,), I1))):
        yield Case(OPS["histogram"], (Tile((37,), I32), mask), {"bins": bins})
    yield Case(OPS["histogram"], (Tile((64,), I32), None), {"bins": 11})
    yield Case(OPS["sort"], (Tile((3, 8), F32),), {"axis": -1, "count": 5})


def sorts() -> Iterator[Case]:
    for element, descending in itertools.product(SAMPLE, (False, True)):
        for shape, axis, count in (((13,), -1, None), ((3, 7), -2, None), ((3, 7), -1, 5)):
            attributes = {"axis": axis, "descending": descending, "count": count}
            yield Case(OPS["sort"], (Tile(shape, element),), attributes)


def dots() -> Iterator[Case]:
    """Each extent alone, and all; k is summed over."""
    for element, accumulator in ((F16, F32), (BF16, F32), (F32, F32), (F64, F64), (I8, I32)):
        for m, k, n in ((16, 20, 16), (13, 32, 16), (16, 16, 9), (13, 20, 9), (3, 5, 6)):
            yield dot(OPS["dot"], Tile((m, k), element), Tile((k, n), element), accumulator)
    for element in FP8:
        yield dot(OPS["dot"], Tile((13, 20), element), Tile((20, 9), element), F32)
    a, b = Tile((3, 13, 20), F32), Tile((3, 20, 9), F32)
    yield dot(OPS["dot"], a, b, F32, input_precision=Precision.TF32)


GROUPS: dict[str, list[Case]] = {
    "elementwise": list(elementwise()),
    "shape": list(shapes()),
    "reduce": list(reductions_and_nan()),
    "arg_reduce": list(arg_reductions()),
    "scan": [*reductions("scan"), *reductions("scan", reverse=True)],
    "reduce_region": list(regions("reduce_region")),
    "scan_region": list(regions("scan_region")),
    "index": list(indices()),
    "sort": list(sorts()),
    "dot": list(dots()),
}


def least(build: Builder, ty: Type) -> Value:
    element = ty.element
    assert isinstance(element, Scalar)
    number = 0 if element.is_bool() else -448.0 if element.is_fp8() else -math.inf
    return build.constant(number if not element.is_int() else element.min_value, ty)


def greatest(build: Builder, ty: Type) -> Value:
    element = ty.element
    assert isinstance(element, Scalar)
    return build.constant(math.nan if element.is_floating() else element.max_value, ty)


@pytest.mark.parametrize("other", [least, greatest], ids=["least", "greatest"])
@pytest.mark.parametrize("group", GROUPS)
def test_operations(device: Device, group: str, other: Any) -> None:
    cases = iter(GROUPS[group])
    while batch := list(itertools.islice(cases, BATCH)):
        check(device, batch, other)


def check(device: Device, cases: Iterable[Case], other: Any) -> None:
    """Hold the backend against cases in one kernel, with padding that `other` makes."""
    steps = [Step(c.defn, c.operands, c.attributes, c.regions()) for c in cases]
    arrays = [inputs(case, str(case)) for case in cases]
    outputs = [
        [placeholder(ty.element, PROGRAMS * math.prod(ty.shape)) for ty in step.results]
        for step in steps
    ]
    module = around_all(steps, masked=True, other=other)
    flat = [x for pair in zip(arrays, outputs, strict=True) for each in pair for x in each]
    with semantics.quiet():
        device.run(module, (PROGRAMS, 1, 1), [*flat, np.int32(1 << 30)])
    for case, step, given, found in zip(cases, steps, arrays, outputs, strict=True):
        judge(case, step.results, given, found, None)


def test_every_operation_that_takes_any_extents_is_covered() -> None:
    tested = {case.defn.name for group in GROUPS.values() for case in group}
    taking = {d.name for d in OPS if d.any_extents and Level.TILE in d.levels}
    below = {
        *("addptr", "load", "store", "atomic_rmw", "atomic_cas", "device_print", "device_assert"),
        *("for", "while", "if", "yield", "call", "return", "inline_asm", "debug_step"),
        *("rank", "scatter"),
    }
    assert taking - tested - CONSTANTS == below


# -- kernels with effects


def run(device: Device, function: Any, *arguments: Any, grid: int = 1, **constants: Any) -> None:
    """Run a kernel on arrays."""
    types = [Pointer(I32 if x.dtype == np.int32 else F32) for x in arguments]
    device.run(module_of(function, *types, **constants), (grid, 1, 1), list(arguments))


def adding(x, y, out, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, tl.load(x + at) + tl.load(y + at))


@pytest.mark.parametrize("block", [1, 3, 100, 127, 129, 1000])
def test_arrays_of_whole_blocks(device: Device, block: int) -> None:
    """Programs write blocks next to each other, and arrays end where the last one does."""
    x, y = np.random.default_rng(0).random((2, 3 * block), np.float32)
    out = np.full_like(x, -1)
    run(device, adding, x, y, out, grid=3, B=block)
    np.testing.assert_array_equal(out, x + y)


def masked(x, n, out, B: tl.constexpr):
    at = tl.arange(0, B)
    v = tl.load(x + at, mask=at < tl.load(n), other=-1)
    tl.store(out + at, v, mask=at % 2 == 0)
    tl.store(out + B, tl.sum(v))


def test_masks_are_combined(device: Device) -> None:
    x, out = np.arange(10, 17, dtype=np.int32), np.zeros(12, np.int32)
    run(device, masked, x, np.array([7], np.int32), out, B=11)
    assert out.tolist() == [10, 0, 12, 0, 14, 0, 16, 0, -1, 0, -1, x.sum() - 4]


def atomics(counts, olds, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.atomic_add(counts + at * 0, 1)
    old = tl.atomic_add(counts + 1 + at, at, mask=at != 2)
    tl.store(olds + at, tl.where(at != 2, old, 0))
    tl.atomic_cas(counts + 1 + at, at, -at)
    tl.atomic_max(counts + 1 + B + at * 0, at)


def test_atomics_skip_padding(device: Device) -> None:
    counts, olds = np.zeros(8, np.int32), np.full(8, 7, np.int32)
    run(device, atomics, counts, olds, B=5)
    assert counts.tolist() == [5, 0, -1, 0, -3, -4, 4, 0]
    assert olds.tolist() == [0, 0, 0, 0, 0, 7, 7, 7]


def counting(x, out, B: tl.constexpr):
    v = tl.minimum(tl.maximum(tl.load(x + tl.arange(0, B)), 0), 4)
    tl.store(out + tl.arange(0, 5), tl.histogram(v, 5))


def test_padding_is_not_counted(device: Device) -> None:
    x, out = np.arange(11, dtype=np.int32), np.zeros(5, np.int32)
    run(device, counting, x, out, B=11)
    assert out.tolist() == [1, 1, 1, 1, 7]


def ordering(x, y, order, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    last_first = tl.broadcast_to(N - 1 - tl.arange(0, N)[None, :], (M, N))
    tl.store(y + at, tl.scatter(tl.load(x + at), last_first))
    line = tl.arange(0, M * N)
    ranks = tl.rank(tl.load(x + line) & 3, 4)
    tl.store(order + line, tl.scatter(line, ranks))


def test_padding_is_not_ranked(device: Device) -> None:
    x = np.random.default_rng(0).integers(0, 99, (3, 100)).astype(np.int32)
    y, order = np.zeros_like(x), np.zeros_like(x)
    run(device, ordering, x, y, order, M=3, N=100)
    np.testing.assert_array_equal(y, x[:, ::-1])
    np.testing.assert_array_equal(order.ravel(), np.argsort(x.ravel() & 3, kind="stable"))


def printing(x, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.device_print("values", tl.load(x + at), at[:, None] + tl.arange(0, 2)[None, :] * 100)


def test_padding_is_not_printed(device: Device, capfd: pytest.CaptureFixture[str]) -> None:
    run(device, printing, np.arange(40, 45, dtype=np.int32), B=5)
    printed = capfd.readouterr().out
    for value in (*range(40, 45), *range(5), *range(100, 105)):
        assert str(value) in printed
    assert not any(str(value) in printed for value in (45, 47, 105, 107))
    assert printed.count("idx") in (0, 5 + 10)  # the interpreter prints whole tiles


def claiming(x, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.device_assert(at < tl.load(x), "in range")


@pytest.mark.parametrize("limit", [5, 4])
def test_assertions_of_padding_hold(device: Device, limit: int) -> None:
    x = np.array([limit], np.int32)
    if limit == 5:
        run(device, claiming, x, B=5)
        return
    with pytest.raises(DeviceAssertionError, match="in range"):
        run(device, claiming, x, B=5)


def squares(x, n):
    for _ in range(n):
        x = x * x
    return x


def carrying(x, out, B: tl.constexpr, POWER: tl.constexpr):
    at = tl.arange(0, B)
    total, steps = tl.zeros((B,), tl.int32), 0
    for row in range(4):
        v = tl.load(x + row * B + at)
        if row % 2 == 1:
            v = POWER(v, row)
        total += v
    while tl.max(total) > 100:
        total -= 10
        steps += 1
    tl.store(out + at, total)
    tl.store(out + B, steps)


@pytest.mark.parametrize("noinline", [False, True])
def test_tiles_that_loops_branches_and_calls_carry(device: Device, noinline: bool) -> None:
    x = np.random.default_rng(1).integers(0, 4, (4, 11)).astype(np.int32)
    out = np.zeros(12, np.int32)
    run(device, carrying, x, out, B=11, POWER=jit(noinline=noinline)(squares))
    total = x[0] + x[1] ** 2 + x[2] + x[3] ** 8
    steps = max(0, -(-(total.max() - 100) // 10))
    np.testing.assert_array_equal(out, [*(total - 10 * steps), steps])


def blocks(x, out, M: tl.constexpr, N: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    source = tl.make_block_ptr(x, (M, N), (N, 1), (2, 1), (R, C), (1, 0))
    target = tl.make_block_ptr(out, (R, C), (C, 1), (0, 0), (R, C), (1, 0))
    tl.store(target, tl.load(source, boundary_check=(0, 1)))


def test_block_pointers(device: Device) -> None:
    x, out = np.arange(6 * 10, dtype=np.float32).reshape(6, 10), np.full((5, 11), -1, np.float32)
    run(device, blocks, x, out, M=6, N=10, R=5, C=11)
    expected = np.zeros_like(out)
    expected[:4, :9] = x[2:, 1:]
    np.testing.assert_array_equal(out, expected)


def matmul(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, BK: tl.constexpr):
    rows, columns = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        left = tl.load(a + rows * K + k[None, :])
        right = tl.load(b + k[:, None] * N + columns)
        total = tl.dot(left.to(tl.float16), right.to(tl.float16), total)
    tl.store(c + rows * N + columns, total)


def test_dots_in_a_loop(device: Device) -> None:
    """Past the end of a slice of `a` is the next one, and past the last row nothing."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 4, shape).astype(np.float32) for shape in ((48, 72), (72, 40)))
    c = np.zeros((48, 40), np.float32)
    run(device, matmul, a, b, c, M=48, N=40, K=72, BK=24)
    np.testing.assert_array_equal(c, a @ b)


def flattening(x, out, M: tl.constexpr, N: tl.constexpr, GREATER: tl.constexpr):
    v = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    tl.store(out, tl.sum(v))
    tl.store(out + 1, tl.max(v))
    tl.store(out + 2, tl.sum(tl.sum(v, 1), keep_dims=True).item())
    tl.store(out + 3, tl.reduce(v, None, GREATER))
    tl.store(out + 4, v[1, -1])
    tl.store(out + 5, tl.sum(v[1:, 2:9:2]))
    tl.store(out + 6, tl.sum(v[::-1, 3]))
    tl.store(out + 7, tl.argmin(tl.softmax(v, 1), 1)[0])


@jit
def greater(a, b):
    return tl.maximum(a, b)


def test_all_elements_and_parts(device: Device) -> None:
    x = -1 - np.random.default_rng(0).permutation(33).astype(np.float32).reshape(3, 11)
    out = np.zeros(8, np.float32)
    run(device, flattening, x, out, M=3, N=11, GREATER=greater)
    expected = [x.sum(), x.max(), x.sum(), x.max(), x[1, -1], x[1:, 2:9:2].sum(), x[:, 3].sum()]
    np.testing.assert_array_equal(out, [*expected, x[0].argmin()])


def library(x, y, B: tl.constexpr, BRANCHING: tl.constexpr):
    at = tl.arange(0, B)
    v = tl.load(x + at)
    tl.store(y + at, tl.map_elementwise(BRANCHING, v))
    tl.store(y + 8 + at, tl.cumsum(tl.interleave(v, v)[:B]))
    tl.store(y + 16 + at, (tl.rand(3, at) < 1).to(tl.float32))
    tl.store(y + 24 + tl.arange(0, 3), tl.topk(v, 3))
    pairs = tl.cat(v[:, None], -v[:, None], dim=1)
    tl.store(y + 32 + at[:, None] * 2 + tl.arange(0, 2)[None, :], pairs)
    first, second = tl.split(tl.join(v, v + 1))
    tl.store(y + 48 + at, first + second)
    tl.store(y + 56 + at, tl.gather(v, B - 1 - at, 0))
    tl.store(y + 64 + at, tl.associative_scan(v, 0, OF_FIRST, reverse=True))


def branching(x):
    if x > 3:
        result = x * 2
    else:
        result = x + 1
    return result


@tl.constexpr
@jit
def OF_FIRST(first, second):
    return first


def test_library_functions(device: Device) -> None:
    x, y = np.arange(5, dtype=np.float32), np.zeros(72, np.float32)
    run(device, library, x, y, B=5, BRANCHING=jit(branching))
    rows = [
        *([1, 2, 3, 4, 8], [0, 0, 1, 2, 4], [1] * 5, [4, 3, 2], [0, 0, 1, -1, 2, -2, 3, -3]),
        *([4, -4], x + x + 1, x[::-1], [4] * 5),
    ]
    expected = [np.pad(np.asarray(row, np.float32), (0, 8 - len(row))) for row in rows]
    np.testing.assert_array_equal(y.reshape(-1, 8), expected)


def row_sums(p, out):
    """Sum rows, as the documentation shows."""
    rows, at = tl.arange(0, 3)[:, None], tl.arange(0, 100)[None, :]
    x = tl.load(p + rows * 100 + at)
    tl.store(out + rows, tl.sum(x, axis=1, keep_dims=True))


def test_sums_of_rows(device: Device) -> None:
    x, out = np.arange(300, dtype=np.float32).reshape(3, 100), np.zeros(4, np.float32)
    run(device, row_sums, x, out)
    np.testing.assert_array_equal(out, [*x.sum(1), 0])


def assembly(x, out, B: tl.constexpr):
    v = tl.load(x + tl.arange(0, B))
    v = tl.inline_asm_elementwise(
        "add.s32 $0, $1, 5;", "=r,r", [v], dtype=tl.int32, is_pure=True, pack=1
    )
    tl.store(out, tl.sum(v))


def test_inline_ptx(device: Device) -> None:
    x, out = np.arange(11, dtype=np.int32), np.zeros(1, np.int32)
    run(device, assembly, x, out, B=11)
    assert out.item() == x.sum() + 55


def equal_rows(x, out, N: tl.constexpr, LEFT: tl.constexpr):
    v = tl.load(x + tl.arange(0, 4)[:, None] * N + tl.arange(0, N)[None, :])
    tl.store(out + tl.arange(0, 4), tl.argmax(v, 1, tie_break_left=LEFT))
    tl.store(out + 4 + tl.arange(0, 4), tl.argmin(v, 1, tie_break_left=LEFT))


def first_of_all(x, out, M: tl.constexpr, N: tl.constexpr, LEFT: tl.constexpr):
    rows, middle, at = tl.arange(0, 2), tl.arange(0, M), tl.arange(0, N)
    v = tl.load(x + (rows[:, None, None] * M + middle[None, :, None]) * N + at[None, None, :])
    tl.store(out, tl.argmax(v, None, tie_break_left=LEFT))
    least, place = tl.min(v, None, return_indices=True)
    tl.store(out + 1, place)
    tl.store(out + 2, least)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("place", [0, 8, 38, 41])
def test_indices_among_all_elements(device: Device, place: int, left: bool) -> None:
    x, out = np.zeros((2, 3, 7), np.int32), np.zeros(3, np.int32)
    x.flat[place] = -3
    x.flat[[5, 20, 33]] = 9
    run(device, first_of_all, x.reshape(-1), out, M=3, N=7, LEFT=left)
    assert out.tolist() == [5 if left else 33, place, -3]


@pytest.mark.parametrize("left", [True, False])
def test_the_index_of_an_extremum_is_of_an_element(device: Device, left: bool) -> None:
    """Padding may tie with elements."""
    x = np.array([[-np.inf], [np.inf], [np.nan], [0]], np.float32) * np.ones(5, np.float32)
    out = np.full(8, -1, np.int32)
    run(device, equal_rows, x, out, N=5, LEFT=left)
    assert ((out >= 0) & (out < 5)).all()
    assert not left or not out.any()


def ending(out, FIRST: tl.constexpr, COUNT: tl.constexpr):
    at = tl.arange(FIRST, FIRST + COUNT)
    tl.store(out + (at - FIRST), at)


@pytest.mark.parametrize("first", [-(2**31), -5, 1000, 2**31 - 100])
def test_ranges_up_to_the_greatest_number(device: Device, first: int) -> None:
    out = np.zeros(99, np.int32)
    run(device, ending, out, FIRST=first, COUNT=99)
    np.testing.assert_array_equal(out, np.arange(first, first + 99))
