"""Float instructions (PTX ISA 8.5, 9.7.3 to 9.7.5).

Approximate instructions have the accuracy of the functions of `tile.language`, or better than that
of the GPU: `tanh.approx` has 11 correct bits there.
"""

from __future__ import annotations

from collections.abc import Callable

from tile.ir.expressions import Expression
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith, math
from tile.ir.ops.arith import Predicate
from tile.ir.types import F32
from tile.transforms.expand_inline_asm.rules import Compute, Opcode, plain, rules

# Rounding modes of PTX, as in libdevice's names; `rn` is the default.
DIRECTED = {"rz": "rz", "rm": "rd", "rp": "ru"}
ROUNDING = "rn rz rm rp"
NARROW = "f16 f16x2 bf16 bf16x2"
FULL = "f32 f64 f32x2"
# The bits of the exponent.
_EXPONENT = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F800000, "f64": 0x7FF << 52}


def arithmetic(compute: Compute) -> Compute:
    """Return `compute` with `ftz` on operands and result, `sat` and `relu` on the result."""

    def apply(op: Opcode, *operands: Expression) -> Expression:
        if op.has("ftz"):
            operands = tuple(map(flushed, operands))
        result = compute(op, *operands)
        if op.has("ftz"):
            result = flushed(result)
        if op.has("sat"):
            result = saturated(result)
        return result.maximum(0.0, propagate_nan=True) if op.has("relu") else result

    return apply


def flushed(x: Expression) -> Expression:
    """Replace subnormal numbers by zeros of their sign."""
    bits = x.unsigned()
    exponent = bits & _EXPONENT[x.element.ir_name]
    sign = 1 << (x.bits - 1)
    return exponent.equals(0).select(bits & sign, bits).view(x.element)


def saturated(x: Expression) -> Expression:
    """Clamp to [0, 1]; a NaN becomes 0."""
    return x.maximum(0.0).minimum(1.0)


def rounded(defn: OpDef, name: str) -> Compute:
    """Return an operation that rounds to nearest, or as the opcode says by libdevice's `name`."""

    def apply(op: Opcode, *operands: Expression) -> Expression:
        x, *others = operands
        mode = op.one_of(DIRECTED)
        if not mode:
            return x.apply(defn, *others)
        return x.call(libdevice(name, x, DIRECTED[mode]), *others)

    return arithmetic(apply)


def libdevice(name: str, x: Expression, mode: str) -> str:
    """Return the name of a function of f32 or f64 with a rounding mode."""
    if name == "fma":
        return f"fma{'f' if x.bits == 32 else ''}_{mode}"
    return f"{'f' if x.bits == 32 else 'd'}{name}_{mode}"


def _reciprocal(op: Opcode, x: Expression) -> Expression:
    mode = op.one_of(DIRECTED)
    if mode:
        return x.call(libdevice("rcp", x, DIRECTED[mode]))
    return x.constant(1.0).apply(arith.div if op.has("approx") else arith.div_rn, x)


def function(defn: OpDef) -> Compute:
    """Return a function of the real numbers; one of a narrow float is computed in f32."""

    def apply(op: Opcode, x: Expression) -> Expression:
        if x.bits >= 32:
            return x.apply(defn)
        return x.cast(F32).apply(defn).cast(x.element)

    return arithmetic(apply)


def extreme(choose: Callable[..., Expression]) -> Compute:
    """Return the minimum or maximum; with `xorsign.abs` of the absolute values."""

    def apply(op: Opcode, x: Expression, y: Expression) -> Expression:
        if not op.has("xorsign"):
            return choose(x, y, propagate_nan=op.has("NaN"))
        size = choose(x.absolute(), y.absolute(), propagate_nan=op.has("NaN"))
        sign = (x.unsigned() ^ y.unsigned()) & (1 << (x.bits - 1))
        return (size.unsigned() ^ sign).view(x.element)

    return arithmetic(apply)


