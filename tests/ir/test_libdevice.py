"""Reference semantics of libdevice: exact results in rational numbers, others by mpmath."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.ulp import ulp_distance
from tile.ir import semantics
from tile.ir.numpy_dtypes import numpy_dtype
from tile.ir.semantics.libdevice import SYMBOLS, Symbol, functions
from tile.ir.semantics.libdevice.rounding import MODES
from tile.ir.semantics.libdevice.table import BITS, CONVERSIONS, EXACT, ROUNDED
from tile.ir.types import F32, F64, Scalar

Array = np.ndarray[Any, Any]


def apply(symbol: str | Symbol, *operands: Any) -> Array:
    """Call the semantics of a symbol on lists of numbers."""
    declared = SYMBOLS[symbol] if isinstance(symbol, str) else symbol
    arrays = [
        np.array(operand, numpy_dtype(ty))
        for operand, ty in zip(operands, declared.operands, strict=True)
    ]
    with semantics.quiet():
        return declared.semantics(*arrays)


def test_the_table_is_whole() -> None:
    """All functions of Triton's module are present, and a symbol is declared once."""
    assert len(functions()) == 198
    rows = sum(len(symbols) for symbols in functions().values())
    assert rows == len(SYMBOLS) == 314


@pytest.mark.parametrize("name", SYMBOLS)
def test_results_have_the_declared_type_and_shape(name: str) -> None:
    """Operands may have axes of extent 1, infinities and NaN; none is written to."""
    symbol = SYMBOLS[name]
    operands = []
    for position, ty in enumerate(symbol.operands):
        values = [0, 1, 2, 3] if ty.is_int() else [0.0, -0.0, math.inf, math.nan]
        array = np.array(values, numpy_dtype(ty))
        operands.append(array.reshape(1, 4) if position == 0 else array.reshape(4, 1))
    before = [operand.tobytes() for operand in operands]
    with semantics.quiet():
        result = symbol.semantics(*operands)
    assert result.dtype == numpy_dtype(symbol.result)
    assert result.shape == np.broadcast_shapes(*(operand.shape for operand in operands))
    assert [operand.tobytes() for operand in operands] == before


# -- rounding modes


def round_fraction(exact: Fraction, mode: str, ty: Scalar) -> float:
    """Round a rational number other than zero to a float type."""
    digits, least, most = (24, -149, 128) if ty is F32 else (53, -1074, 1024)
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** max(exponent - digits + 1, least)
    scaled = exact / unit
    whole = math.floor(scaled)
    if mode == "rn":
        whole = round(scaled)
    elif mode == "ru" or (mode == "rz" and exact < 0):
        whole = math.ceil(scaled)
    result = whole * unit
    sign = 1 if exact > 0 else -1
    if abs(result) < Fraction(2) ** most:
        return math.copysign(float(result), sign)
    inward = mode == "rz" or mode == ("rd" if exact > 0 else "ru")
    greatest = float(np.finfo(numpy_dtype(ty)).max)
    return sign * (greatest if inward else math.inf)


