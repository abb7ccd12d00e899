"""Emit arithmetic, comparison and selection, on each register by itself, for any target of LLVM.

`tile/ir/semantics/arith.py` has the reference semantics.
"""

from __future__ import annotations

from collections.abc import Callable

from tile.codegen.emitter import forward
from tile.codegen.llvm.function_builder import FunctionBuilder, Registers, Rule
from tile.codegen.llvm.types import is_integer, is_literal, literal, llvm_type
from tile.ir.core import Operation
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith, math
from tile.ir.ops.arith import Predicate
from tile.ir.types import BF16, F16, F32, F64, I1, Scalar, count_of, number_of


def each(builder: FunctionBuilder, op: Operation, compute: Callable[..., str]) -> None:
    """Compute the result's registers one by one; `compute` takes one register of each operand.

    Equal operands, as in a splat, are computed once.
    """
    columns = [builder.values[value] for value in op.inputs]
    computed: dict[tuple[str, ...], str] = {}
    results: Registers = []
    for registers in zip(*columns, strict=True):
        result = computed.get(registers)
        if result is None:
            result = computed[registers] = compute(*registers)
        results.append(result)
    builder.values[op.results[0]] = results


def instruction(builder: FunctionBuilder, op: Operation, text: str) -> None:
    """Emit one LLVM instruction for each register; `text` is such as `add i32`."""
    new = builder.new
    each(builder, op, lambda *registers: new(f"{text} {', '.join(registers)}"))


def function(builder: FunctionBuilder, op: Operation, name: str, ty: str) -> None:
    """Emit one call for each register; operands and result of the function have type `ty`."""
    each(builder, op, lambda *registers: builder.call(name, ty, *[(ty, r) for r in registers]))


NAN = {F16: "0xH7E00", BF16: "0xR7FC0", F32: "0x7FF8000000000000", F64: "0x7FF8000000000000"}


def element_of(op: Operation) -> Scalar:
    """Return the element type of an operation's first operand, whose elements are numbers."""
    return number_of(op.inputs[0].type)


# -- constants


def const(builder: FunctionBuilder, op: Operation) -> None:
    """A constant is an LLVM operand, not an instruction."""
    ty = op.result.type
    builder.set(op, [literal(op["value"], ty.element)] * count_of(ty))


def poison(builder: FunctionBuilder, op: Operation) -> None:
    """Zero: LLVM's own `poison` would permit more than an arbitrary value."""
    ty = op.result.type
    builder.set(op, [literal(0, ty.element)] * count_of(ty))


# -- binary operations

_I1 = {arith.add: "xor i1", arith.sub: "xor i1", arith.mul: "and i1"}


def arithmetic(builder: FunctionBuilder, op: Operation) -> None:
    """Emit `add`, `sub` or `mul`: integers wrap, floats are contracted if the launch allows it."""
    element = element_of(op)
    if element is I1:
        return instruction(builder, op, _I1[op.defn])
    ty = llvm_type(element)
    if op.defn is arith.mul and is_integer(element):
        return each(builder, op, lambda x, y: _multiplied(builder, ty, x, y))
    if op.defn is arith.add and element.is_int_signed():
        return each(builder, op, lambda x, y: _added(builder, ty, x, y))
    if is_integer(element):
        return instruction(builder, op, f"{op.name} {ty}")
    return instruction(builder, op, f"f{op.name} {builder.module.fp_contract}{ty}")


def as_sum(builder: FunctionBuilder, x: str) -> tuple[str, int]:
    """Return the name that a number differs from by a constant, and the constant."""
    return builder.sums.get(x) or builder.constant_offsets.get(x, (x, 0))


def _added(builder: FunctionBuilder, ty: str, x: str, y: str) -> str:
    """Add signed integers, and remember which sums differ by constants.

    The later ones are those of addresses, which have one base then (`addptr`). In the language a
    sum that overflows on the way to an address is an error.
    """
    total = builder.new(f"add {ty} {x}, {y}")
    if is_literal(x) or is_literal(y):
        (name, start), number = (
            (as_sum(builder, y), x) if is_literal(x) else (as_sum(builder, x), y)
        )
        builder.sums[total] = name, start + int(number)
        return total
    (left, first), (right, second) = as_sum(builder, x), as_sum(builder, y)
    first_total = builder.cached(f"{left} + {right}", lambda: total)
    before = builder.constant_terms.setdefault((left, right, first_total), first + second)
    if first + second != before:
        builder.sums[total] = first_total, first + second - before
    return total


def _multiplied(builder: FunctionBuilder, ty: str, x: str, y: str) -> str:
    """Multiply integers; LLVM recognizes a product of extended ones within a block only."""
    if x in builder.extensions and y in builder.extensions:
        x, y = (_extended_here(builder, name) for name in (x, y))
    return builder.new(f"mul {ty} {x}, {y}")