def _copysign(op: Opcode, sign: Expression, size: Expression) -> Expression:
    mask = 1 << (size.bits - 1)
    bits = (sign.unsigned() & mask) | (size.unsigned() & (mask - 1))
    return bits.view(size.element)


def testp(op: Opcode, x: Expression) -> Expression:
    """Return whether a float is of a kind."""
    exponent = x.unsigned() & _EXPONENT[x.element.ir_name]
    top, bottom = exponent.equals(_EXPONENT[x.element.ir_name]), exponent.equals(0)
    return _KINDS[op.modifiers[0]](x, top, bottom)


# Kinds of floats, by whether all bits of the exponent are set, and whether none is.
_KINDS: dict[str, Callable[[Expression, Expression, Expression], Expression]] = {
    "finite": lambda x, top, bottom: ~top,
    "infinite": lambda x, top, bottom: top & x.equals(x),
    "number": lambda x, top, bottom: x.equals(x),
    "notanumber": lambda x, top, bottom: ~x.equals(x),
    "normal": lambda x, top, bottom: ~(top | bottom),
    "subnormal": lambda x, top, bottom: bottom & x.is_(Predicate.NE, 0.0),
}


_REAL = "approx ftz"
_EXTREME = "ftz NaN xorsign abs"
ALL = f"{NARROW} f32 f64"
RULES = [
    *[
        rule
        for name, defn in (("add", arith.add), ("sub", arith.sub), ("mul", arith.mul))
        for rule in (
            *rules(name, FULL, "t: t t", rounded(defn, name), f"{ROUNDING} ftz sat"),
            *rules(name, NARROW, "t: t t", rounded(defn, name), "rn ftz sat"),
        )
    ],
    *rules("fma", FULL, "t: t t t", rounded(arith.fma, "fma"), f"{ROUNDING} ftz sat"),
    *rules("mad", "f32 f64", "t: t t t", rounded(arith.fma, "fma"), f"{ROUNDING} ftz sat"),
    *rules("fma.rn", NARROW, "t: t t t", rounded(arith.fma, "fma"), "ftz sat relu"),
    *rules("div", "f32 f64", "t: t t", rounded(arith.div_rn, "div"), f"{ROUNDING} ftz"),
    *rules("div.approx|full", "f32", "t: t t", arithmetic(plain(arith.div)), "ftz"),
    *rules("rcp", "f32 f64", "t: t", arithmetic(_reciprocal), f"{ROUNDING} {_REAL}"),
    *rules("sqrt.approx", "f32", "t: t", function(math.sqrt), "ftz"),
    *rules("sqrt", "f32 f64", "t: t", rounded(math.sqrt_rn, "sqrt"), f"{ROUNDING} ftz"),
    *rules("rsqrt.approx", "f32 f64", "t: t", function(math.rsqrt), "ftz"),
    *rules("sin.approx", "f32", "t: t", function(math.sin), "ftz"),
    *rules("cos.approx", "f32", "t: t", function(math.cos), "ftz"),
    *rules("lg2.approx", "f32", "t: t", function(math.log2), "ftz"),
    *rules("ex2.approx", f"f32 {NARROW}", "t: t", function(math.exp2), "ftz"),
    *rules("tanh.approx", f"f32 {NARROW}", "t: t", function(math.tanh)),
    *rules("abs", ALL, "t: t", arithmetic(plain(math.abs_)), "ftz"),
    *rules("neg", ALL, "t: t", arithmetic(plain(arith.neg)), "ftz"),
    *rules("min", ALL, "t: t t", extreme(Expression.minimum), _EXTREME),
    *rules("max", ALL, "t: t t", extreme(Expression.maximum), _EXTREME),
    *rules("copysign", "f32 f64", "t: t t", _copysign),
    *rules(f"testp.{'|'.join(_KINDS)}", "f32 f64", "i1: t", testp),
]
