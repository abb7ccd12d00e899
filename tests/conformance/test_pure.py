"""Every pure operation of the table: its dtypes, ranks 0 to 3, masked and not, in several programs.

The reference is the operation's meaning on one program's arrays at a time.
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tests.conformance.bounds import Bound, of_dots, of_error, of_products, of_running, of_sums
from tests.conformance.kernels import MakeRegions, Step, around, around_all
from tests.conformance.running import Device, assert_close, assert_within
from tests.conformance.values import placeholder, random_array
from tile.ir import semantics
from tile.ir.builder import Builder
from tile.ir.core import Block
from tile.ir.declare import OPS
from tile.ir.op_definition import Level, OpDef
from tile.ir.ops import arith, control
from tile.ir.ops.arith import Predicate
from tile.ir.ops.dot import ACCUMULATORS
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
    U16,
    U32,
    U64,
    Precision,
    Scalar,
    Tile,
    Type,
    with_element,
    with_shape,
)

PROGRAMS = 3
SHAPES: tuple[tuple[int, ...], ...] = ((), (16,), (4, 8), (2, 4, 4))
BATCH = 8  # cases in a kernel
SAMPLE = (I1, I8, U32, I64, F16, BF16, F32, F64)


@dataclass(frozen=True)
class Case:
    """An operation on operands of some types."""

    defn: OpDef
    operands: tuple[Type | None, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    regions: MakeRegions = tuple
    ulp: float | None = None  # None: as the operation says
    special: bool = True  # infinities and NaN are among the operands
    bound: Bound | None = None  # how far results may be off, instead of `ulp`
    domain: tuple[float, float] | None = None  # of float operands; None: the operation's
    integers: tuple[int, int] | None = None  # of integer operands; None: all of the type

    @property
    def results(self) -> list[Type]:
        """The types of the operation's results."""
        return Step(self.defn, self.operands, self.attributes, self.regions()).results

    def __str__(self) -> str:
        shown = ",".join(f"{k}={v}" for k, v in self.attributes.items())
        return f"{self.defn.name}-{'-'.join(map(str, self.operands))}-{shown}"


def elementwise(defn: OpDef) -> Iterator[Case]:
    """All element types in all ranks."""
    for element, shape in itertools.product(defn.accepts, SHAPES):
        ty = with_shape(shape, element)
        yield Case(defn, (ty,) * len(defn.operands))


def select(defn: OpDef) -> Iterator[Case]:
    for element, shape in itertools.product(defn.accepts, SHAPES):
        yield Case(defn, (with_shape(shape, I1), *[with_shape(shape, element)] * 2))


def compare(defn: OpDef) -> Iterator[Case]:
    for case, predicate in itertools.product(elementwise(defn), Predicate):
        yield Case(defn, case.operands, {"predicate": predicate})


def extremum(defn: OpDef) -> Iterator[Case]:
    for case, propagate in itertools.product(elementwise(defn), (False, True)):
        yield Case(defn, case.operands, {"propagate_nan": propagate})


LEAST_ULP = 4  # of the functions of OpenCL whose bound is not 0


def externs(defn: OpDef) -> Iterator[Case]:
    """Every function of libdevice, in one of the ranks."""
    for index, symbol in enumerate(SYMBOLS.values()):
        shape = SHAPES[1 + index % (len(SHAPES) - 1)]
        ulp = max(symbol.ulp, LEAST_ULP) if symbol.ulp else 0
        yield Case(
            defn,
            tuple(with_shape(shape, element) for element in symbol.operands),
            {"symbol": symbol.name},
            ulp=ulp,
            bound=of_error(ulp, symbol.absolute) if symbol.absolute else None,
            domain=symbol.domain,
            integers=symbol.orders,
        )


def cast(defn: OpDef) -> Iterator[Case]:
    """All pairs of types in tiles, which hold all special values, and some of single numbers."""
    for index, (source, to) in enumerate(itertools.product(defn.accepts, defn.accepts)):
        shape = SHAPES[1 + index % (len(SHAPES) - 1)]
        if index % len(SHAPES) == 0:
            yield Case(defn, (source,), {"to": to})
        yield Case(defn, (with_shape(shape, source),), {"to": to})
        if source.is_floating() and to.is_standard_floating() and to.bits < source.bits:
            rounding = arith.Rounding.RTZ
            yield Case(defn, (with_shape(shape, source),), {"to": to, "rounding": rounding})