def _extended_here(builder: FunctionBuilder, name: str) -> str:
    """Return an extended number, as an instruction of the current block."""
    block, text = builder.extensions[name]
    if block == builder.block:
        return name
    return builder.cached(f"{builder.block}: {text}", lambda: builder.new_unique(text))


def division(builder: FunctionBuilder, op: Operation) -> None:
    """Divide: integers toward zero, floats rounded to nearest."""
    element = element_of(op)
    if is_integer(element):
        return integer_division(builder, op, element)
    return division_rn(builder, op)


def division_rn(builder: FunctionBuilder, op: Operation) -> None:
    """Divide floats, rounded to nearest."""
    return instruction(builder, op, f"fdiv {llvm_type(element_of(op))}")


def integer_division(builder: FunctionBuilder, op: Operation, element: Scalar) -> None:
    """Divide in at least 32 bits; `guard-division` excludes what LLVM leaves undefined."""
    kind = ("s" if element.is_int_signed() else "u") + op.name
    ty = llvm_type(element)
    if element.bits >= 32:
        return instruction(builder, op, f"{kind} {ty}")
    extend = "sext" if element.is_int_signed() else "zext"

    def divide(x: str, y: str) -> str:
        x, y = (builder.new(f"{extend} {ty} {value} to i32") for value in (x, y))
        return builder.new(f"trunc i32 {builder.new(f'{kind} i32 {x}, {y}')} to {ty}")

    return each(builder, op, divide)


def remainder(builder: FunctionBuilder, op: Operation) -> None:
    """Compute a remainder, which is exact for floats."""
    element = element_of(op)
    if is_integer(element):
        return integer_division(builder, op, element)
    return instruction(builder, op, f"frem {llvm_type(element)}")


def fma(builder: FunctionBuilder, op: Operation) -> None:
    """Multiply and add with one rounding."""
    element = element_of(op)
    function(builder, op, f"@llvm.fma.{suffix(element)}", llvm_type(element))


def suffix(element: Scalar) -> str:
    """Return the spelling of a type in the names of LLVM's intrinsics."""
    return element.ir_name if not is_integer(element) else f"i{element.bits}"


# -- bits


def bitwise(builder: FunctionBuilder, op: Operation) -> None:
    """Emit `and` or `or`."""
    instruction(builder, op, f"{op.name} {llvm_type(element_of(op))}")


def xor(builder: FunctionBuilder, op: Operation) -> None:
    """Emit `xor`; see `xor_constant`."""
    ty = llvm_type(element_of(op))

    def compute(x: str, y: str) -> str:
        if is_literal(y) and ty == "i32" and int(y) >= 0:
            return xor_constant(builder, x, int(y))
        return builder.new(f"xor {ty} {x}, {y}")

    each(builder, op, compute)


def xor_constant(builder: FunctionBuilder, x: str, constant: int) -> str:
    """XOR a name with a constant, and remember that the result differs from another by it.

    Of a sum with a constant, whose bits are disjoint, the other summand alone: registers whose
    indices differ by constants then share the XOR, and still do.
    """
    base, offset = builder.constant_offsets.get(x, (x, 0))
    changed, remaining = constant & ~offset, offset & ~constant
    if changed:
        result = builder.new(f"xor i32 {base}, {changed}")
        builder.constant_xors[result] = base, changed
        base = result
    if not remaining:
        return base
    total = builder.new(f"or disjoint i32 {base}, {remaining}")
    builder.constant_offsets[total] = base, remaining
    return total


def negate(builder: FunctionBuilder, op: Operation) -> None:
    """Negate: integers wrap, floats change their sign, NaNs too."""
    element = element_of(op)
    ty = llvm_type(element)
    text = f"sub {ty} 0," if is_integer(element) else f"fneg {ty}"
    each(builder, op, lambda x: builder.new(f"{text} {x}"))


def shift(builder: FunctionBuilder, op: Operation) -> None:
    """Shift; a count outside the width counts as the width, which LLVM's own shifts leave open.

    PTX defines shifts the same way, but takes counts of 32 bits. LLVM 22 removes the comparison
    with the width even where it truncates a 64-bit count, so such a count is clamped first.
    """
    element = element_of(op)
    ty, bits = llvm_type(element), element.bits
    signed = op.defn is arith.shr and element.is_int_signed()
    kind = "shl" if op.defn is arith.shl else "ashr" if signed else "lshr"

    def at_most(count: str, limit: int) -> str:
        return builder.call(f"@llvm.umin.{ty}", ty, (ty, count), (ty, str(limit)))

    def compute(x: str, count: str) -> str:
        if is_literal(count) and 0 <= int(count) < bits:
            return builder.new(f"{kind} {ty} {x}, {count}")
        if signed:
            return builder.new(f"ashr {ty} {x}, {at_most(count, bits - 1)}")
        if bits > 32:
            count = at_most(count, bits)
        inside = builder.new(f"icmp ult {ty} {count}, {bits}")
        shifted = builder.new(f"{kind} {ty} {x}, {count}")
        return builder.new(f"select i1 {inside}, {ty} {shifted}, {ty} 0")

    each(builder, op, compute)


