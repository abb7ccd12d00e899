"""Helper functions in OpenCL C for the functions of libdevice that OpenCL lacks.

Their names begin with `nv_`, since compilers have functions such as `j0` of their own. The numbers
of polynomials are those of `tile/ir/semantics/libdevice`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

from tile.backends.opencl.emit import libdevice_rounding
from tile.backends.opencl.emit.libdevice_special import BESSEL, ERRORS, GAMMA
from tile.ir.semantics.libdevice import bessel, errors, gamma, trigonometry
from tile.ir.semantics.libdevice.piecewise import Piecewise

INTEGERS = """
uint nv_mul24_i32(int x, int y) {
  return (uint)((int)((uint)x << 8) >> 8) * (uint)((int)((uint)y << 8) >> 8);
}

uint nv_mul24_u32(uint x, uint y) {
  return (x & 0xffffff) * (y & 0xffffff);
}

uint nv_abs_i32(int x) {
  return x < 0 ? 0u - (uint)x : (uint)x;
}

ulong nv_abs_i64(long x) {
  return x < 0 ? 0ul - (ulong)x : (ulong)x;
}

uint nv_ffs_i32(int x) {
  return x ? 32 - clz((uint)x & (0u - (uint)x)) : 0;
}

uint nv_ffs_i64(long x) {
  return x ? 64 - (uint)clz((ulong)x & (0ul - (ulong)x)) : 0;
}

uint nv_brev_i32(uint x) {
  x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
  x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
  x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
  x = (x >> 8 & 0x00ff00ffu) | (x & 0x00ff00ffu) << 8;
  return x >> 16 | x << 16;
}

ulong nv_brev_i64(ulong x) {
  return (ulong)nv_brev_i32((uint)x) << 32 | nv_brev_i32((uint)(x >> 32));
}

uint nv_byte_perm_i32(uint x, uint y, uint selector) {
  ulong both = (ulong)y << 32 | x;
  uint result = 0;
  for (uint byte = 0; byte < 4; byte++) {
    uint from = (selector >> 4 * byte & 7) * 8;
    result |= (uint)(both >> from & 0xff) << 8 * byte;
  }
  return result;
}
"""

ELEMENTARY = """
double nv_square_error(double x, double total, double sum, double square) {
  return nv_sum_error(total, square, sum) + fma(x, x, -square);
}

double nv_norm(double x, double y, double z, double w, bool reciprocal) {
  if (isinf(x) || isinf(y) || isinf(z) || isinf(w)) return reciprocal ? 0.0 : INFINITY;
  if (isnan(x) || isnan(y) || isnan(z) || isnan(w)) return NAN;
  double parts[4] = {x, y, z, w}, total = 0, low = 0;
  int exponent;
  frexp(fmax(fmax(fabs(x), fabs(y)), fmax(fabs(z), fabs(w))), &exponent);
  for (int k = 0; k < 4; k++) {
    double part = ldexp(parts[k], -exponent), square = part * part, sum = total + square;
    low += nv_square_error(part, total, sum, square);
    total = sum;
  }
  double root = sqrt(total);
  double error = total > 0 ? (fma(-root, root, total) + low) / (2 * root) : 0.0;
  if (reciprocal) return ldexp(nv_reciprocal(root, error), -exponent);
  return ldexp(root + error, exponent);
}

double nv_rhypot(double x, double y) {
  return nv_norm(x, y, 0, 0, true);
}

double nv_norm3d(double x, double y, double z) {
  return nv_norm(x, y, z, 0, false);
}

double nv_rnorm3d(double x, double y, double z) {
  return nv_norm(x, y, z, 0, true);
}

double nv_norm4d(double x, double y, double z, double w) {
  return nv_norm(x, y, z, w, false);
}

double nv_rnorm4d(double x, double y, double z, double w) {
  return nv_norm(x, y, z, w, true);
}

double nv_rcbrt(double x) {
  double root = cbrt(x), square = root * root, low = fma(root, root, -square);
  double cube = square * root;
  double error = ((x - cube) - fma(square, root, -cube) - low * root) / (3 * square);
  return nv_reciprocal(root, isfinite(error) ? error : 0.0);
}

double nv_quadrant(double x, bool cosine) {
  double rest = fmod(x, 2.0), quadrant = rint(2 * rest);
  rest -= quadrant / 2;
  double high = PI * rest, low = fma(PI, rest, -high) + PI_LOW * rest;
  int turn = ((int)quadrant + (cosine ? 1 : 0)) & 3;
  double size = turn & 1 ? cos(high) - low * sin(high) : sin(high) + low * cos(high);
  return turn & 2 ? -size : size;
}

double nv_sinpi(double x) {
  return isfinite(x) && x == trunc(x) ? copysign(0.0, x) : nv_quadrant(x, false);
}

double nv_cospi(double x) {
  double result = nv_quadrant(x, true);
  return result == 0 ? 0.0 : result;
}

