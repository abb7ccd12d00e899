"""Arithmetic, bits, comparison and selection, one register at a time."""

from __future__ import annotations

from tile.backends.opencl.capabilities import ROUNDING
from tile.backends.opencl.emit.body import Body, Rule, each
from tile.backends.opencl.emit.floats import plain
from tile.backends.opencl.emit.types import (
    constant,
    count_of,
    is_bits,
    is_integer,
    is_literal,
    is_signed,
    natural,
    unsigned,
    value_of,
)
from tile.ir.core import Operation
from tile.ir.opdef import OpDef
from tile.ir.ops import arith
from tile.ir.ops.arith import Predicate
from tile.ir.types import F16, F32, F64, I1, Pointer, Scalar

Element = Scalar | Pointer


def element_of(op: Operation) -> Element:
    """The element type of an operation's first operand."""
    return op.inputs[0].type.element


def const(body: Body, op: Operation) -> None:
    """Literals need no variables."""
    ty = op.result.type
    body.source.check(ty.element)
    value = op.attributes.get("value", 0)
    body.set(op, [constant(value, ty.element, body.source.device.fp16)] * count_of(ty))


def hint(body: Body, op: Operation) -> None:
    """The operand itself."""
    body.set(op, body.of(op.inputs[0]))


# -- sums, products, bits


def wrapped(ty: Element, x: str, operator: str, y: str) -> str:
    """Two integers combined modulo 2 to the width of their type."""
    if ty.bits >= 32:
        if is_literal(x) and is_literal(y):
            x = f"({unsigned(ty.bits)}){x}"
        return f"{x} {operator} {y}"
    if operator == "*":
        x = f"(uint){x}"  # the product of two ushort might not fit int, which they become
    return f"({unsigned(ty.bits)})({x} {operator} {y})"


def _binary(operator: str, on_truths: str) -> Rule:
    def rule(body: Body, op: Operation) -> None:
        ty = element_of(op)
        if ty is I1:
            each(body, op, lambda x, y: f"{x} {on_truths} {y}")
        elif is_integer(ty):
            each(body, op, lambda x, y: wrapped(ty, x, operator, y))
        else:
            each(body, op, lambda x, y: f"{x} {operator} {y}")

    return rule


def _bitwise(operator: str, on_truths: str) -> Rule:
    def rule(body: Body, op: Operation) -> None:
        operator_here = on_truths if element_of(op) is I1 else operator
        each(body, op, lambda x, y: f"{x} {operator_here} {y}")

    return rule


_XOR = _bitwise("^", "!=")


def xor(body: Body, op: Operation) -> None:
    """A sum, where work-items run together and the operands have no bit in common."""
    if body.source.abreast > 1 and body.reach.apart(op):
        each(body, op, lambda x, y: f"{x} + {y}")
    else:
        _XOR(body, op)


def not_(body: Body, op: Operation) -> None:
    """On i1 the other truth."""
    ty = element_of(op)
    if ty is I1:
        each(body, op, lambda x: f"!{x}")
    else:
        each(body, op, lambda x: f"({unsigned(ty.bits)})~{x}")


def neg(body: Body, op: Operation) -> None:
    """Of a NaN, the one with the other sign."""
    ty = element_of(op)
    if is_integer(ty):
        each(body, op, lambda x: f"({unsigned(ty.bits)})(0 - {x})")
    elif is_bits(ty, body.source.device.fp16):
        sign = f"0x{1 << (ty.bits - 1):x}"
        each(body, op, lambda x: f"{x} ^ {sign}")
    else:
        each(body, op, lambda x: f"-{plain(x)}")


def absolute(body: Body, op: Operation) -> None:
    """The magnitude; of the least integer, that integer.

    `abs` of OpenCL C has that one, too, but PoCL 3.0 takes it for undefined.
    """
    ty = element_of(op)
    if is_signed(ty):
        each(body, op, lambda x: f"({unsigned(ty.bits)})({natural(ty, x)} < 0 ? 0 - {x} : {x})")
    elif is_integer(ty):
        hint(body, op)
    elif is_bits(ty, body.source.device.fp16):
        rest = f"0x{(1 << (ty.bits - 1)) - 1:x}"
        each(body, op, lambda x: f"{x} & {rest}")
    else:
        each(body, op, lambda x: f"fabs({x})")


# -- quotients


def _truncated(operator: str, ty: Element, x: str, y: str) -> str:
    """C's own quotient or remainder; `tile/simt/guard_divisors` keeps out what C leaves open."""
    if not is_signed(ty):
        return f"{x} {operator} {y}"
    return f"({unsigned(ty.bits)})({natural(ty, x)} {operator} {natural(ty, y)})"


def div(body: Body, op: Operation) -> None:
    """Of integers towards zero; of floats rounded to nearest, where the device offers that."""
    ty = element_of(op)
    if is_integer(ty):
        each(body, op, lambda x, y: _truncated("/", ty, x, y))
    else:
        each(body, op, lambda x, y: f"{x} / {y}")


def div_rn(body: Body, op: Operation) -> None:
    """Rounded to nearest everywhere."""
    name = rounded(body, op, "div")
    if name:
        each(body, op, lambda x, y: f"{name}({x}, {y})")
    else:
        div(body, op)


