"""Helper functions in OpenCL C for the functions of libdevice that OpenCL lacks.

Their texts are in `library/`, except those that are computed here: tables of polynomials, and
arithmetic in the rounding modes, in which the sign of the error of a result rounded to nearest
decides if the adjacent number is the result. The numbers are those of
`tile/ir/semantics/libdevice`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

from tile.backends.opencl.emit.library import source
from tile.ir.semantics.libdevice import bessel, elementary, errors, gamma
from tile.ir.semantics.libdevice.piecewise import Piecewise
from tile.ir.semantics.libdevice.rounding import MODES


def _horner(coefficients: Sequence[float], t: str) -> str:
    """Return a polynomial as an expression; coefficients start with the lowest power."""
    text = repr(float(coefficients[-1]))
    for coefficient in coefficients[-2::-1]:
        text = f"({text} * {t} + {coefficient!r})"
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
    pi = repr(math.pi)
    roots = {
        "ROOT_PI": repr(math.sqrt(math.pi)),
        "ROOT_HALF": repr(math.sqrt(0.5)),
        "ROOT_TWO_PI": repr(math.sqrt(2 * math.pi)),
        "ROOT_TWO": repr(math.sqrt(2)),
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
    stirling = _horner(gamma.stirling(), "square")
    half_log = 0.5 * math.log(2 * math.pi) - 0.5
    return [
        source("bits.cl"),
        source("rounding.cl"),
        *_in_modes(),
        *(_powi(*each) for each in (("float", "f32", "f"), ("double", "f64", ""))),
        source("elementary.cl", PI=pi, PI_LOW=elementary.PI_LOW),
        source("errors.cl", PI=pi, FAR=errors.FAR, **roots),
        source(
            "gamma.cl",
            PI=pi,
            STIRLING=stirling,
            HALF_LOG=half_log,
            FIRST=gamma.FIRST,
            LAST=gamma.LAST,
            **roots,
        ),
        source("bessel.cl", PI=pi, FAR=bessel.FAR, NEAR=bessel.NEAR, **hankel, **regular),
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


_NEAREST = {
    "add": ("x, y", "x + y"),
    "sub": ("x, y", "x - y"),
    "mul": ("x, y", "x * y"),
    "div": ("x, y", "x / y"),
    "sqrt": ("x", "sqrt(x)"),
    "fma": ("x, y, z", "fma(x, y, z)"),
}
_EXACT_F32 = {"div": "exact_div_f32(x, y)", "sqrt": "exact_sqrt_f32(x)"}
_DIRECTED = {
    "rz": "error < 0 && r > 0 ? nextafter(r, -INF) : error > 0 && r < 0 ? nextafter(r, INF) : r",
    "rd": "error < 0 ? nextafter(r, -INF) : r",
    "ru": "error > 0 ? nextafter(r, INF) : r",
}
# Where the exact result is zero, rounding down gives -0.
_ZERO = {
    "add": "r == 0 && error == 0 && signbit(x) != signbit(y)",
    "fma": "r == 0 && error == 0 && (signbit(x) != signbit(y)) != signbit(z)",
}


def _in_modes() -> list[str]:
    """Return arithmetic in each rounding mode."""
    result = []
    for kind, ty in (("float", "f32"), ("double", "f64")):
        infinity = f"({kind})INFINITY"
        for name, (operands, nearest) in _NEAREST.items():
            parameters = ", ".join(f"{kind} {operand}" for operand in operands.split(", "))
            value = _EXACT_F32.get(name, nearest) if ty == "f32" else nearest
            for mode in MODES:
                head = f"\n{kind} nv_{name}_{mode}_{ty}({parameters})"
                if mode == "rn":
                    result.append(f"{head} {{\n  return {value};\n}}\n")
                    continue
                if name == "sub":
                    result.append(f"{head} {{\n  return nv_add_{mode}_{ty}(x, -y);\n}}\n")
                    continue
                directed = _DIRECTED[mode].replace("INF", infinity)
                zero = (
                    f"  if ({_ZERO[name]}) return -fabs(r);\n"
                    if mode == "rd" and name in _ZERO
                    else ""
                )
                result.append(
                    f"{head} {{\n  {kind} r = {value};\n"
                    f"  double error = nv_{name}_error_{ty}({operands}, r);\n{zero}"
                    f"  return {directed};\n}}\n"
                )
        for mode in MODES:
            result.append(
                f"\n{kind} nv_rcp_{mode}_{ty}({kind} x) {{\n"
                f"  return nv_div_{mode}_{ty}(1, x);\n}}\n"
            )
    return result