def operands_of(symbol: Symbol, count: int = 120) -> list[list[float]]:
    """Return random operands of all magnitudes, near each other and near the ends of the range."""
    rng = np.random.default_rng(len(symbol.name))
    columns = []
    for ty in symbol.operands:
        info = np.finfo(numpy_dtype(ty))
        low, high = info.minexp - info.nmant, info.maxexp - 1
        exponents = rng.integers(-8, 9, count)
        exponents[: count // 3] = rng.integers(low, high, count // 3)
        exponents[: count // 8] = rng.integers(low, low + info.nmant, count // 8)
        exponents[count // 8 : count // 6] = high
        fractions = rng.uniform(1, 2, count)
        fractions[::4] = rng.integers(4, 8, len(fractions[::4])) / 4
        values = np.ldexp(fractions * rng.choice([-1, 1], count), exponents)
        columns.append(values.astype(info.dtype).astype(float).tolist())
    return columns


OPERATIONS: dict[str, Callable[..., Fraction]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "rcp": lambda x: 1 / x,
    "fma": lambda x, y, z: x * y + z,
}
ARITHMETIC = [s for s in ROUNDED if s.function.partition("_")[0] in OPERATIONS]


@pytest.mark.parametrize("symbol", ARITHMETIC, ids=lambda s: s.name)
def test_arithmetic_in_rounding_modes(symbol: Symbol) -> None:
    operation, _, mode = symbol.function.partition("_")
    columns = operands_of(symbol)
    if operation == "fma":  # the product's error decides
        columns[2][60:] = [-x * y for x, y in zip(*(c[60:] for c in columns[:2]), strict=True)]
        columns[2] = np.array(columns[2]).astype(numpy_dtype(symbol.result)).tolist()
    results = apply(symbol, *columns).tolist()
    for *row, result in zip(*columns, results, strict=True):
        if not all(map(math.isfinite, row)):
            continue
        exact = OPERATIONS[operation](*map(Fraction, row))
        if exact:
            wanted = round_fraction(exact, mode, symbol.result)
            assert result == wanted, (row, result, wanted)
        else:
            assert result == 0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "ty"), [("fsqrt", F32), ("dsqrt", F64)])
def test_roots_in_rounding_modes(name: str, ty: Scalar, mode: str) -> None:
    """A root is between its neighbors' squares, on the side of the mode."""
    symbol = SYMBOLS[f"__nv_{name}_{mode}"]
    (column,) = operands_of(symbol)
    column = [abs(x) for x in column] + [4.0, 2.25, 9.0]
    for x, root in zip(column, apply(symbol, column).tolist(), strict=True):
        exact, square = Fraction(x), Fraction(root) ** 2
        dtype = numpy_dtype(ty).type
        above = Fraction(float(np.nextafter(dtype(root), dtype(math.inf)))) ** 2
        below = Fraction(float(np.nextafter(dtype(root), dtype(0)))) ** 2
        if mode in ("rd", "rz"):
            assert square <= exact < above
        elif mode == "ru":
            assert below < exact <= square
        else:
            assert abs(exact - square) <= min(above - exact, exact - below)


def test_zeros_and_infinities_of_rounding_modes() -> None:
    """Exact zeros are -0 rounding down; infinite operands give infinite results."""
    assert np.signbit(apply("__nv_fadd_rd", [1.0], [-1.0])) == [True]
    assert np.signbit(apply("__nv_dadd_ru", [1.0], [-1.0])) == [False]
    assert np.signbit(apply("__nv_dadd_rd", [0.0], [0.0])) == [False]
    assert np.signbit(apply("__nv_fma_rd", [2.0], [3.0], [-6.0])) == [True]
    assert apply("__nv_fadd_rz", [math.inf], [1.0]).tolist() == [math.inf]
    assert apply("__nv_ddiv_rd", [1.0], [0.0]).tolist() == [math.inf]
    assert apply("__nv_dmul_ru", [5e-324], [0.5]).tolist() == [5e-324]
    assert apply("__nv_dmul_rd", [-5e-324], [0.5]).tolist() == [-5e-324]


CONVERTED = [s for s in CONVERSIONS if s.function.rpartition("_")[2] in MODES]


@pytest.mark.parametrize("symbol", CONVERTED, ids=lambda s: s.name)
def test_conversions(symbol: Symbol) -> None:
    source, target = symbol.operands[0], symbol.function.partition("2")[2].partition("_")[0]
    mode = symbol.function.rpartition("_")[2]
    if source.is_int():
        rng = np.random.default_rng(0)
        dtype = numpy_dtype(source)
        ends = [source.min_value, source.max_value, source.max_value - 1, 0, 1, 2**24 + 1]
        numbers = [*ends, *rng.integers(source.min_value, source.max_value, 90, dtype).tolist()]
    else:
        numbers = [*operands_of(symbol)[0], 0.5, 1.5, 2.5, -0.5, -1.5, 2.0**31, -(2.0**31), 2.0**63]
    results = apply(symbol, numbers)
    if symbol.result.is_floating():
        wanted = [round_fraction(Fraction(x), mode, symbol.result) if x else 0.0 for x in numbers]
        assert results.tolist() == wanted
        return
    bits, signed = {"int": (32, True), "uint": (32, False), "ll": (64, True), "ull": (64, False)}[
        target
    ]
    rounding = {"rn": round, "rz": math.trunc, "rd": math.floor, "ru": math.ceil}[mode]
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    for number, result in zip(numbers, results.tolist(), strict=True):
        assert result % (1 << bits) == min(max(rounding(number), low), high) % (1 << bits)
    special = apply(symbol, [math.inf, -math.inf, math.nan])
    nan = 0 if bits == 32 and source is F32 else 1 << bits - 1
    assert [x % (1 << bits) for x in special.tolist()] == [high, low % (1 << bits), nan]


# -- integers

MASK = 0xFFFFFFFF
INTEGER: dict[str, Callable[..., int]] = {
    "clz": lambda x, bits: bits - x.bit_length(),
    "popc": lambda x, bits: x.bit_count(),
    "brev": lambda x, bits: int(f"{x:0{bits}b}"[::-1], 2),
    "ffs": lambda x, bits: (x & -x).bit_length(),
}


@pytest.mark.parametrize("name", INTEGER)
def test_bits(name: str) -> None:
    rng = np.random.default_rng(1)
    for symbol in functions()[name]:
        bits = symbol.operands[0].bits
        dtype = numpy_dtype(symbol.operands[0])
        numbers = rng.integers(-(1 << bits - 1), (1 << bits - 1) - 1, 200, dtype)
        numbers >>= rng.integers(0, bits, 200).astype(dtype)
        numbers[:3] = [0, -1, 1]
        wanted = [INTEGER[name](x % (1 << bits), bits) for x in numbers.tolist()]
        results = apply(symbol, numbers).tolist()
        assert [x % (1 << symbol.result.bits) for x in results] == wanted


def test_integer_arithmetic() -> None:
    most, least = 2**31 - 1, -(2**31)
    assert apply("__nv_hadd", [most, least, -3], [most, least, 0]).tolist() == [most, least, -2]
    assert apply("__nv_rhadd", [most, least, -3], [most, least, 0]).tolist() == [most, least, -1]
    assert apply("__nv_urhadd", [2**32 - 1], [2**32 - 2]).tolist() == [2**32 - 1]
    assert apply("__nv_mul24", [0xFFFFFF, 1 << 24], [3, 5]).tolist() == [-3, 0]
    assert apply("__nv_umul24", [0xFFFFFF], [0x1000003]).tolist() == [0xFFFFFF * 3]
    assert apply("__nv_sad", [least, 1], [most, 4], [1, 2]).tolist() == [0, 5]
    assert apply("__nv_byte_perm", [0x33221100], [0x77665544], [0x2705]).tolist() == [0x22770055]
    assert apply("__nv_umul64hi", [2**64 - 1], [2**64 - 1]).tolist() == [2**64 - 2]
    assert apply("__nv_hiloint2double", [0x40080000], [0]).tolist() == [3.0]
    assert apply("__nv_double2hiint", [3.0]).tolist() == [0x40080000]
    assert apply("__nv_abs", [least, -2]).tolist() == [least, 2]


# -- floats without an error


def test_remainders_round_to_even() -> None:
    rng = np.random.default_rng(2)
    x = np.concatenate([rng.uniform(-50, 50, 200), [1, -1, 0.5, 3, 5e-324, 1.7e308, 2.5]])
    y = np.concatenate([rng.uniform(-3, 3, 200), [2, 2, 1, -2, 1e308, 1.2e308, 5e-324]])
    wanted = [math.remainder(*pair) for pair in zip(x.tolist(), y.tolist(), strict=True)]
    assert apply("__nv_remainder", x, y).tolist() == wanted


def test_exact_functions() -> None:
    inf, nan = math.inf, math.nan
    assert apply("__nv_roundf", [0.5, -0.5, 2.5, 0.49999997]).tolist() == [1, -1, 3, 0]
    assert apply("__nv_llround", [-2.5, 1e300]).tolist() == [-3, 2**63 - 1]
    assert apply("__nv_llrint", [-2.5, 3.5]).tolist() == [-2, 4]
    assert apply("__nv_ilogb", [8.0, 0.0, inf, nan]).tolist() == [3, -(2**31), 2**31 - 1, -(2**31)]
    assert apply("__nv_logb", [10.0, 0.0, -inf]).tolist() == [3, -inf, inf]
    assert apply("__nv_ldexpf", [1.5, 1.0], [4, -149]).tolist() == [24, 2.0**-149]
    assert apply("__nv_fdim", [3.0, 1.0, inf], [1.0, 3.0, inf]).tolist() == [2, 0, 0]
    assert apply("__nv_saturatef", [-1.0, 0.25, 7.0, nan]).tolist() == [0, 0.25, 1, 0]
    assert apply("__nv_powif", [2.0, 2.0, 0.5], [10, -2, 0]).tolist() == [1024, 0.25, 1]
    assert apply("__nv_isnanf", [nan, 1.0]).tolist() == [1, 0]
    assert apply("__nv_isinfd", [-inf, nan]).tolist() == [1, 0]
    assert apply("__nv_signbitf", [-0.0, 0.0]).tolist() == [1, 0]
    assert apply("__nv_finitef", [inf, 0.0]).tolist() == [0, 1]
    assert apply("__nv_rcp64h", [4.0, 5e-324]).tolist() == [0.25, inf]


# -- functions with an error

APPROXIMATE = {
    symbol.name: symbol
    for symbol in SYMBOLS.values()
    if symbol not in (*BITS, *ROUNDED, *CONVERSIONS, *EXACT) and symbol.function != "rcp64h"
}
COUNT = {F32: 40, F64: 60}


def references(mp: Any) -> dict[str, Callable[..., Any]]:
    """Return functions of mpmath by the name of libdevice's function."""

    def root(*xs: Any) -> Any:
        return mp.sqrt(sum(x * x for x in xs))

    def erfcinv(z: Any) -> Any:
        if z > 1e-3:
            return mp.erfinv(1 - z)
        start = mp.sqrt(-mp.log(z))
        return mp.findroot(lambda x: mp.log(mp.erfc(x)) - mp.log(z), start - start**-1)

    named = {
        "exp": mp.exp,
        "exp2": lambda x: mp.mpf(2) ** x,
        "exp10": lambda x: mp.mpf(10) ** x,
        "log2": lambda x: mp.log(x, 2),
        "pow": mp.power,
        "asin": lambda x: mp.asin(x),
        "rsqrt": lambda x: 1 / mp.sqrt(x),
        "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
        "rcbrt": lambda x: mp.sign(x) / mp.cbrt(abs(x)),
        "hypot": root,
        "rhypot": lambda *xs: 1 / root(*xs),
        "norm3d": root,
        "rnorm3d": lambda *xs: 1 / root(*xs),
        "norm4d": root,
        "rnorm4d": lambda *xs: 1 / root(*xs),
        "erfcx": lambda x: mp.exp(x * x) * mp.erfc(x),
        "erfcinv": erfcinv,
        "normcdf": mp.ncdf,
        "normcdfinv": lambda p: -mp.sqrt(2) * erfcinv(2 * p),
        "lgamma": mp.loggamma,
        "tgamma": mp.gamma,
        "j0": mp.j0,
        "j1": mp.j1,
        "jn": lambda n, x: mp.besselj(int(n), x),
        "y0": lambda x: mp.bessely(0, x),
        "y1": lambda x: mp.bessely(1, x),
        "yn": lambda n, x: mp.bessely(int(n), x),
        "cyl_bessel_i0": lambda x: mp.besseli(0, x),
        "cyl_bessel_i1": lambda x: mp.besseli(1, x),
        "fast_dividef": lambda x, y: x / y,
    }
    for symbol in APPROXIMATE.values():
        name = symbol.function
        plain = name.removeprefix("fast_").removesuffix("f") if "fast" in name else name
        named.setdefault(name, named.get(plain) or getattr(mp, plain, None))
    return named


@pytest.mark.parametrize("name", APPROXIMATE)
def test_accuracy(name: str) -> None:
    """Results are within the stated error; those of f32 nearly correctly rounded."""
    mpmath = pytest.importorskip("mpmath", reason="mpmath is not installed")
    symbol = APPROXIMATE[name]
    reference = references(mpmath)[symbol.function]
    columns = random_operands(symbol, COUNT[symbol.result])
    results = apply(symbol, *columns)
    with mpmath.workprec(160):
        exact = [
            reference(*(mpmath.mpf(float(x)) for x in row)) for row in zip(*columns, strict=True)
        ]
        errors = [
            float(abs(mpmath.mpf(float(result)) - wanted) - symbol.absolute)
            for result, wanted in zip(results, exact, strict=True)
        ]
    ulp = 0.6 if symbol.result is F32 else symbol.ulp or 0.5
    unit = np.spacing(np.abs(results))
    assert max(errors / unit) <= ulp, columns


def random_operands(symbol: Symbol, count: int) -> list[Array]:
    """Return random operands in the domain of a function, of several magnitudes."""
    rng = np.random.default_rng(len(symbol.name))
    columns = []
    for ty in symbol.operands:
        dtype = numpy_dtype(ty)
        if ty.is_int():
            assert symbol.orders is not None
            columns.append(rng.integers(*symbol.orders, count).astype(dtype))
            continue
        low, high = symbol.domain or (-1e3, 1e3)
        values = rng.uniform(low, min(high, 1e3), count)
        if low > 0:
            values[::2] = np.exp(rng.uniform(np.log(low), np.log(high), len(values[::2])))
        else:
            values[::3] *= 10.0 ** rng.uniform(-6, 0, len(values[::3]))
        columns.append(values.astype(dtype))
    return columns


@pytest.mark.parametrize(
    "name", [s.name for s in APPROXIMATE.values() if s.result is F32 and len(s.operands) == 1]
)
def test_f32_is_f64_rounded(name: str) -> None:
    """On many operands, f32 agrees with f64, which is tested against mpmath."""
    symbol = APPROXIMATE[name]
    wide = [s for s in functions()[symbol.function] if s.operands == (F64,)]
    if not wide:
        return
    (x,) = random_operands(symbol, 20_000)
    wanted = apply(wide[0], x.astype(np.float64)).astype(np.float32)
    assert ulp_distance(apply(symbol, x), wanted).max() == 0


@pytest.mark.parametrize(
    ("name", "operands", "wanted"),
    [
        ("erfc", [math.inf, -math.inf, 0.0], [0, 2, 1]),
        ("erfcx", [math.inf, -math.inf, 0.0], [0, math.inf, 1]),
        ("erfinv", [1.0, -1.0, 0.0, 1.5], [math.inf, -math.inf, 0, math.nan]),
        ("erfcinv", [0.0, 2.0, 1.0, -1.0], [math.inf, -math.inf, 0, math.nan]),
        ("normcdf", [math.inf, -math.inf, 0.0], [1, 0, 0.5]),
        ("normcdfinv", [0.0, 1.0, 0.5], [-math.inf, math.inf, 0]),
        ("lgamma", [1.0, 2.0, 0.0, -3.0, -math.inf], [0, 0, math.inf, math.inf, math.inf]),
        ("tgamma", [5.0, 0.0, -0.0, -1.0, -math.inf, 172.0], [24, math.inf, -math.inf, *[math.nan] * 2, math.inf]),
        ("sinpi", [1.0, -1.0, 0.5, math.inf], [0, 0, 1, math.nan]),
        ("cospi", [1.0, 0.5, -1.5, math.nan], [-1, 0, 0, math.nan]),
        ("j0", [0.0, math.inf], [1, 0]),
        ("j1", [0.0, -math.inf], [0, 0]),
        ("y0", [0.0, -1.0, math.inf], [-math.inf, math.nan, 0]),
        ("y1", [0.0, -1.0, math.inf], [-math.inf, math.nan, 0]),
        ("cyl_bessel_i0", [0.0, -math.inf], [1, math.inf]),
        ("cyl_bessel_i1", [0.0, -math.inf], [0, -math.inf]),
        ("rcbrt", [8.0, -0.0, math.inf], [0.5, -math.inf, 0]),
    ],
)  # fmt: skip
def test_special_values(name: str, operands: list[float], wanted: list[float]) -> None:
    for suffix in ("", "f"):
        np.testing.assert_array_equal(apply(f"__nv_{name}{suffix}", operands), wanted)


def test_norms_of_infinities_and_of_extremes() -> None:
    inf, nan = math.inf, math.nan
    assert apply("__nv_hypot", [inf, 3e300, 3e-320], [nan, 4e300, 4e-320]).tolist() == [
        inf,
        5e300,
        5e-320,
    ]
    assert apply("__nv_rnorm3d", [inf, 2.0], [nan, 3.0], [0.0, 6.0]).tolist() == [0, 1 / 7]
    assert apply("__nv_jn", [3, 3, 0], [0.0, -inf, 0.0]).tolist() == [0, 0, 1]
    assert np.isnan(apply("__nv_jn", [-1], [1.0])).all()
    assert np.isnan(apply("__nv_yn", [-1], [1.0])).all()


def test_cube_roots_of_special_numbers() -> None:
    symbol = APPROXIMATE["__nv_cbrt"]
    x = np.array([0.0, -0.0, np.inf, -np.inf, 8.0, -27.0, 5e-324])
    result = apply(symbol, x)
    assert result[:6].tolist() == [0.0, 0.0, np.inf, -np.inf, 2.0, -3.0]
    assert np.signbit(result[:2]).tolist() == [False, True]
    assert abs(result[6] / 1.7031839360032603e-108 - 1) < 1e-15
