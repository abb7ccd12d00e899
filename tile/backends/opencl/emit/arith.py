"""Emit elementwise arithmetic, bitwise operations, shifts, comparison, selection, real functions.

Floats that are held as bits are converted to f32, computed there, and converted back.

Transcendental functions, roots and rounding use the built-in functions of OpenCL C. Their accuracy
is what the device states. For `exp`, `log`, `sin` and others, the specification's error bounds, or
those of the device, are within the bounds of `OpDef.ulp`.
"""

from __future__ import annotations

from tile.backends.opencl.emit.function_builder import FunctionBuilder, Rule, each
from tile.backends.opencl.emit.libdevice import extern_elementwise
from tile.backends.opencl.emit.types import (
    constant,
    is_bits,
    is_integer,
    is_literal,
    natural,
    unsigned,
    value_of,
)
from tile.backends.opencl.target import ROUNDING
from tile.codegen.emitter import forward
from tile.ir.core import Operation
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith, extern, math
from tile.ir.ops.arith import Predicate
from tile.ir.types import F16, F32, F64, I1, Pointer, Scalar, count_of
from tile.simt import ops
from tile.transforms.canonicalize.arith import is_number


def wide(builder: FunctionBuilder, ty: Scalar | Pointer, x: str) -> str:
    """Extend a float of up to 32 bits to f32; return an f64 unchanged."""
    if ty is F32 or ty is F64:
        return x
    if ty is F16 and not is_bits(ty, builder.source.device.fp16):
        return f"(float){x}"
    return f"{builder.use(f'{ty}_to_f32')}({x})"


def narrow(builder: FunctionBuilder, ty: Scalar | Pointer, x: str) -> str:
    """Round an f32 to nearest even; return an f64 unchanged."""
    if ty is F32 or ty is F64:
        return x
    if ty is F16 and not is_bits(ty, builder.source.device.fp16):
        return f"convert_half_rte({x})"
    return f"{builder.use(f'f32_to_{ty}')}({x})"


def plain(x: str) -> str:
    """Return an operand in a form that can follow a minus sign."""
    return f"({x})" if x.startswith("-") else x


def bits_of(builder: FunctionBuilder, ty: Scalar | Pointer, x: str) -> str:
    """Return the bits of a float that is held as a float, in an unsigned integer.

    Without `fneg`, they are the result of a `max` with 0. Intel's compiler expands this function
    after it has made `fneg` of flipped signs, and then removes it.
    """
    bits = f"as_{unsigned(ty.bits)}(({builder.source.carrier(ty)}){x})"
    if builder.source.device.without_fneg:
        return f"max({bits}, ({unsigned(ty.bits)})0)"
    return bits


Element = Scalar | Pointer


def element_of(op: Operation) -> Element:
    """Return the element type of an operation's first operand."""
    return op.inputs[0].type.element


def const(builder: FunctionBuilder, op: Operation) -> None:
    """Emit a constant: its registers are literals, without variables."""
    ty = op.result.type
    builder.source.check(ty.element)
    value = op.attributes.get("value", 0)
    builder.set(op, [constant(value, ty.element, builder.source.device.fp16)] * count_of(ty))


# -- addition, multiplication, bitwise operations


def wrapped(ty: Element, x: str, operator: str, y: str) -> str:
    """Return an integer operation that wraps modulo 2 to the width of its type."""
    if ty.bits >= 32:
        if is_literal(x) and is_literal(y):
            x = f"({unsigned(ty.bits)}){x}"
        return f"{x} {operator} {y}"
    if operator == "*":
        x = f"(uint){x}"  # ushort operands are promoted to int, which their product may overflow
    return f"({unsigned(ty.bits)})({x} {operator} {y})"


def _binary(operator: str, on_bools: str) -> Rule:
    def rule(builder: FunctionBuilder, op: Operation) -> None:
        ty = element_of(op)
        if ty is I1:
            each(builder, op, lambda x, y: f"{x} {on_bools} {y}")
        elif is_integer(ty):
            each(builder, op, lambda x, y: wrapped(ty, x, operator, y))
        elif _is_neg(builder, op):
            neg(builder, op)
        else:
            each(builder, op, lambda x, y: f"{x} {operator} {y}")

    return rule


def _bitwise(operator: str, on_bools: str) -> Rule:
    def rule(builder: FunctionBuilder, op: Operation) -> None:
        symbol = on_bools if element_of(op) is I1 else operator
        each(builder, op, lambda x, y: f"{x} {symbol} {y}")

    return rule


def not_(builder: FunctionBuilder, op: Operation) -> None:
    """Emit a bitwise not; on i1 a logical one."""
    ty = element_of(op)
    if ty is I1:
        each(builder, op, lambda x: f"!{x}")
    else:
        each(builder, op, lambda x: f"({unsigned(ty.bits)})~{x}")


