"""Every pure operation on tiles that all warps of a program share, in one or two types each.

Only for backends that cut tiles up: where a tile is one array, its size makes no difference.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.conformance.running import Device
from tests.conformance.test_pure import (
    CASES,
    SAMPLE,
    Case,
    check_all,
    combining,
    dot,
    reduction,
)
from tile.ir.declare import OPS
from tile.ir.op_definition import OpDef
from tile.ir.ops.dot import ACCUMULATORS
from tile.ir.ops.reduce import ArgKind, ReduceKind
from tile.ir.types import BF16, F32, FP8, I1, I8, I32, I64, U8, Precision, Tile, Type, with_shape

Cases = Iterator[Case]
LINE, SQUARE, CUBE = (1024,), (32, 64), (4, 16, 32)
SHAPES = (LINE, SQUARE, CUBE)
LIMIT = 1500  # of elements that are loaded and stored: some of the tile of a program
TYPES = 2  # of an elementwise operation


def axes() -> Iterator[tuple[tuple[int, ...], int]]:
    """All axes of all shapes."""
    for dims in SHAPES:
        yield from ((dims, axis) for axis in range(-len(dims), 0))


def rotating(choices: Sequence[Any]) -> Iterator[Any]:
    return itertools.cycle(choices)


def elementwise(name: str) -> Cases:
    """Some of the small cases with larger tiles: types and attributes that come with the name."""
    small = CASES[name]
    first = zlib.crc32(name.encode())
    for index, dims in enumerate((LINE, SQUARE)):
        case = small[(first + index * (len(small) // TYPES + 1)) % len(small)]
        operands = tuple(
            None if ty is None else with_shape(dims, ty.element) for ty in case.operands
        )
        yield replace(case, operands=operands)


def moved(defn: OpDef, choices: Sequence[tuple[tuple[int, ...], dict[str, Any]]]) -> Cases:
    for (dims, attributes), element in zip(
        choices, rotating((F32, I8, I64, BF16, I1)), strict=False
    ):
        yield Case(defn, (with_shape(dims, element),), attributes)


def reductions(defn: OpDef) -> Cases:
    """Each kind of each type that it has, along one axis after the other."""
    place = rotating(list(axes()))
    for kind, element in itertools.product(ReduceKind, (U8, *SAMPLE[3:])):
        dims, axis = next(place)
        reverse = "reverse" in defn.attributes and axis == -1
        yield from reduction(defn, Tile(dims, element), kind, axis, reverse)


def arg_reductions(defn: OpDef) -> Cases:
    for (dims, axis), kind, element in zip(axes(), rotating(ArgKind), SAMPLE[1:], strict=False):
        for left in (False, True):
            attributes = {"axis": axis, "kind": kind, "tie_break_left": left}
            yield Case(defn, (Tile(dims, element),), attributes)


def combines(defn: OpDef) -> Cases:
    directions = (False, True) if "reverse" in defn.attributes else (None,)
    for (dims, axis), reverse in itertools.product(axes(), directions):
        attributes = {"axis": axis} if reverse is None else {"axis": axis, "reverse": reverse}
        yield Case(defn, (Tile(dims, I32),), attributes, lambda: combining(I32), special=False)


def sorts(defn: OpDef) -> Cases:
    elements = rotating((F32, I8, I64, BF16))
    for (dims, axis), descending in zip(axes(), rotating((False, True)), strict=False):
        for count in (dims[axis], max(1, dims[axis] // 8)):
            attributes = {"axis": axis, "descending": descending, "count": count}
            yield Case(defn, (Tile(dims, next(elements)),), attributes)


def gathers(defn: OpDef) -> Cases:
    for (dims, axis), element in zip(axes(), rotating((F32, I8, I64, *FP8)), strict=False):
        for extent in (dims[axis], 2):
            at = tuple(extent if k - len(dims) == axis else n for k, n in enumerate(dims))
            yield Case(defn, (Tile(dims, element), Tile(at, I32)), {"axis": axis})


def histograms(defn: OpDef) -> Cases:
    for bins, mask in ((16, None), (512, Tile(LINE, I1))):
        yield Case(defn, (Tile(LINE, I32), mask), {"bins": bins})


def ranks(defn: OpDef) -> Cases:
    for bins in (16, 256):
        yield Case(defn, (Tile(LINE, I32),), {"bins": bins})


def dots(defn: OpDef) -> Cases:
    for element, accumulators in ACCUMULATORS.items():
        n = 64 if element.bits < 64 else 32  # what the registers of a single warp hold
        yield dot(defn, Tile((64, 32), element), Tile((32, n), element), accumulators[-1])
    for imprecise in (32, 1 << 30):
        for left, right in itertools.product(FP8, FP8):
            tiles = Tile((64, 32), left), Tile((32, 32), right)
            yield dot(defn, *tiles, F32, max_num_imprecise_acc=imprecise)
    yield dot(defn, Tile((4, 16, 32), BF16), Tile((4, 32, 32), BF16), F32)
    yield dot(defn, Tile((128, 16), F32), Tile((16, 16), F32), F32, input_precision=Precision.TF32)


def on_pairs(defn: OpDef) -> Cases:
    for dims, element in zip(SHAPES, (F32, I8, I64), strict=True):
        pair: tuple[Type, ...] = (Tile(dims, element),) * 2
        yield Case(defn, pair if defn.name == "join" else (Tile((*dims, 2), element),))


ORDERS: list[Any] = [(CUBE, {"order": o}) for o in itertools.permutations(range(3))]
MAKERS: dict[str, Callable[[OpDef], Cases]] = {
    "hint": lambda d: moved(d, [(SQUARE, {"constant": (1, 1)})]),
    "splat": lambda d: moved(d, [((), {"shape": dims}) for dims in SHAPES]),
    "broadcast": lambda d: moved(
        d,
        [
            ((32, 1), {"shape": SQUARE}),
            ((1, 64), {"shape": SQUARE}),
            ((4, 1, 32), {"shape": CUBE}),
            ((1, 16, 1), {"shape": CUBE}),
        ],
    ),
    "expand_dims": lambda d: moved(d, [(SQUARE, {"axis": a}) for a in (-1, -2, -3)]),
    "reshape": lambda d: moved(
        d,
        [
            (SQUARE, {"shape": (2048,)}),
            (LINE, {"shape": (4, 256)}),
            (CUBE, {"shape": (32, 64)}),
            (SQUARE, {"shape": (64, 2, 16)}),
        ],
    ),
    "trans": lambda d: moved(d, [*ORDERS, (SQUARE, {"order": (1, 0)})]),
    "flip": lambda d: moved(d, [(dims, {"axis": axis}) for dims, axis in axes()]),
    "join": on_pairs,
    "split": on_pairs,
    "reduce": reductions,
    "scan": reductions,
    "arg_reduce": arg_reductions,
    "reduce_region": combines,
    "scan_region": combines,
    "gather": gathers,
    "histogram": histograms,
    "rank": ranks,
    "sort": sorts,
    "dot": dots,
}


@pytest.mark.parametrize("masked", [False, True], ids=["full", "masked"])
@pytest.mark.parametrize("name", CASES)
def test_large(device: Device, name: str, masked: bool) -> None:
    if device.target == "interp":
        pytest.skip("a tile is one array here")
    maker = MAKERS.get(name)
    cases = list(elementwise(name) if maker is None else maker(OPS[name]))
    check_all(device, cases[masked::2], LIMIT if masked else None)


def test_each_operation_that_changes_shapes_has_cases_of_its_own() -> None:
    assert {name for name in CASES if not OPS[name].elementwise} <= set(MAKERS)
