"""Float instructions of PTX on NumPy's floats, by the PTX ISA 8.5."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tests.conformance.ptx_kernels import COUNT, Instruction

Array = np.ndarray[Any, Any]

F16, BF16, F32, F64 = np.float16, ml_dtypes.bfloat16, np.float32, np.float64
E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
DTYPES = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64}
INTEGERS = {
    f"{kind}{8 * size}": f"{kind.replace('s', 'i').replace('b', 'u')}{size}"
    for kind in "bus"
    for size in (2, 4, 8)
}
DTYPES |= {name: np.dtype(text) for name, text in INTEGERS.items()}


@dataclass(frozen=True)
class Case(Instruction):
    """An instruction and its function of arrays of the sources' types; `ulp` bounds its error.

    `numbers` are the operands of all sources, `packed` the type of those in a register of 32 bits.
    """

    function: Callable[..., Array]
    ulp: float = 0
    tail: str = ""
    numbers: tuple[float, ...] = ()
    packed: Any = None


SPECIAL = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1.5,
    2.5,
    -2.5,
    3.75,
    1e-3,
    100.7,
    -448.0,
    65504.0,
    1e-40,
    np.inf,
    -np.inf,
    np.nan,
)
FINITE = tuple(x for x in SPECIAL if np.isfinite(x))
POSITIVE = (0.1, 0.5, 1.0, 2.0, 3.3, 10.0, 1e4)
SMALL = (0.0, -0.0, 0.5, 1.0, -1.5, 2.0, -3.25, 5.0)
UNIT = (-0.5, 0.25, 0.75, 1.0, 1.5, -np.inf, np.inf, np.nan)


def through(dtype: Any, function: Callable[..., Array]) -> Callable[..., Array]:
    """A function in another type, rounded to the type of its operands."""
    return lambda *xs: function(*(x.astype(dtype) for x in xs)).astype(xs[0].dtype)


def flushed(x: Array) -> Array:
    return np.where(np.abs(x) < np.finfo(F32).tiny, np.copysign(F32(0), x), x)


def ftz(function: Callable[..., Array]) -> Callable[..., Array]:
    return lambda *xs: flushed(function(*map(flushed, xs)))


def saturated(x: Array) -> Array:
    return np.where(np.isnan(x), 0, np.clip(x, 0, 1)).astype(x.dtype)


def halves(dtype: Any, function: Callable[..., Array]) -> Callable[..., Array]:
    """A function of two narrow floats in each u32."""

    def apply(*xs: Array) -> Array:
        result = function(*(x.view(np.uint32).view(dtype) for x in xs))
        return np.ascontiguousarray(result.astype(dtype)).view(np.uint32)

    return apply


def packs(dtype: Any) -> Callable[[Array, Array], Array]:
    """The conversion of two floats to a pair whose first element is the lower half."""

    def apply(high: Array, low: Array) -> Array:
        pairs = np.stack([low, high], -1)
        if dtype in (E4M3, E5M2):
            largest = float(ml_dtypes.finfo(dtype).max)
            pairs = np.clip(pairs, -largest, largest)
        return np.ascontiguousarray(pairs.astype(dtype)).view(f"u{2 * np.dtype(dtype).itemsize}")[
            :, 0
        ]

    return apply


def unpacks(dtype: Any) -> Callable[[Array], Array]:
    """The conversion of pairs of 8-bit floats to f16."""
    return lambda x: np.ascontiguousarray(x.view(dtype).astype(F16)).view(np.uint32)


def to_integer(dtype: str, rounded: Callable[[Array], Array]) -> Callable[[Array], Array]:
    limits = np.iinfo(dtype)

    def apply(x: Array) -> Array:
        wide = x.dtype == F64 or limits.bits == 64
        whole = np.nan_to_num(rounded(x.astype(F64)), nan=0, posinf=1e300, neginf=-1e300)
        clamped = [min(max(int(n), limits.min), limits.max) for n in whole]
        highest = np.array(1 << (limits.bits - 1), f"u{limits.bits // 8}").view(dtype)
        return np.where(np.isnan(x) & wide, highest, np.array(clamped, dtype))

    return apply


def tf32(x: Array, *, away: bool) -> Array:
    bits = x.view(np.uint32).astype(np.uint64)
    half = 0x1000 if away else ((bits >> 13) & 1) + 0xFFF
    rounded = ((bits + half) & 0xFFFFE000).astype(np.uint32)
    return np.where(np.isfinite(x), rounded, x.view(np.uint32))


ADD, SUB, MUL = np.add, np.subtract, np.multiply


def fma(x: Array, y: Array, z: Array) -> Array:
    """Multiply and add exactly enough for the numbers of these tests."""
    return (x.astype(F64) * y.astype(F64) + z.astype(F64)).astype(x.dtype)


GROUPS: dict[str, list[Case]] = {
    "arithmetic": [
        *(
            Case(f"{name}.{ty}", ty, (ty, ty), function)
            for name, function in (("add", ADD), ("sub", SUB), ("mul.rn", MUL))
            for ty in ("f32", "f64")
        ),
        *(
            Case(f"{name}.f16", "f16", ("f16", "f16"), through(F32, function))
            for name, function in (("add", ADD), ("sub", SUB), ("mul", MUL))
        ),
        Case("add.ftz.f32", "f32", ("f32", "f32"), ftz(ADD)),
        Case("mul.sat.f32", "f32", ("f32", "f32"), lambda x, y: saturated(x * y), numbers=UNIT),
        Case("fma.rn.f32", "f32", ("f32",) * 3, fma, 1, numbers=SMALL),
        Case("fma.rn.f64", "f64", ("f64",) * 3, lambda x, y, z: x * y + z, numbers=SMALL),
        Case("fma.rn.f16", "f16", ("f16",) * 3, fma, 1, numbers=SMALL),
        Case("fma.rn.bf16", "bf16", ("bf16",) * 3, fma, 1, numbers=SMALL),
        Case("abs.f32", "f32", ("f32",), np.abs),
        Case("neg.f64", "f64", ("f64",), np.negative),
        Case("neg.bf16", "bf16", ("bf16",), np.negative),
        Case("div.rn.f32", "f32", ("f32", "f32"), np.divide),
        Case("div.full.f32", "f32", ("f32", "f32"), np.divide, 2, numbers=POSITIVE),
        Case("copysign.f32", "f32", ("f32", "f32"), lambda x, y: np.copysign(y, x)),
    ],
    "directed": [
        Case("add.rz.f32", "f32", ("f32", "f32"), np.add, 1, numbers=POSITIVE),
        Case("fma.rp.f32", "f32", ("f32",) * 3, fma, 1, numbers=POSITIVE),
        Case("mul.rm.f64", "f64", ("f64", "f64"), np.multiply, 1, numbers=POSITIVE),
        Case("rcp.rz.f32", "f32", ("f32",), np.reciprocal, 1, numbers=POSITIVE),
        Case("sqrt.rm.f32", "f32", ("f32",), np.sqrt, 1, numbers=POSITIVE),
        Case("cvt.rz.f16.f32", "f16", ("f32",), lambda x: x.astype(F16), 1, numbers=POSITIVE),
        Case("cvt.rz.f32.s64", "f32", ("s64",), lambda x: x.astype(F32), 1),
    ],
    "functions": [
        Case("ex2.approx.f32", "f32", ("f32",), through(F64, np.exp2), 3, numbers=SMALL),
        Case("ex2.approx.ftz.f32", "f32", ("f32",), through(F64, np.exp2), 3, numbers=SMALL),
        Case("rcp.approx.f32", "f32", ("f32",), np.reciprocal, 2, numbers=POSITIVE),
        Case("rcp.rn.f64", "f64", ("f64",), np.reciprocal, numbers=POSITIVE),
        Case("sqrt.approx.f32", "f32", ("f32",), np.sqrt, 3, numbers=POSITIVE),
        Case("sqrt.rn.f64", "f64", ("f64",), np.sqrt, numbers=POSITIVE),
        Case("rsqrt.approx.f32", "f32", ("f32",), lambda x: 1 / np.sqrt(x), 4, numbers=POSITIVE),
        Case("lg2.approx.f32", "f32", ("f32",), np.log2, 4, numbers=(0.1, 2.0, 3.3, 10.0, 1e4)),
        Case("sin.approx.f32", "f32", ("f32",), through(F64, np.sin), 40, numbers=(0.5, 1.0, -1.5)),
        Case("cos.approx.f32", "f32", ("f32",), through(F64, np.cos), 40, numbers=(0.5, 1.0, -0.7)),
        Case("tanh.approx.f32", "f32", ("f32",), through(F64, np.tanh), 2**14, numbers=SMALL),
        Case("tanh.approx.f16", "f16", ("f16",), through(F64, np.tanh), 4, numbers=SMALL),
        Case("ex2.approx.f16", "f16", ("f16",), through(F64, np.exp2), 4, numbers=SMALL),
    ],
    "extremes": [
        Case("min.f32", "f32", ("f32", "f32"), np.fmin, numbers=(*UNIT, 1e-3, -7.0)),
        Case("max.f64", "f64", ("f64", "f64"), np.fmax, numbers=(*UNIT, 1e-3, -7.0)),
        Case("min.NaN.f32", "f32", ("f32", "f32"), np.minimum, numbers=UNIT),
        Case("max.NaN.f16", "f16", ("f16", "f16"), np.maximum, numbers=UNIT),
        Case("max.bf16", "bf16", ("bf16", "bf16"), np.fmax, numbers=(0.5, 2.0, -3.0)),
    ],
    "packed": [
        *(
            Case(f"{name}.f16x2", "b32", ("b32", "b32"), halves(F16, through(F32, function)), packed=F16)
            for name, function in (("add", ADD), ("sub", SUB), ("mul", MUL))
        ),
        Case("fma.rn.f16x2", "b32", ("b32",) * 3, halves(F16, fma), numbers=SMALL, packed=F16),
        Case("fma.rn.bf16x2", "b32", ("b32",) * 3, halves(BF16, fma), numbers=SMALL, packed=BF16),
        Case("fma.rn.relu.f16x2", "b32", ("b32",) * 3, halves(F16, lambda *x: np.maximum(fma(*x), F16(0))), numbers=(0.5, -2.0, 3.0), packed=F16),
        Case("neg.f16x2", "b32", ("b32",), halves(F16, np.negative), numbers=FINITE, packed=F16),
        Case("abs.bf16x2", "b32", ("b32",), halves(BF16, np.abs), numbers=FINITE, packed=BF16),
        Case("max.f16x2", "b32", ("b32",) * 2, halves(F16, np.maximum), numbers=(0.5, -2.0, 3.0), packed=F16),
    ],
    "conversions": [
        Case("cvt.rn.f16.f32", "f16", ("f32",), lambda x: x.astype(F16)),
        Case("cvt.rn.bf16.f32", "bf16", ("f32",), lambda x: x.astype(BF16)),
        Case("cvt.f32.f16", "f32", ("f16",), lambda x: x.astype(F32)),
        Case("cvt.f32.bf16", "f32", ("bf16",), lambda x: x.astype(F32)),
        Case("cvt.rn.f32.f64", "f32", ("f64",), lambda x: x.astype(F32)),
        Case("cvt.f64.f32", "f64", ("f32",), lambda x: x.astype(F64)),
        Case("cvt.sat.f32.f32", "f32", ("f32",), saturated, numbers=UNIT),
        *(
            Case(f"cvt.{mode}.{to}.{source}", to, (source,), to_integer(INTEGERS[to], function))
            for mode, function in (("rni", np.rint), ("rzi", np.trunc), ("rmi", np.floor), ("rpi", np.ceil))
            for to in ("s32", "u32", "s64")
            for source in ("f32", "f64", "f16")
        ),
        Case("cvt.rzi.s16.f32", "s16", ("f32",), to_integer("i2", np.trunc)),
        *(
            Case(f"cvt.{mode}.{ty}.{ty}", ty, (ty,), function)
            for mode, function in (("rni", np.rint), ("rzi", np.trunc), ("rmi", np.floor), ("rpi", np.ceil))
            for ty in ("f32", "f64")
        ),
        *(
            Case(f"cvt.rn.{to}.{source}", to, (source,), lambda x, to=to: x.astype(DTYPES[to]))
            for to in ("f32", "f64")
            for source in ("s32", "u32", "s64", "u64", "s16")
        ),
        Case("cvt.rna.tf32.f32", "b32", ("f32",), lambda x: tf32(x, away=True), numbers=FINITE),
        Case("cvt.rn.tf32.f32", "b32", ("f32",), lambda x: tf32(x, away=False), numbers=FINITE),
    ],
    "packed conversions": [
        Case("cvt.rn.f16x2.f32", "b32", ("f32", "f32"), packs(F16), numbers=FINITE),
        Case("cvt.rn.bf16x2.f32", "b32", ("f32", "f32"), packs(BF16), numbers=FINITE),
        Case("cvt.rn.relu.f16x2.f32", "b32", ("f32", "f32"), lambda x, y: packs(F16)(np.maximum(x, 0), np.maximum(y, 0)), numbers=(1.0, -2.0, 3.5)),
        Case("cvt.rn.satfinite.e4m3x2.f32", "b16", ("f32", "f32"), packs(E4M3), numbers=FINITE),
        Case("cvt.rn.satfinite.e5m2x2.f32", "b16", ("f32", "f32"), packs(E5M2), numbers=FINITE),
        Case("cvt.rn.f16x2.e4m3x2", "b32", ("b16",), unpacks(E4M3), packed=E4M3, numbers=FINITE),
        Case("cvt.rn.f16x2.e5m2x2", "b32", ("b16",), unpacks(E5M2), packed=E5M2, numbers=FINITE),
    ],
    "comparisons": [
        *(
            Case(f"set.{name}.u32.f32", "u32", ("f32", "f32"), lambda x, y, c=compare: np.where(c(x, y), -1, 0).astype(np.int32).view(np.uint32))
            for name, compare in (
                ("eq", np.equal), ("lt", np.less), ("ge", np.greater_equal),
                ("ne", lambda x, y: (x < y) | (x > y)),
                ("neu", np.not_equal), ("equ", lambda x, y: ~((x < y) | (x > y))),
                ("ltu", lambda x, y: ~(x >= y)), ("geu", lambda x, y: ~(x < y)),
                ("num", lambda x, y: ~(np.isnan(x) | np.isnan(y))),
                ("nan", lambda x, y: np.isnan(x) | np.isnan(y)),
            )
        ),
        Case("set.gt.f32.s32", "f32", ("s32", "s32"), lambda x, y: (x > y).astype(F32)),
    ],
}  # fmt: skip


def arrays(cases: Sequence[Case]) -> tuple[list[Array], list[Array], list[Array]]:
    """The operands of the kernel, empty results, and the expected results."""
    inputs, results, expected = [], [], []
    for index, case in enumerate(cases):
        operands = [_operand(case, at, name, index) for at, name in enumerate(case.sources)]
        inputs += operands
        with np.errstate(all="ignore"):
            right = case.function(*operands)
        assert right.shape == (COUNT,), case.opcode
        results.append(np.zeros(COUNT, right.dtype))
        expected.append(right)
    return inputs, results, expected


def _operand(case: Case, at: int, name: str, seed: int) -> Array:
    generator = np.random.default_rng(1000 * seed + at)
    if name in INTEGERS and case.packed is None:
        return np.frombuffer(generator.bytes(8 * COUNT), DTYPES[name])[:COUNT].copy()
    chosen = generator.choice(np.array(case.numbers or SPECIAL), 4 * COUNT)
    if case.packed is None:
        with np.errstate(all="ignore"):
            return chosen[:COUNT].astype(DTYPES[name])
    with np.errstate(all="ignore"):
        narrow = chosen.astype(case.packed)
    whole: Array = narrow.view(DTYPES[name])[:COUNT].copy()
    return whole
