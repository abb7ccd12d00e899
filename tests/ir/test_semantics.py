"""Reference semantics of pure operations against Python integers, rationals and plain loops."""

from __future__ import annotations

import enum
import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sampling import examples
from tests.ulp import ulp_distance
from tile.errors import ArgumentTypeError, TypeRuleError
from tile.ir import semantics, types
from tile.ir.declare import OPS
from tile.ir.op_definition import OpDef
from tile.ir.ops import math as math_ops
from tile.ir.ops import shape as shape_ops
from tile.ir.semantics import Array, numpy_dtype
from tile.ir.semantics.libdevice.piecewise import pi
from tile.ir.types import Pointer, Scalar

check = examples(25)


@pytest.fixture(scope="module", autouse=True)
def silence() -> Iterator[None]:
    """Warnings are errors in these tests; `quiet` is what callers hold."""
    with semantics.quiet():
        yield


# Exact references


class Format(NamedTuple):
    """A binary float: significand bits, least normal exponent, largest value, any infinity."""

    precision: int
    least: int
    largest: float
    infinite: bool = True


FORMATS = {
    "f8e4m3": Format(4, -6, 448.0, infinite=False),
    "f8e5m2": Format(3, -14, 57344.0, infinite=False),  # casts saturate
    "f16": Format(11, -14, 65504.0),
    "bf16": Format(8, -126, float(2**128 - 2**120)),
    "f32": Format(24, -126, float(2**128 - 2**104)),
    "f64": Format(53, -1022, math.ldexp(2 - 2**-52, 1023)),
}


def rounded(value: Fraction, ty: Scalar, towards_zero: bool = False) -> float:
    """Return the exact `value` in format `ty`, rounded once."""
    form = FORMATS[ty.ir_name]
    sign, size = (-1.0 if value < 0 else 1.0), abs(value)
    if size == 0:
        return 0.0
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > size
    quantum = Fraction(2) ** (max(exponent, form.least) - form.precision + 1)
    steps = size // quantum if towards_zero else round(size / quantum)
    if steps * quantum > Fraction(form.largest):
        return sign * (form.largest if towards_zero or not form.infinite else math.inf)
    return sign * float(steps * quantum)


def saturated(value: float, ty: Scalar, towards_zero: bool = False) -> float:
    """Return the float `value` cast to `ty`."""
    if math.isnan(value) or value == 0:
        return value
    if math.isinf(value):
        form = FORMATS[ty.ir_name]
        return value if form.infinite else math.copysign(form.largest, value)
    return rounded(Fraction(value), ty, towards_zero)


def wrapped(value: int, ty: Scalar) -> int:
    """Return the integer that `ty` holds after overflow."""
    value &= (1 << ty.bits) - 1
    return value - (1 << ty.bits) if value > ty.max_value else value


def array(values: Any, ty: Scalar) -> Array:
    """Return a read-only array, since no operation may write to its operands."""
    made = np.array(values, dtype=numpy_dtype(ty))
    made.flags.writeable = False
    return made


def from_bits(bits: Any, ty: Scalar) -> Array:
    made = np.array(bits, dtype=f"u{ty.itemsize}").view(numpy_dtype(ty))
    made.flags.writeable = False
    return made


def bits_of(x: Array) -> Array:
    return x.view(f"u{x.dtype.itemsize}")


def assert_same(got: Array, want: Array, *operands: Array) -> None:
    """Assert equal dtypes, shapes and bits; any NaN equals any other."""
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    same = bits_of(got) == bits_of(want)
    if scalar(got).is_floating():
        same = same | (np.isnan(got) & np.isnan(want))
    wrong = np.nonzero(~same)[0][:5]
    if wrong.size:
        inputs = [np.broadcast_to(x, got.shape)[wrong].tolist() for x in operands]
        pytest.fail(f"{inputs} gave {got[wrong].tolist()}, not {want[wrong].tolist()}")


def scalar(x: Array) -> Scalar:
    return semantics.scalar_of(x.dtype)


@functools.cache
def every(ty: Scalar) -> Array:
    """All values of a type of 8 or 16 bits."""
    return from_bits(np.arange(1 << ty.bits), ty)


def special_bits(ty: Scalar) -> list[int]:
    """Return zeros, ones, extremes, infinities, NaNs, subnormals and adjacent values."""
    top = 1 << (ty.bits - 1)
    if not ty.is_floating():
        edges = [
            0,
            1,
            2,
            3,
            7,
            ty.bits - 1,
            ty.bits,
            top - 1,
            top,
            top + 1,
            2 * top - 1,
            2 * top - 2,
        ]
        return [edge % (2 * top) for edge in edges]
    one = int(bits_of(array(1.0, ty)))
    fraction = 1 << (FORMATS[ty.ir_name].precision - 1)
    largest = int(bits_of(array(FORMATS[ty.ir_name].largest, ty)))
    sizes = [0, 1, 2, fraction - 1, fraction, fraction + 1, one - 1, one, one + 1]
    sizes += [one + fraction, largest - 1, largest, largest + 1, largest + 2, top - 1]
    return [size + sign for size in sizes if size < top for sign in (0, top)]


def elements(ty: Scalar) -> st.SearchStrategy[int]:
    """Return a strategy of bit patterns of `ty` that prefers special ones."""
    return st.sampled_from(special_bits(ty)) | st.integers(0, (1 << ty.bits) - 1)


@st.composite
def operands(draw: st.DrawFn, ty: Scalar, count: int = 2) -> list[Array]:
    """Arrays of one length; some have elements that are near those of the first one."""
    size = draw(st.integers(1, 6))
    first = draw(st.lists(elements(ty), min_size=size, max_size=size))
    columns = [first]
    for _ in range(count - 1):
        shifts = draw(st.lists(st.integers(-3, 3), min_size=size, max_size=size))
        near = [(bits + shift) % (1 << ty.bits) for bits, shift in zip(first, shifts, strict=True)]
        columns.append([draw(elements(ty) | st.just(bits)) for bits in near])
    return [from_bits(column, ty) for column in columns]


def ints(x: Array) -> list[int]:
    return [int(v) for v in x.tolist()]


