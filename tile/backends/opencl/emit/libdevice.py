"""The functions of libdevice in OpenCL C.

Most are built-in functions, or expressions of them. The others are helper functions
(`libdevice_functions`). Functions of f32 whose built-in is not as accurate as CUDA's, or that has
none, are computed in f64: a device without f64 lacks them.
"""

from __future__ import annotations

from tile.backends.opencl.emit.function_builder import FunctionBuilder, each
from tile.backends.opencl.emit.types import is_integer, natural, unsigned
from tile.ir.core import Operation
from tile.ir.ops.extern import symbol_of
from tile.ir.semantics.libdevice import Symbol
from tile.ir.semantics.libdevice.rounding import MODES
from tile.ir.semantics.libdevice.table import CONVERSIONS
from tile.ir.types import F32, F64, Scalar

SUFFIX = {"rn": "rte", "rz": "rtz", "rd": "rtn", "ru": "rtp"}

# Built-in functions of the same name, for f32 and f64.
BUILT_IN = (
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh exp exp10 exp2 expm1 fdim "
    "floor fma fmod hadd hypot isinf isnan lgamma log log10 log2 logb nextafter pow remainder "
    "rhadd rint round rsqrt signbit sin sinh sqrt tan tanh tgamma trunc"
)

# Expressions by function; {x}, {y}, ... are the operands.
EXPRESSIONS = {
    "nearbyint": "rint({x})",
    "scalbn": "ldexp({x}, {y})",
    "ldexp": "ldexp({x}, {y})",
    "log1p": "fabs({x}) < 0x1p-54f ? {x} : log1p({x})",  # PoCL flushes subnormal numbers
    "ilogb": "{x} == 0 || isnan({x}) ? INT_MIN : isinf({x}) ? INT_MAX : ilogb({x})",
    "saturatef": "{x} > 0 ? fmin({x}, 1.0f) : 0.0f",
    "finitef": "isfinite({x})",
    "isfinited": "isfinite({x})",
    "popc": "popcount({x})",
    "clz": "clz({x})",
    "mulhi": "mul_hi({x}, {y})",
    "sad": "abs_diff({x}, {y}) + {z}",
    "int_as_float": "as_float({x})",
    "uint_as_float": "as_float({x})",
    "float_as_int": "as_uint({x})",
    "float_as_uint": "as_uint({x})",
    "longlong_as_double": "as_double({x})",
    "double_as_longlong": "as_ulong({x})",
    "hiloint2double": "as_double((ulong)(uint){x} << 32 | (uint){y})",
    "double2loint": "(uint)as_ulong({x})",
    "double2hiint": "(uint)(as_ulong({x}) >> 32)",
    "int2double_rn": "(double){x}",
    "uint2double_rn": "(double){x}",
    "fast_dividef": "{x} / {y}",
    "fast_expf": "exp({x})",
    "fast_exp10f": "exp10({x})",
    "fast_logf": "log({x})",
    "fast_log2f": "log2({x})",
    "fast_log10f": "log10({x})",
    "fast_powf": "pow({x}, {y})",
    "fast_sinf": "sin({x})",
    "fast_cosf": "cos({x})",
    "fast_tanf": "tan({x})",
    "fast_tanhf": "tanh({x})",
}

_NAMES = "xyzw"


def extern_elementwise(builder: FunctionBuilder, op: Operation) -> None:
    """Emit a function of libdevice."""
    symbol = symbol_of(op["symbol"])
    text = _text(builder, symbol)
    cast = f"({unsigned(symbol.result.bits)})" if is_integer(symbol.result) else ""

    def call(*registers: str) -> str:
        operands = {
            name: _operand(register, ty)
            for name, register, ty in zip(_NAMES, registers, symbol.operands, strict=False)
        }
        result = text.format(**operands)
        return f"{cast}({result})" if cast else result

    each(builder, op, call)


def _operand(register: str, ty: Scalar) -> str:
    """Return an operand with its C type, also a literal: built-in functions are overloaded."""
    if is_integer(ty):
        kind = "int" if ty.bits == 32 else "long"
        return f"({'' if ty.is_int_signed() else 'u'}{kind}){natural(ty, register)}"
    return f"({register})"


def _text(builder: FunctionBuilder, symbol: Symbol) -> str:
    """Return an expression of the operands {x}, {y}, {z} and {w}."""
    name = symbol.function
    ty = symbol.operands[0]
    if name == "abs" and ty in (F32, F64):
        return "fabs({x})"
    operands = ", ".join(f"{{{operand}}}" for operand in _NAMES[: len(symbol.operands)])
    if name == "pow" and symbol.operands[1] not in (F32, F64):
        return f"{builder.use(f'nv_powi_{ty}')}({operands})"
    if name in EXPRESSIONS:
        return EXPRESSIONS[name]
    if name in BUILT_IN.split():
        return f"{name}({operands})"
    if name in _CONVERSIONS:
        return _conversion(symbol)
    if name.rpartition("_")[2] in MODES:
        return f"{builder.use(f'nv_{name}_{ty}')}({operands})"
    if symbol.result in (F32, F64):
        call = f"{builder.use(f'nv_{name}')}({operands})"
        return f"(float){call}" if symbol.result is F32 else call
    return f"{builder.use(f'nv_{name}_{ty}')}({operands})"


_CONVERSIONS = {s.function for s in CONVERSIONS}
_TARGETS = {"int": "int", "uint": "uint", "ll": "long", "ull": "ulong"}


def _conversion(symbol: Symbol) -> str:
    """Return a conversion; a NaN becomes the integer that PTX defines."""
    name = symbol.function
    if name in ("llrint", "llround"):
        operand = "{x}" if name == "llrint" else "round({x})"
        kind, mode = "long", "rte" if name == "llrint" else "rtz"
    else:
        operand = "{x}"
        target, _, suffix = name.partition("2")[2].partition("_")
        mode = SUFFIX[suffix]
        if target in ("float", "double"):
            return f"convert_{target}_{mode}({{x}})"
        kind = _TARGETS[target]
    bits = 64 if kind.endswith("long") else 32
    nan = "0" if bits == 32 and symbol.operands[0] is F32 else f"({kind})1 << {bits - 1}"
    return f"isnan({{x}}) ? {nan} : convert_{kind}_sat_{mode}({operand})"