def high_half(builder: FunctionBuilder, op: Operation) -> None:
    """Return the high half of a product, computed in twice the width."""
    element = element_of(op)
    ty, wide = llvm_type(element), f"i{2 * element.bits}"
    extend, right = ("sext", "ashr") if element.is_int_signed() else ("zext", "lshr")

    def multiply(x: str, y: str) -> str:
        x, y = (builder.new(f"{extend} {ty} {value} to {wide}") for value in (x, y))
        product = builder.new(f"mul {wide} {x}, {y}")
        high = builder.new(f"{right} {wide} {product}, {element.bits}")
        return builder.new(f"trunc {wide} {high} to {ty}")

    each(builder, op, multiply)


# -- comparison and selection

_UNORDERED = {Predicate.NE: "une"}


def extremum(builder: FunctionBuilder, op: Operation) -> None:
    """Emit `min` or `max`; if one operand is a NaN, the other one, unless `propagate_nan`."""
    element = element_of(op)
    ty = llvm_type(element)
    if is_integer(element):
        sign = "s" if element.is_int_signed() else "u"
        return function(builder, op, f"@llvm.{sign}{op.name}.{ty}", ty)
    name = f"@llvm.{op.name}num.{suffix(element)}"

    def compute(x: str, y: str) -> str:
        result = builder.call(name, ty, (ty, x), (ty, y))
        if op["propagate_nan"]:
            unordered = builder.new(f"fcmp uno {ty} {x}, {y}")
            result = builder.new(f"select i1 {unordered}, {ty} {NAN[element]}, {ty} {result}")
        return result

    return each(builder, op, compute)


def compare(builder: FunctionBuilder, op: Operation) -> None:
    """Compare; a comparison with a NaN is false, except `ne`."""
    element = op.inputs[0].type.element
    predicate = op["predicate"]
    ty = llvm_type(element)
    if not is_integer(element):
        kind = _UNORDERED.get(predicate, f"o{predicate}")
        return instruction(builder, op, f"fcmp {kind} {ty}")
    signed = "s" if element.is_int_signed() else "u"
    sign = "" if predicate in (Predicate.EQ, Predicate.NE) else signed
    return instruction(builder, op, f"icmp {sign}{predicate} {ty}")


def select(builder: FunctionBuilder, op: Operation) -> None:
    """Select one of two values that are both computed."""
    ty = llvm_type(op.result.type.element)

    def choose(condition: str, x: str, y: str) -> str:
        if x == y:
            return x
        return builder.new(f"select i1 {condition}, {ty} {x}, {ty} {y}")

    each(builder, op, choose)


def magnitude(builder: FunctionBuilder, op: Operation) -> None:
    """Return the absolute value; the least integer is its own."""
    element = element_of(op)
    ty = llvm_type(element)
    if is_integer(element):
        if not element.is_int_signed():
            return forward(builder, op)
        return each(
            builder, op, lambda x: builder.call(f"@llvm.abs.{ty}", ty, (ty, x), ("i1", "false"))
        )
    if element is not BF16:
        return function(builder, op, f"@llvm.fabs.{suffix(element)}", ty)

    def clear(x: str) -> str:
        bits = builder.new(f"bitcast bfloat {x} to i16")
        return builder.new(f"bitcast i16 {builder.new(f'and i16 {bits}, 32767')} to bfloat")

    return each(builder, op, clear)


# -- real functions

# Those that LLVM expands to instructions where a target has them, exact or correctly rounded.
EXACT = {
    math.sqrt: "sqrt",
    math.sqrt_rn: "sqrt",
    math.floor: "floor",
    math.ceil: "ceil",
}
_INTRINSICS = {
    **EXACT,
    math.exp: "exp",
    math.exp2: "exp2",
    math.log: "log",
    math.log2: "log2",
    math.sin: "sin",
    math.cos: "cos",
}


def intrinsic(builder: FunctionBuilder, op: Operation) -> None:
    """Call an intrinsic."""
    element = element_of(op)
    name = f"@llvm.{_INTRINSICS[op.defn]}.{suffix(element)}"
    function(builder, op, name, llvm_type(element))


RULES: dict[OpDef, Rule] = {
    arith.const: const,
    arith.poison: poison,
    arith.hint: forward,
    arith.add: arithmetic,
    arith.sub: arithmetic,
    arith.mul: arithmetic,
    arith.div: division,
    arith.div_rn: division_rn,
    arith.rem: remainder,
    arith.fma: fma,
    arith.and_: bitwise,
    arith.or_: bitwise,
    arith.xor: xor,
    arith.neg: negate,
    arith.shl: shift,
    arith.shr: shift,
    arith.mulhi: high_half,
    arith.min_: extremum,
    arith.max_: extremum,
    arith.cmp: compare,
    arith.select: select,
    **dict.fromkeys(_INTRINSICS, intrinsic),
    math.abs_: magnitude,
}