def launders(defn: OpDef) -> Iterator[Case]:
    for element, shape in itertools.product(defn.accepts, SHAPES):
        yield Case(defn, (with_shape(shape, element), with_shape(shape, I32)))


def bitcast(defn: OpDef) -> Iterator[Case]:
    for source, to in itertools.product(defn.accepts, defn.accepts):
        if source.bits == to.bits:
            yield Case(defn, (Tile((16,), source),), {"to": to})


def with_attributes(
    defn: OpDef, shape: tuple[int, ...], choices: Sequence[dict[str, Any]], operands: int = 1
) -> Iterator[Case]:
    for element, attributes in itertools.product(SAMPLE, choices):
        yield Case(defn, (with_shape(shape, element),) * operands, attributes)


def reductions(defn: OpDef) -> Iterator[Case]:
    for kind, element, shape in itertools.product(ReduceKind, SAMPLE, SHAPES[1:]):
        for axis in range(-len(shape), 0):
            yield from reduction(defn, Tile(shape, element), kind, axis)
    if "propagate_nan" in defn.attributes:
        for kind in (ReduceKind.MAX, ReduceKind.MIN):
            attributes = {"axis": -1, "kind": kind, "propagate_nan": True}
            yield Case(defn, (Tile((4, 8), F32),), attributes)
    else:
        for kind in (ReduceKind.SUM, ReduceKind.MAX):
            attributes = {"axis": -2, "kind": kind, "reverse": True}
            yield Case(defn, (Tile((4, 8), I32),), attributes)


def reduction(
    defn: OpDef, ty: Tile, kind: ReduceKind, axis: int, reverse: bool = False
) -> Iterator[Case]:
    """The case, if there is that kind of that type."""
    element = ty.element
    assert isinstance(element, Scalar)
    attributes: dict[str, Any] = {"axis": axis, "kind": kind}
    if reverse:
        attributes["reverse"] = True
    if element.is_int():
        if kind.bitwise or not element.is_bool():
            yield Case(defn, (ty,), attributes)
    elif kind in (ReduceKind.SUM, ReduceKind.PROD):
        total = kind is ReduceKind.SUM
        if defn.name == "scan":
            fold = np.add if total else np.multiply
            bound = of_running(fold, ty, axis, reverse=reverse)
        else:
            bound = of_sums(ty, axis) if total else of_products(ty, axis)
        domain = None if total else (0.9, 1.1)
        yield Case(defn, (ty,), attributes, special=False, bound=bound, domain=domain)
    elif not kind.bitwise:
        yield Case(defn, (ty,), attributes)


def arg_reductions(defn: OpDef) -> Iterator[Case]:
    for kind, element, shape in itertools.product(ArgKind, SAMPLE[1:], SHAPES[1:]):
        for axis in range(-len(shape), 0):
            yield Case(defn, (Tile(shape, element),), {"axis": axis, "kind": kind})


# Batch, m, k, n: as machines have instructions for, too small for any, and several at once.
DOTS: tuple[tuple[tuple[int, ...], int, int, int], ...] = (
    ((), 16, 32, 16),
    ((), 16, 8, 8),
    ((), 16, 4, 8),
    ((), 16, 16, 8),
    ((), 8, 16, 8),
    ((), 1, 4, 2),
    ((2,), 8, 16, 4),
    ((4,), 16, 32, 8),
)


def dots(defn: OpDef) -> Iterator[Case]:
    for element, accumulators in ACCUMULATORS.items():
        for accumulator, (batch, m, k, n) in itertools.product(accumulators, DOTS):
            a, b = Tile((*batch, m, k), element), Tile((*batch, k, n), element)
            yield dot(defn, a, b, accumulator)
    for precision in Precision:
        for batch in ((), (2,)):
            a, b = Tile((*batch, 16, 32), F32), Tile((*batch, 32, 16), F32)
            yield dot(defn, a, b, F32, input_precision=precision)