def neg(builder: FunctionBuilder, op: Operation) -> None:
    """Emit a negation; it flips the sign of a NaN, too. The operation may be one of `_is_neg`."""
    ty = element_of(op)
    sign = f"0x{1 << (ty.bits - 1):x}"
    if is_integer(ty):
        each(builder, op, lambda x: f"({unsigned(ty.bits)})(0 - {x})")
    elif is_bits(ty, builder.source.device.fp16):
        each(builder, op, lambda x: f"{x} ^ {sign}")
    elif builder.source.device.without_fneg:
        kind, word = builder.source.carrier(ty), unsigned(ty.bits)
        negated = 1 if op.defn is arith.sub else 0

        def flip(*inputs: str) -> str:
            return f"as_{kind}(({word})({bits_of(builder, ty, inputs[negated])} ^ {sign}))"

        each(builder, op, flip)
    else:
        each(builder, op, lambda x: f"-{plain(x)}")


def _is_neg(builder: FunctionBuilder, op: Operation) -> bool:
    """Return True for x * -1, x / -1 and -0.0 - x where LLVM must not make `fneg` of them."""
    if not builder.source.device.without_fneg:
        return False
    x, y = op.inputs
    if op.defn is arith.sub:
        return is_number(x, -0.0)
    return op.defn is not arith.add and is_number(y, -1.0)


def absolute(builder: FunctionBuilder, op: Operation) -> None:
    """Emit an absolute value; the least integer is its own.

    OpenCL C defines `abs` like this, too, but PoCL 3.0 treats that case as undefined.
    """
    ty = element_of(op)
    if ty.is_int_signed():
        each(builder, op, lambda x: f"({unsigned(ty.bits)})({natural(ty, x)} < 0 ? 0 - {x} : {x})")
    elif is_integer(ty):
        forward(builder, op)
    elif is_bits(ty, builder.source.device.fp16):
        rest = f"0x{(1 << (ty.bits - 1)) - 1:x}"
        each(builder, op, lambda x: f"{x} & {rest}")
    else:
        each(builder, op, lambda x: f"fabs({x})")


# -- division


def _truncated(operator: str, ty: Element, x: str, y: str) -> str:
    """Return C's quotient or remainder.

    The pass `guard-division` has removed the cases that are undefined in C.
    """
    if not ty.is_int_signed():
        return f"{x} {operator} {y}"
    return f"({unsigned(ty.bits)})({natural(ty, x)} {operator} {natural(ty, y)})"


def div(builder: FunctionBuilder, op: Operation) -> None:
    """Emit a division: integers truncate, floats round as the device's `/` does."""
    ty = element_of(op)
    if is_integer(ty):
        each(builder, op, lambda x, y: _truncated("/", ty, x, y))
    elif _is_neg(builder, op):
        neg(builder, op)
    else:
        each(builder, op, lambda x, y: f"{x} / {y}")


def div_rn(builder: FunctionBuilder, op: Operation) -> None:
    """Emit a division of floats that is rounded to nearest on every device."""
    name = rounded(builder, op, "div")
    if name and not _is_neg(builder, op):
        each(builder, op, lambda x, y: f"{name}({x}, {y})")
    else:
        div(builder, op)


def rounded(builder: FunctionBuilder, op: Operation, name: str) -> str:
    """Return the helper for a correctly rounded `div` or `sqrt` of f32.

    Returns "" if the device's built-in operation is correctly rounded.
    """
    device = builder.source.device
    if element_of(op) is F32 and device.assembly >= ROUNDING:
        return builder.use(f"{name}_rn_f32")
    if element_of(op) is F32 and not device.exact_division:
        return builder.use(f"exact_{name}_f32")
    return ""


def rem(builder: FunctionBuilder, op: Operation) -> None:
    """Emit a remainder, which has the sign of the dividend."""
    ty = element_of(op)
    if is_integer(ty):
        each(builder, op, lambda x, y: _truncated("%", ty, x, y))
    else:
        each(builder, op, lambda x, y: f"fmod({x}, {y})")


def mulhi(builder: FunctionBuilder, op: Operation) -> None:
    """Emit the upper half of an integer product."""
    ty = element_of(op)
    each(builder, op, lambda x, y: f"mul_hi({natural(ty, x)}, {natural(ty, y)})")


# -- shifts


def shl(builder: FunctionBuilder, op: Operation) -> None:
    """Emit a left shift; a count of at least the width gives 0."""
    ty = element_of(op)

    def shift(x: str, count: str) -> str:
        if is_literal(count):
            if not 0 <= value_of(count) < ty.bits:
                return "0"
            text = f"{x} << {value_of(count)}"
            if ty.bits >= 32:
                return f"({unsigned(ty.bits)}){text}" if is_literal(x) else text
            return f"({unsigned(ty.bits)})({text})"
        result_type = unsigned(ty.bits)
        shifted = f"({result_type})({x} << ({count} & {ty.bits - 1}))"
        return f"({result_type}){count} < {ty.bits} ? {shifted} : 0"

    each(builder, op, shift)