def by_name(cases: Sequence[Scalar]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("ty", cases, ids=str)


# Dtypes and constants


def test_every_scalar_has_a_dtype_of_its_own() -> None:
    dtypes = [numpy_dtype(ty) for ty in types.ALL]
    assert len(set(dtypes)) == len(types.ALL)
    assert [semantics.scalar_of(dtype) for dtype in dtypes] == list(types.ALL)
    assert all(numpy_dtype(ty).itemsize == ty.itemsize for ty in types.ALL)
    assert numpy_dtype(Pointer(Pointer(types.F32))) == np.int64


@pytest.mark.parametrize("dtype", [object, np.complex64, "S4", "datetime64[s]", np.longdouble])
def test_a_dtype_without_a_type_is_refused(dtype: npt.DTypeLike) -> None:
    with pytest.raises(ArgumentTypeError, match=r"has no type here; supported are bool, .*float64"):
        semantics.scalar_of(dtype)


def test_foreign_byte_order_is_named() -> None:
    with pytest.raises(ArgumentTypeError, match="byte order is not this machine's"):
        semantics.scalar_of(np.dtype(np.float32).newbyteorder())


@by_name((types.I1, *types.INTEGERS))
def test_integer_constants_are_checked(ty: Scalar) -> None:
    for value in (ty.min_value, ty.max_value, 0, np.int8(1)):
        made = semantics.constant(value, ty)
        assert (made.dtype, made.shape, int(made)) == (numpy_dtype(ty), (), int(value))
    for value in (ty.min_value - 1, ty.max_value + 1):
        with pytest.raises(TypeRuleError, match=f"{value} does not fit {ty}, which holds"):
            semantics.constant(value, ty)
    for fraction in (0.0, 1.5, np.float32(1)):
        with pytest.raises(TypeRuleError, match=f"a constant of type {ty} is an integer, not"):
            semantics.constant(fraction, ty)


def test_constants_of_other_kinds() -> None:
    assert semantics.constant(1 << 40, Pointer(types.F32)).dtype == np.int64
    with pytest.raises(TypeRuleError, match="does not fit"):
        semantics.constant(1 << 63, Pointer(types.F32))
    assert semantics.constant(np.True_, types.I1).tolist() is True
    for value in ("1", None, 1j, np.complex64(1)):
        with pytest.raises(TypeRuleError, match="a constant is a number, not"):
            semantics.constant(value, types.F32)


@by_name(types.FLOATS + types.FP8)
def test_float_constants_are_rounded_once(ty: Scalar) -> None:
    @check
    @given(st.floats(width=64) | st.integers(-(1 << 64), 1 << 64))
    def run(value: float | int) -> None:
        made = semantics.constant(value, ty)
        is_int = isinstance(value, int) and value != 0
        if is_int and not -(1 << 63) <= value < 1 << 64:
            return  # may be rounded through f64
        want = rounded(Fraction(value), ty) if is_int else saturated(float(value), ty)
        assert_same(made[None], array([want], ty))

    run()
    assert not np.isfinite(semantics.constant(10**400, types.F64))


# Integers

COUNTS = {"shl", "shr"}


def truncated(x: int, y: int) -> int:
    return 0 if y == 0 else (abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1)


def shifted(x: int, count: int, ty: Scalar, left: bool) -> int:
    count = count if 0 <= count < ty.bits else ty.bits
    return x << count if left else x >> count


INTEGER_OPS: dict[str, tuple[Callable[..., Array], Callable[[int, int, Scalar], int]]] = {
    "add": (semantics.add, lambda x, y, ty: x + y),
    "sub": (semantics.sub, lambda x, y, ty: x - y),
    "mul": (semantics.mul, lambda x, y, ty: x * y),
    "div": (semantics.div, lambda x, y, ty: truncated(x, y)),
    "rem": (semantics.rem, lambda x, y, ty: x - y * truncated(x, y) if y else 0),
    "and": (semantics.and_, lambda x, y, ty: x & y),
    "or": (semantics.or_, lambda x, y, ty: x | y),
    "xor": (semantics.xor, lambda x, y, ty: x ^ y),
    "shl": (semantics.shl, lambda x, y, ty: shifted(x, y, ty, left=True)),
    "shr": (semantics.shr, lambda x, y, ty: shifted(x, y, ty, left=False)),
    "minimum": (semantics.minimum, lambda x, y, ty: min(x, y)),
    "maximum": (semantics.maximum, lambda x, y, ty: max(x, y)),
    "mulhi": (semantics.mulhi, lambda x, y, ty: x * y >> ty.bits),
    "neg": (lambda x, y: semantics.neg(x), lambda x, y, ty: -x),
    "abs": (lambda x, y: semantics.absolute(x), lambda x, y, ty: abs(x)),
    "not": (lambda x, y: semantics.not_(x), lambda x, y, ty: ~x),
}


@by_name(types.INTEGERS)
def test_integer_operations_agree_with_python(ty: Scalar) -> None:
    @check
    @given(operands(ty))
    def run(pair: list[Array]) -> None:
        x, y = pair
        for apply, reference in INTEGER_OPS.values():
            want = [wrapped(reference(a, b, ty), ty) for a, b in zip(ints(x), ints(y), strict=True)]
            assert_same(apply(x, y), array(want, ty), x, y)

    run()


@by_name(types.INTEGERS)
def test_integer_extremes(ty: Scalar) -> None:
    """All pairs of edge values, at once and with one for all, for which NumPy has other loops."""
    edges = from_bits(special_bits(ty), ty)
    x, y = np.repeat(edges, edges.size), np.tile(edges, edges.size)
    for apply, reference in INTEGER_OPS.values():
        want = [wrapped(reference(a, b, ty), ty) for a, b in zip(ints(x), ints(y), strict=True)]
        table = array(want, ty)
        assert_same(apply(x, y), table, x, y)
        for index in range(edges.size):
            scalar_y = apply(np.repeat(edges, 8), edges[index : index + 1])
            assert_same(scalar_y, np.repeat(table[index :: edges.size], 8))


def test_booleans_count_modulo_two() -> None:
    x, y = array([0, 0, 1, 1], types.I1), array([0, 1, 0, 1], types.I1)
    tables: list[tuple[Callable[..., Array], list[int]]] = [
        (semantics.add, [0, 1, 1, 0]),
        (semantics.sub, [0, 1, 1, 0]),
        (semantics.mul, [0, 0, 0, 1]),
        (semantics.and_, [0, 0, 0, 1]),
        (semantics.or_, [0, 1, 1, 1]),
        (semantics.xor, [0, 1, 1, 0]),
        (semantics.minimum, [0, 0, 0, 1]),
        (semantics.maximum, [0, 1, 1, 1]),
    ]
    for apply, want in tables:
        assert_same(apply(x, y), array(want, types.I1))
    assert_same(semantics.not_(x), array([1, 1, 0, 0], types.I1))
    assert_same(semantics.neg(x), x)
    assert_same(semantics.absolute(x), x)


# Floats


def exactly(apply: Callable[..., Any], ty: Scalar, *values: float) -> float:
    """`apply` with one rounding: on rationals where these have the answer, else on f64."""
    plain = float(apply(*(np.float64(v) for v in values)))
    if not all(map(math.isfinite, values)):
        return plain
    try:
        exact = apply(*(Fraction(v) for v in values))
    except ZeroDivisionError:
        return plain
    return rounded(exact, ty) if exact else plain


def remainder(x: Any, y: Any) -> Any:
    return math.fmod(x, y) if isinstance(y, float) and y else x - y * int(x / y) if y else math.nan


FLOAT_OPS: dict[str, tuple[Callable[..., Array], Callable[..., Any]]] = {
    "add": (semantics.add, operator.add),
    "sub": (semantics.sub, operator.sub),
    "mul": (semantics.mul, operator.mul),
    "div": (semantics.div, operator.truediv),
}


@by_name(types.FLOATS)
def test_float_arithmetic_rounds_once(ty: Scalar) -> None:
    @check
    @given(operands(ty))
    def run(pair: list[Array]) -> None:
        x, y = pair
        columns = list(zip(x.astype(float).tolist(), y.astype(float).tolist(), strict=True))
        for apply, reference in FLOAT_OPS.values():
            want = [exactly(reference, ty, a, b) for a, b in columns]
            assert_same(apply(x, y), array(want, ty), x, y)
        finite = [(a, b) if b and math.isfinite(a) else (math.nan, 1.0) for a, b in columns]
        assert_same(semantics.rem(x, y), array([math.fmod(a, b) for a, b in finite], ty), x, y)

    run()


@by_name((types.F16, types.BF16))
def test_narrow_arithmetic_rounds_once_everywhere(ty: Scalar) -> None:
    """Against f64, which is wide enough for these; arrays long enough for the conversions of whole arrays."""
    x = every(ty)
    rng = np.random.default_rng(1)
    for y in (np.flip(x), rng.permutation(x), from_bits(bits_of(x) ^ 1, ty)):
        wide_x, wide_y = x.astype(np.float64), y.astype(np.float64)
        for apply, reference in FLOAT_OPS.values():
            want = semantics.cast(reference(wide_x, wide_y), ty)
            assert_same(apply(x, y), want, x, y)


@by_name((types.F16, types.BF16))
def test_signs_of_narrow_floats(ty: Scalar) -> None:
    x = every(ty)
    top = 1 << (ty.bits - 1)
    assert (bits_of(semantics.neg(x)) == bits_of(x) ^ top).all()
    assert (bits_of(semantics.absolute(x)) == bits_of(x) & (top - 1)).all()


FMA_CASES = {
    # The product is half-way between two floats, and a tiny third operand decides.
    "f32": [(1 + 2**-12, 1 + 2**-12, s * 2.0**-60) for s in (-1, 0, 1)]
    + [(1 + 2**-23, 1.0, 2.0**-24 * s) for s in (-1, 1)],
    "bf16": [(1 + 2**-4, 1 + 2**-4, s * 2.0**-90) for s in (-1, 0, 1)]
    + [(1.0078125, 0.5, s * 2.0**-60) for s in (-1, 1)],
    "f16": [(1 + 2**-5, 1 + 2**-6, s * 2.0**-24) for s in (-1, 0, 1)] + [(255.0, 257.0, -32.0)],
    "f64": [(1 + 2**-27, 1 + 2**-26, s * 2.0**-200) for s in (-1, 0, 1)]
    + [
        (1e308, 10.0, -1e308),
        (1e308, -10.0, math.inf),
        (1e200, 1e200, -1e300),
        (1e-200, 1e-200, 5e-324),
        (1e-160, 1e-160, -1e-320),
        (2.0**-1074, 0.5, 2.0**-1074),
        (2.0**-1074, 2.0**1000, -(2.0**-74)),
        (1.7e308, -0.3, 1.7e308),
        (3.0, 1 / 3, -1.0),
        (1e-300, -1e-300, 0.0),
    ],
}


def test_fma_of_infinities() -> None:
    """The sum is infinite even if the product, rounded by itself, overflows to the other one."""
    x, y, z = (
        array(column, types.F64) for column in ([2.0, math.inf], [1.7e308, 1.0], [-math.inf] * 2)
    )
    with semantics.quiet():
        np.testing.assert_array_equal(semantics.fma(x, y, z), [-math.inf, math.nan])


def at_the_ends(rng: np.random.Generator, count: int, digits: int) -> Iterator[list[Array]]:
    """Yield operands of fma whose product or sum is near the ends of the range of f64."""

    def numbers(low: int, high: int) -> Array:
        magnitude = rng.integers(1 << (digits - 1), 1 << digits, count).astype(np.float64)
        sign = rng.choice([-1, 1], count)
        return np.ldexp(magnitude * sign, rng.integers(low, high, count) - digits)

    tiny, large = (-560, -480), (500, 513)
    for one, other, added in (
        (tiny, tiny, (-1073, -1000)),
        (tiny, (-545, -530), (-1073, -1060)),
        (large, large, (1000, 1024)),
        (large, large, (-1070, -900)),
        ((-1070, 1024), (-1070, 1024), (-1070, 1024)),
    ):
        x, y = numbers(*one), numbers(*other)
        with semantics.quiet():
            yield from ([x, y, z] for z in (numbers(*added), -(x * y), np.zeros(count)))


@pytest.mark.parametrize("digits", [4, 53])
def test_fma_rounds_once_at_the_ends_of_the_range(digits: int) -> None:
    """With few digits, many results are halfway between two subnormal numbers."""
    for operands_ in at_the_ends(np.random.default_rng(1), 1000, digits):
        finite = np.isfinite(operands_).all(axis=0)
        x, y, z = (operand[finite] for operand in operands_)
        want = []
        for a, b, c in zip(x.tolist(), y.tolist(), z.tolist(), strict=True):
            exact = Fraction(a) * Fraction(b) + Fraction(c)
            try:
                want.append(float(exact) if exact else 0.0)
            except OverflowError:
                want.append(math.inf if exact > 0 else -math.inf)
            if exact < 0 and want[-1] == 0:
                want[-1] = -0.0
        with semantics.quiet():
            assert_same(semantics.fma(x, y, z), np.array(want), x, y, z)


@by_name(types.FLOATS)
def test_fma_rounds_once(ty: Scalar) -> None:
    def reference(a: Any, b: Any, c: Any) -> Any:
        if isinstance(c, float) and math.isinf(c) and math.isfinite(a) and math.isfinite(b):
            return c
        return a * b + c

    def agree(x: Array, y: Array, z: Array) -> None:
        columns = zip(*(v.astype(float).tolist() for v in (x, y, z)), strict=True)
        want = [exactly(reference, ty, *column) for column in columns]
        assert_same(semantics.fma(x, y, z), array(want, ty), x, y, z)

    @settings(max_examples=150, deadline=None)
    @given(operands(ty, 3))
    def run(triple: list[Array]) -> None:
        agree(*triple)
        x, y, _ = triple
        agree(x, y, semantics.neg(semantics.mul(x, y)))  # cancels all but the product's error

    run()
    agree(*(array(column, ty) for column in zip(*FMA_CASES[ty.ir_name], strict=True)))
    assert semantics.fma(*(x[0] for x in (array([2], ty),) * 3)) == 6


@by_name(types.FLOATS)
@pytest.mark.parametrize("propagate", [False, True])
def test_extrema_and_nan(ty: Scalar, propagate: bool) -> None:
    @check
    @given(operands(ty))
    def run(pair: list[Array]) -> None:
        x, y = pair
        for apply, choose in ((semantics.minimum, min), (semantics.maximum, max)):
            got = apply(x, y, propagate_nan=propagate)
            assert got.dtype == x.dtype
            for a, b, c in zip(*(v.astype(float).tolist() for v in (x, y, got)), strict=True):
                numbers = [v for v in (a, b) if not math.isnan(v)]
                if len(numbers) == 2 or (numbers and not propagate):
                    assert c == choose(numbers)
                else:
                    assert math.isnan(c)

    run()


@by_name(types.FLOATS)
def test_clamp(ty: Scalar) -> None:
    nan = math.nan
    x, lo, hi = array([-5, 0.5, 7, nan], ty), array([-1], ty), array([2], ty)
    for propagate, last in ((False, -1), (True, nan)):
        clamped = semantics.minimum(semantics.maximum(x, lo, propagate), hi, propagate)
        assert_same(clamped, array([-1, 0.5, 2, last], ty))


COMPARISONS = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


@by_name(types.ALL[1:])
def test_comparisons(ty: Scalar) -> None:
    convert = float if ty.is_floating() else int

    @check
    @given(operands(ty))
    def run(pair: list[Array]) -> None:
        x, y = pair
        for kind, compare in COMPARISONS.items():
            want = [compare(convert(a), convert(b)) for a, b in zip(x, y, strict=True)]
            assert_same(semantics.cmp(x, y, kind), array(want, types.I1), x, y)

    run()


@by_name(types.ALL)
def test_select_takes_bits_unchanged(ty: Scalar) -> None:
    """Short arrays and long ones are done in different ways."""
    rng = np.random.default_rng(2)
    for programs, size in ((2, 8), (3, 8192)):
        bits = rng.integers(
            0, 2 if ty.is_bool() else 256, (2, programs, size, ty.itemsize), np.uint8
        )
        x, y = (pair.view(numpy_dtype(ty))[..., 0] for pair in bits)
        condition = rng.integers(0, 2, (programs, size)).astype(bool)
        for a, b, c in itertools.product((x, x[:1, :1]), (y, y[:, :1]), (condition, condition[:1])):
            got = semantics.select(c, a, b)
            want = np.where(c, bits_of(a), bits_of(b))
            assert got.dtype == x.dtype
            assert (bits_of(got) == want).all()
            assert got.shape == want.shape


# Functions

FUNCTIONS = {defn.name: defn for defn in OPS if defn.accepts == math_ops.REALS}
REFERENCES: dict[str, Callable[[float], float]] = {  # where Python has no function of that name
    "sqrt_rn": math.sqrt,
    "rsqrt": lambda v: 1 / math.sqrt(v),
}
EXACT = {name for name, defn in FUNCTIONS.items() if defn.ulp is None} | {"sqrt"}


def function(name: str) -> Callable[[Array], Array]:
    """The reference semantics of a function of one real number."""
    apply = FUNCTIONS[name].semantics
    assert apply is not None
    return apply


@by_name(types.FLOATS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_accurate(name: str, ty: Scalar) -> None:
    reference = REFERENCES.get(name) or getattr(math, name)
    low, high = FUNCTIONS[name].domain or (-1e4, 1e4)
    rng = np.random.default_rng(3)
    points = np.concatenate(
        [rng.uniform(low, high, 2000), np.exp(rng.uniform(-20, math.log(high), 1000)) + max(low, 0)]
    )
    x = semantics.cast(np.clip(points, low, high), ty)
    x = x[(x.astype(float) >= low) & (x.astype(float) <= high)]
    got = function(name)(x)
    want = semantics.cast(np.array([reference(v) for v in x.astype(float).tolist()]), ty)
    assert got.dtype == x.dtype
    distance = ulp_distance(got, want)
    limit = 0 if name in EXACT else 1 if ty.bits == 16 or (name == "erf" and ty.bits == 32) else 4
    worst = int(np.argmax(distance))
    assert distance[worst] <= limit, (name, x[worst], got[worst], want[worst])


@by_name(types.FLOATS)
def test_functions_at_the_ends(ty: Scalar) -> None:
    inf, nan = math.inf, math.nan
    x = array([inf, -inf, nan, 0.0, -0.0], ty)
    tables = {
        "exp": [inf, 0, nan, 1, 1],
        "exp2": [inf, 0, nan, 1, 1],
        "log": [inf, nan, nan, -inf, -inf],
        "log2": [inf, nan, nan, -inf, -inf],
        "sin": [nan, nan, nan, 0.0, -0.0],
        "cos": [nan, nan, nan, 1, 1],
        "tanh": [1, -1, nan, 0.0, -0.0],
        "sqrt": [inf, nan, nan, 0.0, -0.0],
        "rsqrt": [0, nan, nan, inf, -inf],
        "erf": [1, -1, nan, 0.0, -0.0],
        "floor": [inf, -inf, nan, 0.0, -0.0],
        "ceil": [inf, -inf, nan, 0.0, -0.0],
    }
    for name, want in tables.items():
        assert_same(function(name)(x), array(want, ty), x)


def exact_erf(x: float) -> Decimal:
    """Return erf by its series."""
    with localcontext(prec=60):
        number = Decimal(x)
        term = total = number
        n = 0
        while abs(term) > Decimal(10) ** -50 * abs(number):
            n += 1
            term *= -number * number / n
            total += term / (2 * n + 1)
        return 2 * total / pi().sqrt()


def test_erf_of_f64_is_within_one_ulp() -> None:
    edges = np.array([0.75, 2.0, 4.0, 5.9])
    around = [edges, np.nextafter(edges, 0), np.nextafter(edges, 9), 10.0 ** np.arange(-20.0, 0)]
    random = np.random.default_rng(0)
    x = np.concatenate([*around, random.uniform(0, 6, 700), random.uniform(0, 1.2, 700)])
    y = function("erf")(x)
    ulps = [
        abs(Decimal(float(result)) - exact_erf(float(value))) / Decimal(float(np.spacing(result)))
        for value, result in zip(x, y, strict=True)
    ]
    assert max(ulps) < 0.95
    far = np.array([6.0, 7.0, 1e300, math.inf, math.nan])
    assert_same(function("erf")(far), np.array([1.0, 1.0, 1.0, 1.0, math.nan]), far)
    assert function("erf")(np.array(0.5)).shape == ()


def test_erf_of_f32_is_almost_correctly_rounded() -> None:
    rng = np.random.default_rng(12)
    x = np.concatenate([rng.uniform(0, 4.5, 20_000), np.exp(rng.uniform(-80, 0, 2000))])
    x = x.astype(np.float32)
    exact = np.array([math.erf(value) for value in x.astype(float).tolist()])
    error = np.abs(function("erf")(x).astype(float) - exact) / np.spacing(exact.astype(np.float32))
    assert error.max() < 0.56


@by_name((types.F32, types.F64))
def test_erf_is_odd_monotone_and_the_same_in_blocks(ty: Scalar) -> None:
    x = semantics.cast(np.linspace(-7, 7, 40_000), ty)
    y = function("erf")(x)
    assert_same(function("erf")(-x), -y, x)
    assert (np.diff(y.astype(float)) >= -(2.0 ** (1 - FORMATS[ty.ir_name].precision))).all()
    pieces = [function("erf")(piece) for piece in np.array_split(x, 7)]
    assert_same(np.concatenate(pieces), y, x)
    grid = x.reshape(4, 100, 100).transpose(2, 0, 1)
    assert_same(function("erf")(grid), y.reshape(4, 100, 100).transpose(2, 0, 1))


# Casts


def cast_reference(value: Any, source: Scalar, to: Scalar) -> Any:
    """One element, converted by the rules that `cast` states."""
    if source == to:
        return value
    if to.is_bool():
        return value != 0
    if not source.is_floating():
        return rounded(Fraction(int(value)), to) if to.is_floating() else wrapped(int(value), to)
    if to.is_floating():
        return saturated(value, to)
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return to.max_value if value > 0 else to.min_value
    return min(max(math.trunc(value), to.min_value), to.max_value)


def python_values(x: Array) -> list[Any]:
    values: list[Any] = (x.astype(float) if scalar(x).is_floating() else x).tolist()
    return values


@by_name(types.ALL)
def test_casts_between_all_pairs(ty: Scalar) -> None:
    bits = st.integers(0, 1) if ty.is_bool() else elements(ty)

    @check
    @given(st.lists(bits, min_size=1, max_size=8))
    def run(column: list[int]) -> None:
        x = from_bits(column, ty)
        for to in types.ALL:
            want = [cast_reference(value, ty, to) for value in python_values(x)]
            assert_same(semantics.cast(x, to), array(want, to), x)

    run()


@by_name((*types.FP8, types.F16, types.BF16))
def test_narrow_floats_widen_exactly_and_come_back(ty: Scalar) -> None:
    x = every(ty)
    wide = semantics.cast(x, types.F32)
    finite = np.isfinite(wide)
    assert wide.dtype == np.float32
    assert (wide[finite].astype(float) == x[finite].astype(float)).all()
    assert (np.isnan(wide) == np.isnan(x)).all()
    back = array([saturated(value, ty) for value in x.astype(float).tolist()], ty)
    assert_same(semantics.cast(wide, ty), back, x)
    assert_same(semantics.cast(semantics.cast(x, types.F64), ty), back, x)


@by_name((*types.FP8, types.F16, types.BF16))
def test_a_lone_special_value_widens_in_a_long_array(ty: Scalar) -> None:
    for bits in (*special_bits(ty), *bits_of(array([math.inf, -math.inf, math.nan], ty)).tolist()):
        x = array(np.ones((4, 4096)), ty).copy()
        bits_of(x)[2, 7] = bits
        want = np.ones(x.shape, np.float32)
        want[2, 7] = float(x[2, 7])
        assert_same(semantics.widen(x), want)
        assert_same(semantics.widen(x[:, ::2]), want[:, ::2])
        assert_same(semantics.widen(x[:, 1::2]), want[:, 1::2])


@by_name((types.F16, types.BF16))
@pytest.mark.parametrize("to", [*types.FP8, types.F16, types.BF16], ids=str)
def test_casts_of_all_values_of_16_bits(ty: Scalar, to: Scalar) -> None:
    x = every(ty)[::3]
    want = array([saturated(value, to) for value in x.astype(float).tolist()], to)
    assert_same(semantics.cast(x, to), want, x)


def midpoints(ty: Scalar, step: int) -> list[Fraction]:
    """Return the midpoints of adjacent numbers of a narrow format, and the overflow threshold."""
    values = every(ty)[:-1]
    following = from_bits(bits_of(values) + 1, ty)
    between = np.isfinite(values) & np.isfinite(following)
    pairs = zip(values[between].astype(float), following[between].astype(float), strict=True)
    inner = [(Fraction(a) + Fraction(b)) / 2 for a, b in itertools.islice(pairs, 0, None, step)]
    largest = array([FORMATS[ty.ir_name].largest], ty)
    before = from_bits(bits_of(largest) - 1, ty)
    return [*inner, (3 * Fraction(float(largest[0])) - Fraction(float(before[0]))) / 2]


@by_name((*types.FP8, types.F16, types.BF16))
@pytest.mark.parametrize("source", [types.F32, types.F64], ids=str)
def test_ties_and_what_is_next_to_them(ty: Scalar, source: Scalar) -> None:
    """The inputs on which rounding twice shows."""
    middle = np.array([float(value) for value in midpoints(ty, step=1 if ty.bits == 8 else 97)])
    exact = middle[middle.astype(numpy_dtype(source)).astype(float) == middle].astype(
        numpy_dtype(source)
    )
    sides = [np.nextafter(exact, exact.dtype.type(bound)) for bound in (math.inf, -math.inf)]
    x = np.concatenate([exact, *sides, exact * (1 + 2.0**-20), exact * (1 - 2.0**-20)])
    x = x.astype(numpy_dtype(source))
    want = array([saturated(value, ty) for value in x.astype(float).tolist()], ty)
    assert_same(semantics.cast(x, ty), want, x)
    down = array(
        [saturated(value, ty, towards_zero=True) for value in x.astype(float).tolist()], ty
    )
    assert_same(semantics.cast(x, ty, "rtz"), down, x)


@by_name(types.FP8 + types.FLOATS)
@pytest.mark.parametrize("source", [types.I32, types.I64, types.U64], ids=str)
def test_great_integers_are_rounded_once(ty: Scalar, source: Scalar) -> None:
    precision = FORMATS[ty.ir_name].precision
    values = set()
    for high in range(precision + 1, source.bits):
        tie = (1 << high) + (1 << (high - precision))
        values |= {tie + d for d in (-1, 0, 1)} | {
            tie + (1 << (high - precision + 1)),
            tie - (1 << high),
        }
        values |= {-value for value in values}
    x = array(sorted(v for v in values if source.min_value <= v <= source.max_value), source)
    want = array([rounded(Fraction(value), ty) for value in x.tolist()], ty)
    assert_same(semantics.cast(x, ty), want, x)


NARROWER = [
    (source, to)
    for source, to in itertools.product(types.FLOATS + types.FP8, repeat=2)
    if to.bits < source.bits
]


@pytest.mark.parametrize(("ty", "to"), NARROWER, ids=str)
def test_casts_towards_zero(ty: Scalar, to: Scalar) -> None:
    @check
    @given(st.lists(elements(ty), min_size=1, max_size=8))
    def run(column: list[int]) -> None:
        x = from_bits(column, ty)
        want = [saturated(value, to, towards_zero=True) for value in python_values(x)]
        assert_same(semantics.cast(x, to, "rtz"), array(want, to), x)

    run()


def test_roundings_that_do_not_apply_are_refused() -> None:
    x = array([1.5], types.F32)
    for to in (types.F64, types.F32, types.I32):
        with pytest.raises(TypeRuleError, match="rtz is for casting floats to fewer bits, not f32"):
            semantics.cast(x, to, "rtz")
    with pytest.raises(TypeRuleError, match="rtne or rtz, not 'up'"):
        semantics.cast(x, types.F16, "up")


@by_name(types.ALL)
def test_bitcast(ty: Scalar) -> None:
    x = from_bits([0, 1, 1, 0], ty)
    for to in types.ALL:
        if to.bits == ty.bits:
            back = semantics.bitcast(semantics.bitcast(x, to), ty)
            assert_same(back, x)
        else:
            with pytest.raises(TypeRuleError, match=f"equal width, not {ty} and {to}"):
                semantics.bitcast(x, to)
    addresses = semantics.bitcast(array([5], types.U64), Pointer(types.F32))
    assert_same(addresses, array([5], types.I64))


# Shapes


def reference(defn: OpDef) -> Callable[..., Array]:
    """Return the reference semantics of an op, in which an axis of extent 1 may stand for any."""
    assert defn.semantics is not None
    return defn.semantics


def test_shapes_keep_the_program_axis() -> None:
    x = np.arange(2 * 4 * 8).reshape(2, 4, 8)
    assert semantics.reshape(x, (8, 2, 2)).shape == (2, 8, 2, 2)
    assert (semantics.reshape(x, (32,))[1] == x[1].ravel()).all()
    transposed = semantics.permute(x, (1, 0))
    assert transposed.shape == (2, 8, 4)
    assert (transposed[1] == x[1].T).all()
    cube = np.arange(2 * 2 * 4 * 8).reshape(2, 2, 4, 8)
    assert (semantics.permute(cube, (2, 0, 1))[1] == cube[1].transpose(2, 0, 1)).all()
    for axis, shape in ((-1, (2, 4, 8, 1)), (-2, (2, 4, 1, 8)), (-3, (2, 1, 4, 8))):
        expanded = reference(shape_ops.expand_dims)(x, axis=axis)
        assert expanded.shape == shape
        assert (expanded.ravel() == x.ravel()).all()
    assert reference(shape_ops.broadcast)(x[:, :1], shape=(4, 8)).shape == (2, 1, 8)
    assert reference(shape_ops.splat)(np.array([3, 4]), shape=(2, 2)).tolist() == [[[3]], [[4]]]
    assert_same(semantics.arange(4, 8), array([[4, 5, 6, 7]], types.I32))


# Reductions and scans

KINDS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": operator.add,
    "prod": operator.mul,
    "max": max,
    "min": min,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
}
BITWISE = {"and", "or", "xor"}


@by_name((types.I1, *types.INTEGERS))
def test_integer_reductions_and_scans(ty: Scalar) -> None:
    rng = np.random.default_rng(4)
    bits = rng.integers(0, 2 if ty.is_bool() else 256, (2, 4, 8, ty.itemsize), np.uint8)
    x = bits.view(numpy_dtype(ty))[..., 0]
    x.flags.writeable = False
    for kind, axis in itertools.product(KINDS, (-1, -2)):
        rows = np.moveaxis(x, axis, -1)
        wants, partials, reverses = [], [], []
        for row in rows.reshape(-1, rows.shape[-1]).tolist():
            values = [int(v) for v in row]
            steps = list(itertools.accumulate(values, KINDS[kind]))
            wants.append(wrapped(steps[-1], ty))
            partials.append([wrapped(v, ty) for v in steps])
            back = list(itertools.accumulate(values[::-1], KINDS[kind]))[::-1]
            reverses.append([wrapped(v, ty) for v in back])
        reduced = semantics.reduce(x, kind, axis)
        assert_same(reduced, array(wants, ty).reshape(rows.shape[:-1]))
        for scanned, reverse in ((partials, False), (reverses, True)):
            got = np.moveaxis(semantics.scan(x, kind, axis, reverse=reverse), axis, -1)
            assert_same(got, array(scanned, ty).reshape(rows.shape))


@by_name(types.FLOATS)
def test_float_sums_and_products(ty: Scalar) -> None:
    """Small integers, whose exact sum is known; sums in 16 bits would lose some on the way."""
    rng = np.random.default_rng(5)
    x = semantics.cast(rng.integers(-8, 9, (3, 16, 512)).astype(np.float64), ty)
    for axis in (-1, -2):
        exact = x.astype(float).sum(axis)
        assert_same(semantics.reduce(x, "sum", axis), semantics.cast(exact, ty))
        partial = x.astype(float).cumsum(axis)
        assert_same(semantics.scan(x, "sum", axis), semantics.cast(partial, ty))
        backwards = np.flip(np.flip(x.astype(float), axis).cumsum(axis), axis)
        assert_same(semantics.scan(x, "sum", axis, reverse=True), semantics.cast(backwards, ty))
    powers = semantics.cast(rng.choice([0.5, 1.0, 2.0, 3.0], (3, 8)), ty)
    assert_same(
        semantics.reduce(powers, "prod", -1), semantics.cast(powers.astype(float).prod(-1), ty)
    )
    many = array(np.ones((1, 4096)), ty)
    assert semantics.reduce(many, "sum", -1).astype(float).tolist() == [4096]


@by_name(types.FLOATS)
def test_float_extrema(ty: Scalar) -> None:
    nan = math.nan
    x = array([[3, nan, -2, 5], [nan, nan, nan, nan], [-0.5, -1, -math.inf, -3]], ty)
    assert_same(semantics.reduce(x, "max", -1), array([5, nan, -0.5], ty))
    assert_same(semantics.reduce(x, "min", -1), array([-2, nan, -math.inf], ty))
    assert_same(semantics.reduce(x, "max", -1, propagate_nan=True), array([nan, nan, -0.5], ty))
    assert_same(
        semantics.reduce(x, "min", -1, propagate_nan=True), array([nan, nan, -math.inf], ty)
    )
    signalling = from_bits(bits_of(array([math.inf], ty)) + 1, ty)
    rows = np.concatenate([np.repeat(signalling, 31), array([-1], ty)])[None]
    for row in (rows, rows[:, ::-1]):
        assert_same(semantics.reduce(row, "max", -1), array([-1], ty))
        assert_same(semantics.argreduce(row, "argmin", -1)[0], array([-1], ty))
    assert semantics.scan(rows[:, ::-1], "min", -1).astype(float).tolist() == [[-1] * 32]
    assert_same(semantics.scan(x[:1], "max", -1), array([[3, 3, 3, 5]], ty))
    assert_same(semantics.scan(x[:1], "min", -1, reverse=True), array([[-2, -2, -2, 5]], ty))


def best_index(row: list[Any], better: Callable[[Any, Any], bool], left: bool) -> int:
    """By a plain loop: a NaN is worse than any number and equal to another NaN."""
    order = range(len(row)) if left else range(len(row) - 1, -1, -1)
    best = None
    for index in order:
        value = row[index]
        if best is None or (
            value == value and (row[best] != row[best] or better(value, row[best]))
        ):
            best = index
    assert best is not None
    return best


@by_name(types.FLOATS + types.INTEGERS + (types.I1,))
@pytest.mark.parametrize("left", [True, False])
def test_argreduce(ty: Scalar, left: bool) -> None:
    rng = np.random.default_rng(6)
    pool: list[float] = [0, 1] if ty.is_bool() else [0, 1, 2, 3]
    if ty.is_floating():
        pool = [*pool, -1.5, math.inf, -math.inf, math.nan, math.nan, math.nan]
    x = array(rng.choice(pool, (40, 4, 8)), ty)
    if ty.is_floating():
        x = np.concatenate([x, array(np.full((1, 4, 8), math.nan), ty)])
    comparisons = {"argmax": operator.gt, "argmin": operator.lt}
    for (kind, better), axis in itertools.product(comparisons.items(), (-1, -2)):
        values, indices = semantics.argreduce(x, kind, axis, tie_break_left=left)
        rows = np.moveaxis(x, axis, -1)
        lines = rows.reshape(-1, rows.shape[-1])
        want = np.array([best_index(python_values(row), better, left) for row in lines])
        assert_same(indices, want.astype(np.int32).reshape(rows.shape[:-1]))
        taken = np.take_along_axis(lines, want[:, None], -1).reshape(rows.shape[:-1])
        assert (python_values(values) == python_values(taken)) or ty.is_floating()
        assert ((values == taken) | (values != values)).all()
        assert values.dtype == x.dtype


# Products


def exact_dot(a: Array, b: Array) -> Array:
    product: Array = np.matmul(a.astype(np.float64), b.astype(np.float64))
    return product


@by_name((*types.FP8, *types.FLOATS))
@pytest.mark.parametrize(("left", "right"), [(1, 1), (5, 1), (1, 5), (5, 5)])
def test_dot_over_program_axes(ty: Scalar, left: int, right: int) -> None:
    """Small integers are exact whatever the order of sums."""
    rng = np.random.default_rng(7)
    out = types.F64 if ty is types.F64 else types.F32
    for inner, (m, k, n) in itertools.product(((), (2,)), ((4, 8, 2), (16, 32, 16), (64, 16, 8))):
        a = array(rng.integers(-3, 4, (left, *inner, m, k)), ty)
        b = array(rng.integers(-3, 4, (right, *inner, k, n)), ty)
        want = exact_dot(a, b).astype(numpy_dtype(out))
        assert_same(semantics.dot(a, b), want)
        for programs in (1, max(left, right), 5):
            acc = array(rng.integers(-9, 10, (programs, *inner, m, n)), out)
            if {programs, left, right} <= {1, 5}:
                assert_same(semantics.dot(a, b, acc), want + acc)
        views = np.swapaxes(np.ascontiguousarray(np.swapaxes(b, -1, -2)), -1, -2)
        assert_same(semantics.dot(a, views), want)
        stretched = np.broadcast_to(b[..., :1], b.shape)
        assert_same(semantics.dot(a, stretched), exact_dot(a, stretched).astype(want.dtype))
        shared = np.broadcast_to(b[..., :1, :], b.shape)
        assert_same(semantics.dot(a, shared), exact_dot(a, shared).astype(want.dtype))


def test_one_right_operand_for_many_small_programs() -> None:
    rng = np.random.default_rng(8)
    b = array(rng.integers(-3, 4, (1, 16, 8)), types.F32)
    for programs, rows in ((1, 1), (2, 1), (63, 1), (64, 1), (65, 1), (130, 4), (9, 32)):
        a = array(rng.integers(-3, 4, (programs, rows, 16)), types.F32)
        assert_same(semantics.dot(a, b), exact_dot(a, b).astype(np.float32))
        transposed = np.ascontiguousarray(a.swapaxes(0, 1)).swapaxes(0, 1)
        assert_same(semantics.dot(transposed, b), exact_dot(a, b).astype(np.float32))


@pytest.mark.parametrize("ty", [types.I8, types.U8], ids=str)
@pytest.mark.parametrize("depth", [16, 1024, 2048, 1 << 16])
def test_integer_dot_is_exact_and_wraps(ty: Scalar, depth: int) -> None:
    rng = np.random.default_rng(9)
    a = array(rng.integers(ty.min_value, ty.max_value + 1, (2, 2, depth)), ty)
    b = array(rng.integers(ty.min_value, ty.max_value + 1, (1, depth, 2)), ty)
    extreme = ty.min_value or ty.max_value
    acc = array([[[2**31 - 1, -(2**31)], [0, 1]]], types.I32)
    for x, y in ((a, b), (np.full_like(a, extreme), np.full_like(b, extreme))):
        exact = np.matmul(x.astype(np.int64), y.astype(np.int64))
        assert_same(semantics.dot(x, y), exact.astype(np.int32))
        assert_same(semantics.dot(x, y, acc), (exact + acc).astype(np.int32))


def test_narrow_accumulators_are_rounded_after_the_sum() -> None:
    """2048 + 1 is no f16; the sum of two ones must reach it together."""
    a, b = array([[[1, 1]]], types.F16), array([[[1], [1]]], types.F16)
    for ty, limit in ((types.F16, 2048), (types.BF16, 256)):
        got = semantics.dot(a, b, array([[[limit]]], ty))
        assert_same(got, array([[[limit + 2]]], ty))


def test_tf32_rounding() -> None:
    edges = np.array([0x1000, 0xFFF, 0x1001, 0x2000, 0x3000, 0x2FFF], np.uint32)
    bits = np.concatenate(
        [np.uint32(base) + edges for base in (0, 0x3F800000, 0x3F801FFF, 0xBF800000)]
    )
    x = np.concatenate([bits.view(np.float32), array([math.inf, -math.inf, math.nan], types.F32)])
    want = []
    for value in x.astype(float).tolist():
        if not math.isfinite(value):
            want.append(value)
            continue
        exponent = max(math.frexp(value)[1] - 1, -126) if value else -126
        quantum = Fraction(2) ** (exponent - 10)
        steps = math.floor(abs(Fraction(value)) / quantum + Fraction(1, 2))
        want.append(math.copysign(float(steps * quantum), value))
    assert_same(semantics.round_to_tf32(x), array(want, types.F32), x)
    strange = from_bits([0x7F800001, 0xFF800001, 0x7FFFFFFF], types.F32)
    assert np.isnan(semantics.round_to_tf32(strange)).all()


def test_cutting_to_tf32() -> None:
    x = array(
        [1.0, 1 + 2**-10, 1 + 2**-10 - 2**-23, -1 - 2**-11, np.inf, -0.0, 2.0**-130], types.F32
    )
    want = [1.0, 1 + 2**-10, 1.0, -1.0, np.inf, -0.0, 2.0**-130]
    assert_same(semantics.truncate_mantissa(x, 10), array(want, types.F32), x)
    assert np.isnan(
        semantics.truncate_mantissa(
            np.array([0x7F800001, 0xFFFFFFFF], np.uint32).view(np.float32), 10
        )
    ).all()
    many = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    off = np.abs(semantics.truncate_mantissa(many, 10) - many) / np.abs(many)
    assert 0.9 * 2**-10 < off.max() < 2**-10


@pytest.mark.parametrize(
    ("precision", "low", "high"),
    [
        ("ieee", 0.0, 2.0**-22),
        ("tf32", 2.0**-15, 2.0**-10),
        ("tf32x3", 0.0, 2.0**-20),
        ("bf16x3", 2.0**-21, 2.0**-15),
        ("bf16x6", 0.0, 2.0**-21),
    ],
)
def test_precision_of_f32_dots(precision: str, low: float, high: float) -> None:
    """The error relative to the sum of magnitudes lies where the emulated format puts it."""
    rng = np.random.default_rng(10)
    a = rng.standard_normal((2, 16, 32)).astype(np.float32)
    b = rng.standard_normal((1, 32, 16)).astype(np.float32)
    got = semantics.dot(a, b, input_precision=precision)
    scale = exact_dot(np.abs(a), np.abs(b))
    worst = float((np.abs(got - exact_dot(a, b)) / scale).max())
    assert got.dtype == np.float32
    assert low <= worst <= high


@pytest.mark.parametrize("precision", ["ieee", "tf32", "tf32x3", "bf16x3", "bf16x6"])
def test_infinite_operands_survive_emulation(precision: str) -> None:
    inf = math.inf
    a = array([[[inf, 1.0], [1.0, 1.0], [math.nan, 1.0]]], types.F32)
    b = array([[[1.0, 1.0], [1.0, -inf]]], types.F32)
    want = array([[[inf, math.nan], [2.0, -inf], [math.nan, math.nan]]], types.F32)
    got = semantics.dot(a, b, input_precision=precision)
    assert_same(got.ravel(), want.ravel())


# Distances


@by_name(types.FLOATS + types.FP8)
def test_ulp_distance_counts_steps(ty: Scalar) -> None:
    zeros = array([0.0, -0.0], ty)
    assert ulp_distance(zeros, zeros[::-1]).tolist() == [0, 0]
    start = array([1.0, -1.0, 0.0], ty)
    steps = from_bits(bits_of(start) + 3, ty)
    assert ulp_distance(start, steps).tolist() == [3, 3, 3]
    assert ulp_distance(steps, start).tolist() == [3, 3, 3]
    nan = array([math.nan, math.nan, 1.0], ty)
    other = array([math.nan, 1.0, math.nan], ty)
    assert ulp_distance(nan, other).tolist() == [0, 2**64 - 1, 2**64 - 1]
    largest = array([FORMATS[ty.ir_name].largest], ty)
    smallest = from_bits([1], ty)
    total = int(bits_of(largest)[0])
    assert ulp_distance(largest, negated(largest)).tolist() == [2 * total]
    assert ulp_distance(smallest, negated(smallest)).tolist() == [2]


def negated(x: Array) -> Array:
    return from_bits(bits_of(x) | (1 << (8 * x.dtype.itemsize - 1)), scalar(x))


@by_name((*types.FP8, types.F16, types.BF16))
def test_ulp_distance_between_all_adjacent_numbers(ty: Scalar) -> None:
    values = every(ty)
    numbers = values[~np.isnan(values)]
    ordered = numbers[np.argsort(numbers.astype(float), kind="stable")]
    gaps = ulp_distance(ordered[1:], ordered[:-1])
    assert set(gaps.tolist()) == {0, 1}
    assert (gaps == 0).sum() == 1  # between the zeros


def test_ulp_distance_refuses_other_types() -> None:
    with pytest.raises(ArgumentTypeError, match="not f32 and f64"):
        ulp_distance(array([1.0], types.F32), array([1.0], types.F64))
    with pytest.raises(ArgumentTypeError, match="not i32 and i32"):
        ulp_distance(array([1], types.I32), array([1], types.I32))


# All operations

ELEMENTWISE: dict[str, tuple[Callable[..., Array], int, tuple[Scalar, ...]]] = {
    **{name: (getattr(semantics, name), 2, types.ALL[1:9] + types.FLOATS) for name in
       ("add", "sub", "mul", "div", "rem", "minimum", "maximum")},
    **{name: (function(name), 1, types.FLOATS) for name in FUNCTIONS},
    **{name: (getattr(semantics, name), 2, types.INTEGERS) for name in
       ("and_", "or_", "xor", "shl", "shr", "mulhi")},
    "neg": (semantics.neg, 1, types.INTEGERS + types.FLOATS),
    "absolute": (semantics.absolute, 1, types.INTEGERS + types.FLOATS),
    "not_": (semantics.not_, 1, types.INTEGERS),
    "fma": (semantics.fma, 3, types.FLOATS),
}  # fmt: skip


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_operations_broadcast_and_keep_dtypes(name: str) -> None:
    """Programs stacked on the leading axis give what each gives alone, units broadcast."""
    apply, arity, accepted = ELEMENTWISE[name]
    rng = np.random.default_rng(11)
    shapes = [(3, 4, 8), (3, 1, 8), (1, 4, 1)]
    for ty in accepted:
        xs = []
        for shape in shapes[:arity]:
            x = rng.integers(0, 256, (*shape, ty.itemsize), np.uint8).view(numpy_dtype(ty))[..., 0]
            x.flags.writeable = False
            xs.append(x)
        whole = apply(*xs)
        full = [np.ascontiguousarray(np.broadcast_to(x, (3, 4, 8))) for x in xs]
        assert whole.shape == (3, 4, 8)
        assert_same(apply(*full), whole)
        for program, row in itertools.product(range(3), range(4)):
            alone = apply(*(x[program, row] for x in full))
            assert_same(alone, whole[program, row])
        single = apply(*(x[0, 0, 0] for x in full))
        assert single.dtype == whole.dtype
        assert_same(np.asarray(single)[None], whole[0, 0, :1])


def test_choices_may_be_string_enumerations() -> None:
    class Kind(enum.StrEnum):
        SUM = "sum"
        LT = "lt"
        RTZ = "rtz"
        IEEE = "ieee"

    x = array([[1.0, 2.0]], types.F32)
    assert semantics.reduce(x, Kind.SUM, -1).tolist() == [3]
    assert semantics.cmp(x, x, Kind.LT).tolist() == [[False, False]]
    assert semantics.cast(x, types.F16, Kind.RTZ).tolist() == [[1, 2]]
    assert semantics.dot(x[None], x[None].swapaxes(-1, -2), None, Kind.IEEE).tolist() == [[[5]]]


def one(ty: Scalar) -> Array:
    return array([[[1]]], ty)


REFUSALS: dict[str, Callable[[], Any]] = {
    "add is not defined on f8e4m3; it takes i1, i8": lambda: semantics.add(
        one(types.F8E4M3), one(types.F8E4M3)
    ),
    "div is not defined on i1; it takes i8": lambda: semantics.div(one(types.I1), one(types.I1)),
    "exp is not defined on i32; it takes f16, bf16, f32, f64": lambda: function("exp")(
        one(types.I32)
    ),
    "exp is not defined on complex128": lambda: function("exp")(np.array([1 + 1j])),
    "shl is not defined on f32": lambda: semantics.shl(one(types.F32), one(types.F32)),
    "mulhi is not defined on f32": lambda: semantics.mulhi(one(types.F32), one(types.F32)),
    "xor is not defined on f32; it takes i1": lambda: semantics.reduce(one(types.F32), "xor", -1),
    "reduction is one of sum, prod, max, min, and, or, xor, not 'mean'": lambda: semantics.scan(
        one(types.F32), "mean", -1
    ),
    "argreduce is one of argmax, argmin, not 'max'": lambda: semantics.argreduce(
        one(types.F32), "max", -1
    ),
    "comparison is one of eq, ne, lt, le, gt, ge, not '<'": lambda: semantics.cmp(
        one(types.F32), one(types.F32), "<"
    ),
    "dot is not defined on i32; it takes f16": lambda: semantics.dot(
        one(types.I32), one(types.I32)
    ),
    "input_precision is one of ieee, tf32, tf32x3, bf16x3, bf16x6, not 'fp32'": lambda: (
        semantics.dot(one(types.F32), one(types.F32), input_precision="fp32")
    ),
}


@pytest.mark.parametrize("message", REFUSALS)
def test_refusals_say_what_would_do(message: str) -> None:
    with pytest.raises(TypeRuleError) as caught:
        REFUSALS[message]()
    assert message in str(caught.value)


def test_without_quiet_numpy_warns() -> None:
    """`quiet` is needed, and is enough."""
    x, zero = array([1], types.I32), array([0], types.I32)
    with np.errstate(all="warn"):
        with pytest.warns(RuntimeWarning, match="divide by zero"):
            semantics.div(x, zero)
        with semantics.quiet():
            assert semantics.div(x, zero).tolist() == [0]
            assert semantics.rem(x, zero).tolist() == [0]