def dot(defn: OpDef, a: Tile, b: Tile, accumulator: Scalar, **attributes: Any) -> Case:
    operands = (a, b, Tile((*a.shape[:-1], b.shape[-1]), accumulator))
    precision = attributes.get("input_precision", Precision.IEEE)
    imprecise = "max_num_imprecise_acc" in attributes
    bound = of_dots(a, b, accumulator, precision, imprecise=imprecise)
    return Case(defn, operands, attributes, special=False, bound=bound, domain=(-4.0, 4.0))


def combining(element: Scalar) -> Sequence[Block]:
    """A region that keeps the greater of two numbers."""
    block = Block([element, element], ["a", "b"])
    build = Builder(block)
    build.op(control.yield_, build(arith.max_, *block.args))
    return [block]


def combines(defn: OpDef) -> Iterator[Case]:
    extra: tuple[dict[str, Any], ...] = ({},)
    if "reverse" in defn.attributes:
        extra = ({"reverse": False}, {"reverse": True})
    for element, shape, more in itertools.product((I32, F32, F64), SHAPES[1:], extra):
        for axis in range(-len(shape), 0):
            regions = lambda element=element: combining(element)  # noqa: E731
            yield Case(
                defn, (Tile(shape, element),), {"axis": axis, **more}, regions, special=False
            )


def gathers(defn: OpDef) -> Iterator[Case]:
    for element in SAMPLE:
        for axis in (-1, -2):
            yield Case(defn, (Tile((4, 8), element), Tile((4, 8), I32)), {"axis": axis})


def tables(defn: OpDef) -> Iterator[Case]:
    """Entries of each width, for scalars and tiles, in tables of few and many bytes."""
    for of, count, shape in itertools.product((U8, U16, U32, U64), (1, 8, 1024), SHAPES):
        entries = tuple((k * 0x9E3779B97F4A7C15 + k) & of.max_value for k in range(count))
        yield Case(defn, (with_shape(shape, I32),), {"of": of, "entries": entries})


def sorts(defn: OpDef) -> Iterator[Case]:
    for element, descending, count in itertools.product(SAMPLE[1:], (False, True), (8, 2)):
        attributes = {"axis": -1, "descending": descending, "count": count}
        yield Case(defn, (Tile((4, 8), element),), attributes)


# How the cases of an operation are made; an elementwise one that is not named is `elementwise`.
MAKERS: dict[str, Any] = {
    "select": select,
    "cmp": compare,
    "min": extremum,
    "max": extremum,
    "extern_elementwise": externs,
    "cast": cast,
    "launder": launders,
    "bitcast": bitcast,
    "hint": lambda d: with_attributes(d, (4, 8), [{"constant": (1, 1)}]),
    "splat": lambda d: with_attributes(d, (), [{"shape": (8,)}, {"shape": (2, 4, 8)}]),
    "broadcast": lambda d: with_attributes(d, (4, 1, 8), [{"shape": (4, 2, 8)}]),
    "expand_dims": lambda d: with_attributes(d, (4, 8), [{"axis": a} for a in (-1, -2, -3)]),
    "reshape": lambda d: with_attributes(d, (4, 8), [{"shape": (32,)}, {"shape": (2, 2, 8)}]),
    "trans": lambda d: with_attributes(
        d, (2, 4, 8), [{"order": o} for o in itertools.permutations(range(3))]
    ),
    "flip": lambda d: with_attributes(d, (4, 8), [{"axis": -1}, {"axis": -2}]),
    "join": lambda d: with_attributes(d, (4, 8), [{}], operands=2),
    "split": lambda d: with_attributes(d, (4, 8, 2), [{}]),
    "reduce": reductions,
    "scan": reductions,
    "arg_reduce": arg_reductions,
    "reduce_region": combines,
    "scan_region": combines,
    "gather": gathers,
    "table": tables,
    "histogram": lambda d: iter(
        [Case(d, (Tile((64,), I32), mask), {"bins": 16}) for mask in (None, Tile((64,), I1))]
    ),
    "rank": lambda d: iter([Case(d, (Tile((64,), I32),), {"bins": bins}) for bins in (1, 16)]),
    "sort": sorts,
    "dot": dots,
}
# Operations without operands, and those whose cases are written by hand elsewhere.
CONSTANTS = {"const", "poison", "arange"}
BY_HAND = {
    "addptr", "make_tensor_descriptor", "descriptor_shape", "descriptor_stride", "descriptor_pointers",
    "im2col_pointers", "scatter",
}  # fmt: skip