def rounded(body: Body, op: Operation, what: str) -> str:
    """The function that rounds a quotient or root of f32; nothing where the built-in one does."""
    device = body.source.device
    if element_of(op) is F32 and device.assembly >= ROUNDING:
        return body.use(f"{what}_rn_f32")
    if element_of(op) is F32 and not device.exact_division:
        return body.use(f"exact_{what}_f32")
    return ""


def rem(body: Body, op: Operation) -> None:
    """With the sign of the dividend."""
    ty = element_of(op)
    if is_integer(ty):
        each(body, op, lambda x, y: _truncated("%", ty, x, y))
    else:
        each(body, op, lambda x, y: f"fmod({x}, {y})")


def fma(body: Body, op: Operation) -> None:
    """Rounded once."""
    each(body, op, lambda x, y, z: f"fma({x}, {y}, {z})")


def mulhi(body: Body, op: Operation) -> None:
    """The upper half of the product."""
    ty = element_of(op)
    each(body, op, lambda x, y: f"mul_hi({natural(ty, x)}, {natural(ty, y)})")


# -- shifts


def shl(body: Body, op: Operation) -> None:
    """0 for a count that is not below the width."""
    ty = element_of(op)

    def shifted(x: str, count: str) -> str:
        if is_literal(count):
            if not 0 <= value_of(count) < ty.bits:
                return "0"
            text = f"{x} << {value_of(count)}"
            if ty.bits >= 32:
                return f"({unsigned(ty.bits)}){text}" if is_literal(x) else text
            return f"({unsigned(ty.bits)})({text})"
        held = unsigned(ty.bits)
        moved = f"({held})({x} << ({count} & {ty.bits - 1}))"
        return f"({held}){count} < {ty.bits} ? {moved} : 0"

    each(body, op, shifted)


def shr(body: Body, op: Operation) -> None:
    """By the width or more, all of the sign."""
    ty = element_of(op)
    held = unsigned(ty.bits)

    def shifted(x: str, count: str) -> str:
        most = ty.bits - 1
        if is_signed(ty):
            if is_literal(count):
                inside = 0 <= value_of(count) < ty.bits
                return f"({held})({natural(ty, x)} >> {value_of(count) if inside else most})"
            return f"({held})({natural(ty, x)} >> min(({held}){count}, ({held}){most}))"
        if is_literal(count):
            return f"{x} >> {value_of(count)}" if value_of(count) < ty.bits else "0"
        return f"{count} < {ty.bits} ? ({held})({x} >> ({count} & {most})) : 0"

    each(body, op, shifted)


# -- comparison and selection


def _extremum(name: str) -> Rule:
    def rule(body: Body, op: Operation) -> None:
        ty = element_of(op)
        if is_integer(ty):
            each(body, op, lambda x, y: f"{name}({natural(ty, x)}, {natural(ty, y)})")
            return
        function = f"f{name}"
        if op["propagate_nan"]:
            function = body.use(f"nan_{name}_f{64 if ty is F64 else 32}")
        each(body, op, lambda x, y: f"{function}({x}, {y})")

    return rule


_OPERATORS = {
    Predicate.EQ: "==",
    Predicate.NE: "!=",
    Predicate.LT: "<",
    Predicate.LE: "<=",
    Predicate.GT: ">",
    Predicate.GE: ">=",
}


def cmp(body: Body, op: Operation) -> None:
    """Integers by their sign, floats in f32 or f64."""
    ty = element_of(op)
    operator = _OPERATORS[op["predicate"]]
    if is_integer(ty) or ty is I1 or isinstance(ty, Pointer):
        same = ty.bits >= 32 and operator in ("==", "!=")
        if same or not is_integer(ty):
            each(body, op, lambda x, y: f"{x} {operator} {y}")
        else:
            each(body, op, lambda x, y: f"{natural(ty, x)} {operator} {natural(ty, y)}")
    else:
        each(body, op, lambda x, y: f"{x} {operator} {y}")


def select(body: Body, op: Operation) -> None:
    """By a condition of each register."""
    held = body.carrier(op.result)

    half = op.result.type.element is F16 and held == "half"

    def chosen(condition: str, x: str, y: str) -> str:
        if x == y or condition == "true":
            return x
        if condition == "false":
            return y
        x, y = body.settled(held, x), body.settled(held, y)
        return f"{condition} ? (half){x} : (half){y}" if half else f"{condition} ? {x} : {y}"

    each(body, op, chosen)


RULES: dict[OpDef, Rule] = {
    arith.const: const,
    arith.poison: const,
    arith.hint: hint,
    arith.add: _binary("+", "!="),
    arith.sub: _binary("-", "!="),
    arith.mul: _binary("*", "&&"),
    arith.div: div,
    arith.div_rn: div_rn,
    arith.rem: rem,
    arith.neg: neg,
    arith.and_: _bitwise("&", "&&"),
    arith.or_: _bitwise("|", "||"),
    arith.xor: xor,
    arith.not_: not_,
    arith.shl: shl,
    arith.shr: shr,
    arith.mulhi: mulhi,
    arith.fma: fma,
    arith.min_: _extremum("min"),
    arith.max_: _extremum("max"),
    arith.cmp: cmp,
    arith.select: select,
}