double nv_rcp64h(double x) {
  double result = 1 / (fabs(x) < 0x1p-1022 ? copysign(0.0, x) : x);
  if (fabs(result) < 0x1p-1022) result = copysign(0.0, result);
  return as_double(as_ulong(result) & 0xffffffff00000000ul);
}
"""


def _horner(coefficients: Sequence[float], t: str) -> str:
    """Return a polynomial as an expression; coefficients start with the lowest power."""
    text = repr(float(coefficients[-1]))
    for coefficient in coefficients[-2::-1]:
        text = f"({text} * {t} + {coefficient!r})"
    return text


def _macros(text: str, **values: str) -> str:
    """Replace names in capitals by expressions."""
    for name in sorted(values, key=len, reverse=True):
        text = text.replace(name, values[name])
    return text


def _table(name: str, table: Piecewise) -> str:
    """Return a function that evaluates polynomials by interval."""
    count, columns = table.coefficients.shape
    rows = ",\n".join(
        "  {" + ", ".join(map(repr, row)) + "}" for row in table.coefficients.tolist()
    )
    edges, high, low = (
        ", ".join(map(repr, values.tolist()))
        for values in (table.edges[1:-1], table.high, table.low)
    )
    return f"""\
__constant double {name}_edges[{count - 1}] = {{{edges}}};
__constant double {name}_high[{count}] = {{{high}}};
__constant double {name}_low[{count}] = {{{low}}};
__constant double {name}_rows[{count}][{columns}] = {{
{rows}
}};
double {name}(double x) {{
  int index = 0;
  while (index < {count - 1} && x >= {name}_edges[index]) index++;
  double t = (x - {name}_high[index]) - {name}_low[index];
  double result = {name}_rows[index][{columns - 1}];
  for (int k = {columns - 2}; k >= 0; k--) result = result * t + {name}_rows[index][k];
  return result;
}}"""


TABLES: dict[str, Callable[[], Piecewise]] = {
    "nv_erfcx_near": errors.polynomials,
    "nv_lgamma_near": functools.partial(gamma.polynomials, True),
    "nv_gamma_near": functools.partial(gamma.polynomials, False),
    "nv_j0_near": functools.partial(bessel.first_kind, 0, -1),
    "nv_j1_near": functools.partial(bessel.first_kind, 1, -1),
    "nv_i0_near": functools.partial(bessel.first_kind, 0, 1),
    "nv_i1_near": functools.partial(bessel.first_kind, 1, 1),
    "nv_y0_near": functools.partial(bessel.second_kind, 0),
    "nv_y1_near": functools.partial(bessel.second_kind, 1),
}


@functools.cache
def table_text(name: str) -> str:
    """Return the text of a function of `TABLES`; its numbers are computed on the first call."""
    return _table(name, TABLES[name]())


def texts() -> list[str]:
    """Return texts of helper functions, which empty lines separate."""
    number = {
        "ROOT_PI": repr(math.sqrt(math.pi)),
        "ROOT_HALF": repr(math.sqrt(0.5)),
        "ROOT_TWO_PI": repr(math.sqrt(2 * math.pi)),
        "ROOT_TWO": repr(math.sqrt(2)),
        "PI": repr(math.pi),
    }
    hankel = {
        f"HANKEL_{part}{order}": _horner(bessel.hankel(order)[first::step], by)
        for order in (0, 1)
        for part, first, step, by in (
            ("P", 0, 2, "square"),
            ("Q", 1, 2, "square"),
            ("I", 0, 1, "step"),
        )
    }
    regular = {
        f"REGULAR_{order}": _horner(bessel.regular_part(order), "square") for order in (0, 1)
    }
    return [
        INTEGERS,
        libdevice_rounding.TEXT,
        _macros(ELEMENTARY, PI_LOW=repr(trigonometry.PI_LOW), PI=repr(math.pi)),
        *libdevice_rounding.in_modes(),
        *(
            _powi(kind, name, width)
            for kind, name, width in (("float", "f32", "f"), ("double", "f64", ""))
        ),
        _macros(ERRORS, FAR=repr(errors.FAR), **number),
        _macros(
            GAMMA,
            STIRLING=_horner(gamma.stirling(), "square"),
            HALF_LOG=repr(0.5 * math.log(2 * math.pi) - 0.5),
            FIRST=repr(gamma.FIRST),
            LAST=repr(gamma.LAST),
            **number,
        ),
        _macros(
            BESSEL, FAR=repr(bessel.FAR), NEAR=repr(bessel.NEAR), **hankel, **regular, **number
        ),
    ]


def _powi(kind: str, ty: str, suffix: str) -> str:
    one = f"1.0{suffix}"
    inverse = "exact_div_f32(1.0f, result)" if ty == "f32" else f"{one} / result"
    return f"""
{kind} nv_powi_{ty}({kind} x, int n) {{
  {kind} result = {one};
  for (uint bits = n < 0 ? 0u - (uint)n : (uint)n;;) {{
    if (bits & 1) result = result * x;
    bits >>= 1;
    if (bits == 0) break;
    x = x * x;
  }}
  return n < 0 ? {inverse} : result;
}}
"""