def all_cases() -> Iterator[Case]:
    for defn in OPS:
        maker = MAKERS.get(defn.name, elementwise if defn.elementwise else None)
        if maker is not None:
            yield from maker(defn)


def counts(
    rng: np.random.Generator, array: np.ndarray[Any, Any], bits: int
) -> np.ndarray[Any, Any]:
    """Counts of shifts: half within the width, others anywhere, or beyond it by high bits alone."""
    inside = (array.astype(np.int64) % bits).astype(array.dtype)
    high = array >> bits // 2 << bits // 2 | inside
    choices = [inside, inside, array, high.astype(array.dtype)]
    return np.choose(rng.integers(0, len(choices), array.shape), choices)


def inputs(case: Case, seed: str) -> list[np.ndarray[Any, Any]]:
    """Random operands for all programs; indices and divisors are such as the language defines."""
    rng = np.random.default_rng(zlib.crc32(seed.encode()))
    arrays = []
    for position, ty in enumerate(t for t in case.operands if t is not None):
        count = PROGRAMS * math.prod(ty.shape)
        element = ty.element
        assert isinstance(element, Scalar)
        divides = case.defn.name in ("div", "rem") and position == 1
        domain = case.domain or case.defn.domain
        array = random_array(rng, element, count, domain, special=case.special, nonzero=divides)
        if case.integers and element.is_int():
            array = rng.integers(*case.integers, count, array.dtype)
        if case.defn.name in ("shl", "shr") and position == 1:
            array = counts(rng, array, element.bits)
        if case.defn.name == "gather" and position == 1:
            extent = case.operands[0].shape[case.attributes["axis"]]
            array = (array.astype(np.int64) % extent).astype(array.dtype)
        if case.defn.name in ("histogram", "rank") and position == 0:
            array = (array % case.attributes["bins"]).astype(array.dtype)
        arrays.append(array)
    return arrays


def reference(case: Case, arrays: Sequence[Any], results: Sequence[Type]) -> list[Any]:
    """The results of all programs, one program after the other."""
    outputs: list[list[Any]] = [[] for _ in results]
    attributes = case.defn.complete(case.attributes)
    types = [ty for ty in case.operands if ty is not None]
    extra = {region: lambda *xs: (semantics.maximum(*xs),) for region in case.defn.regions}
    for program in range(PROGRAMS):
        blocks = [
            array.reshape(PROGRAMS, *ty.shape)[program : program + 1]
            for array, ty in zip(arrays, types, strict=True)
        ]
        if len(blocks) < len(case.operands) and case.operands[-1] is None:
            blocks.append(None)
        assert case.defn.semantics is not None
        values = exactly(case, blocks, {**attributes, **extra})
        for output, value, ty in zip(
            outputs, values if isinstance(values, tuple) else (values,), results, strict=True
        ):
            output.append(np.broadcast_to(value, (1, *ty.shape)))
    return [np.concatenate(output).ravel() for output in outputs]


def exactly(case: Case, blocks: Sequence[Any], attributes: dict[str, Any]) -> Any:
    """Return an operation's exact results on one program's arrays.

    Where it may be off by units in the last place, these are counted from the result in f64,
    rounded: NumPy's own functions of f32 may be off by as much.
    """
    assert case.defn.semantics is not None
    floats = [block.dtype == np.float32 for block in blocks if block is not None]
    if not (case.defn.elementwise and case.defn.ulp and floats and all(floats)):
        return case.defn.semantics(*blocks, **attributes)
    wide = case.defn.semantics(*(block.astype(np.float64) for block in blocks), **attributes)
    return wide.astype(np.float32)


def grouped() -> dict[str, list[Case]]:
    groups: dict[str, list[Case]] = {}
    for case in all_cases():
        groups.setdefault(case.defn.name, []).append(case)
    return groups


CASES = grouped()
EXTREMES = ("min", "max", "clamp", "reduce", "scan")


@pytest.mark.parametrize("masked", [False, True], ids=["full", "masked"])
@pytest.mark.parametrize("name", CASES)
def test_pure(device: Device, name: str, masked: bool) -> None:
    cases = CASES[name]
    if masked:
        check_all(device, of_different_types(cases), 21)
    else:
        check_all(device, cases)