def shr(builder: FunctionBuilder, op: Operation) -> None:
    """Emit a right shift; a count of at least the width gives 0 or copies of the sign bit."""
    ty = element_of(op)
    result_type = unsigned(ty.bits)

    def shift(x: str, count: str) -> str:
        most = ty.bits - 1
        if ty.is_int_signed():
            if is_literal(count):
                in_range = 0 <= value_of(count) < ty.bits
                amount = str(value_of(count) if in_range else most)
            else:
                amount = f"min(({result_type}){count}, ({result_type}){most})"
            return f"({result_type})({natural(ty, x)} >> {amount})"
        if is_literal(count):
            return f"{x} >> {value_of(count)}" if value_of(count) < ty.bits else "0"
        return f"{count} < {ty.bits} ? ({result_type})({x} >> ({count} & {most})) : 0"

    each(builder, op, shift)


# -- comparison and selection


def _extremum(name: str) -> Rule:
    def rule(builder: FunctionBuilder, op: Operation) -> None:
        ty = element_of(op)
        if is_integer(ty):
            each(builder, op, lambda x, y: f"{name}({natural(ty, x)}, {natural(ty, y)})")
            return
        function = f"f{name}"
        if op["propagate_nan"]:
            function = builder.use(f"nan_{name}_f{64 if ty is F64 else 32}")
        each(builder, op, lambda x, y: f"{function}({x}, {y})")

    return rule


_OPERATORS = {
    Predicate.EQ: "==",
    Predicate.NE: "!=",
    Predicate.LT: "<",
    Predicate.LE: "<=",
    Predicate.GT: ">",
    Predicate.GE: ">=",
}


def cmp(builder: FunctionBuilder, op: Operation) -> None:
    """Emit a comparison: integers by their signedness, floats in f32 or f64."""
    ty = element_of(op)
    operator = _OPERATORS[op["predicate"]]
    if is_integer(ty) and (ty.bits < 32 or operator not in ("==", "!=")):
        each(builder, op, lambda x, y: f"{natural(ty, x)} {operator} {natural(ty, y)}")
    else:
        each(builder, op, lambda x, y: f"{x} {operator} {y}")


def select(builder: FunctionBuilder, op: Operation) -> None:
    """Emit a selection, with a condition for each register."""
    ty = builder.carrier(op.result)
    half = op.result.type.element is F16 and ty == "half"

    def choose(condition: str, x: str, y: str) -> str:
        if x == y or condition == "true":
            return x
        if condition == "false":
            return y
        x, y = builder.hoist_read(ty, x), builder.hoist_read(ty, y)
        return f"{condition} ? (half){x} : (half){y}" if half else f"{condition} ? {x} : {y}"

    each(builder, op, choose)


def _function(name: str) -> Rule:
    def rule(builder: FunctionBuilder, op: Operation) -> None:
        each(builder, op, lambda *operands: f"{name}({', '.join(operands)})")

    return rule


def sqrt_rn(builder: FunctionBuilder, op: Operation) -> None:
    """Emit a square root that is rounded to nearest on every device."""
    name = rounded(builder, op, "sqrt") or "sqrt"
    each(builder, op, lambda x: f"{name}({x})")


RULES: dict[OpDef, Rule] = {
    arith.const: const,
    arith.poison: const,
    arith.hint: forward,
    arith.launder: forward,
    ops.thread.opaque: forward,
    arith.add: _binary("+", "!="),
    arith.sub: _binary("-", "!="),
    arith.mul: _binary("*", "&&"),
    arith.div: div,
    arith.div_rn: div_rn,
    arith.rem: rem,
    arith.neg: neg,
    arith.and_: _bitwise("&", "&&"),
    arith.or_: _bitwise("|", "||"),
    arith.xor: _bitwise("^", "!="),
    arith.not_: not_,
    arith.shl: shl,
    arith.shr: shr,
    arith.mulhi: mulhi,
    arith.fma: _function("fma"),
    arith.min_: _extremum("min"),
    arith.max_: _extremum("max"),
    arith.cmp: cmp,
    arith.select: select,
    math.exp: _function("exp"),
    math.exp2: _function("exp2"),
    math.log: _function("log"),
    math.log2: _function("log2"),
    math.sin: _function("sin"),
    math.cos: _function("cos"),
    math.tanh: _function("tanh"),
    math.erf: _function("erf"),
    math.sqrt: _function("sqrt"),
    math.sqrt_rn: sqrt_rn,
    math.rsqrt: _function("rsqrt"),
    math.floor: _function("floor"),
    math.ceil: _function("ceil"),
    math.abs_: absolute,
    extern.extern_elementwise: extern_elementwise,
}