def of_different_types(cases: Iterable[Case]) -> Iterable[Case]:
    """One case of those with the same types: masks are on what is loaded and stored alone."""
    return {(case.operands, *case.results): case for case in cases}.values()


def check_all(device: Device, cases: Iterable[Case], limit: int | None = None) -> None:
    """Hold the backend against cases, some of them in one kernel: kernels take long to compile."""
    waiting = iter(cases)
    while batch := list(itertools.islice(waiting, BATCH)):
        check(device, batch, limit)


def check(device: Device, cases: Sequence[Case], limit: int | None) -> None:
    """One kernel for all `cases`; only the first `limit` elements of arrays, if given."""
    steps = [Step(c.defn, c.operands, c.attributes, c.regions()) for c in cases]
    arrays = [inputs(case, str(case)) for case in cases]
    outputs = [
        [placeholder(ty.element, PROGRAMS * math.prod(ty.shape)) for ty in step.results]
        for step in steps
    ]
    module = around_all(steps, masked=limit is not None)
    flat = [x for pair in zip(arrays, outputs, strict=True) for each in pair for x in each]
    with semantics.quiet():
        device.run(module, (PROGRAMS, 1, 1), [*flat, np.int32(limit or 0)])
    for case, step, given, found in zip(cases, steps, arrays, outputs, strict=True):
        judge(case, step.results, given, found, limit)


def judge(
    case: Case, results: Sequence[Type], arrays: Sequence[Any], outputs: Any, limit: int | None
) -> None:
    """Compare what a backend left in `outputs` with what the operation means."""
    if limit is not None:
        arrays = [np.where(np.arange(len(a)) < limit, a, np.zeros(1, a.dtype)) for a in arrays]
    with semantics.quiet():
        expected = reference(case, arrays, results)
    for output, wanted, ty in zip(outputs, expected, results, strict=True):
        if limit is not None:
            untouched = placeholder(ty.element, 1)
            wanted = np.where(np.arange(len(wanted)) < limit, wanted, untouched)
        if case.defn.name in EXTREMES and output.dtype.kind not in "biu":
            # Which of two zeros is the greater depends on the order in which they are combined.
            output, wanted = (np.where(x == 0, np.abs(x), x) for x in (output, wanted))
        if case.bound is None:
            assert_close(output, wanted, case.defn.ulp if case.ulp is None else case.ulp, str(case))
        else:
            with semantics.quiet():
                assert_within(output, wanted, case.bound(arrays, wanted), str(case))


@pytest.mark.parametrize("element", [I1, I8, U8, I32, I64, F16, BF16, F32, F64, *FP8])
def test_constants(device: Device, element: Scalar) -> None:
    number: Any = True if element.is_bool() else 3 if element.is_int() else -1.5
    tile = Tile((4, 8), element)
    module, _ = around(OPS["const"], (), {"value": number, "result": tile}, masked=False)
    output = placeholder(element, PROGRAMS * 32)
    device.run(module, (PROGRAMS, 1, 1), [output, np.int32(0)])
    assert_close(output, np.full(PROGRAMS * 32, number).astype(output.dtype), 0, str(element))


def test_poison_may_be_anything(device: Device) -> None:
    module, _ = around(
        OPS["poison"], (), {"result": with_element(Tile((8,), I32), F32)}, masked=False
    )
    device.run(module, (PROGRAMS, 1, 1), [placeholder(F32, PROGRAMS * 8), np.int32(0)])


@pytest.mark.parametrize(("start", "end"), [(0, 16), (-8, 8), (5, 6), (1000, 1128)])
def test_arange(device: Device, start: int, end: int) -> None:
    module, _ = around(OPS["arange"], (), {"start": start, "end": end}, masked=False)
    output = placeholder(I32, PROGRAMS * (end - start))
    device.run(module, (PROGRAMS, 1, 1), [output, np.int32(0)])
    np.testing.assert_array_equal(output, np.tile(np.arange(start, end), PROGRAMS))


def test_every_pure_operation_is_covered() -> None:
    pure = {d.name for d in OPS if d.semantics is not None and Level.TILE in d.levels}
    assert pure - set(CASES) - CONSTANTS - BY_HAND == set()
