"""Arithmetic, comparison and selection; see `tile/ir/numerics` for what each must give."""

from __future__ import annotations

from tile.backends.nvptx.emit.assembler import assemble
from tile.backends.nvptx.emit.body import Body, Rule
from tile.backends.nvptx.emit.elementwise import each, function, instruction
from tile.backends.nvptx.emit.types import (
    count_of,
    is_integer,
    is_literal,
    is_signed,
    literal,
    llvm_type,
    number_of,
)
from tile.backends.nvptx.target import REGISTERS
from tile.ir.core import Operation
from tile.ir.effects import constant_of
from tile.ir.opdef import OpDef
from tile.ir.ops import arith, math
from tile.ir.ops.arith import Predicate
from tile.ir.types import BF16, F16, F32, F64, I1, Scalar
from tile.simt import ops

NAN = {F16: "0xH7E00", BF16: "0xR7FC0", F32: "0x7FF8000000000000", F64: "0x7FF8000000000000"}


def element_of(op: Operation) -> Scalar:
    """The element of an operation's first operand, which is a number."""
    return number_of(op.inputs[0].type)


# -- constants


def const(body: Body, op: Operation) -> None:
    """A constant is an operand of LLVM's, not an instruction."""
    ty = op.result.type
    body.set(op, [literal(op["value"], ty.element)] * count_of(ty))


def poison(body: Body, op: Operation) -> None:
    """Zero: LLVM's own `poison` would let it do more than give any value."""
    ty = op.result.type
    body.set(op, [literal(0, ty.element)] * count_of(ty))


def same(body: Body, op: Operation) -> None:
    """A hint says something of its operand, and is that."""
    body.set(op, body.of(op.inputs[0]))


# -- operations of two numbers

_I1 = {arith.add: "xor i1", arith.sub: "xor i1", arith.mul: "and i1"}


def arithmetic(body: Body, op: Operation) -> None:
    """`add`, `sub` and `mul`: integers wrap, floats may be fused if the launch allows it."""
    element = element_of(op)
    if element is I1:
        return instruction(body, op, _I1[op.defn])
    ty = llvm_type(element)
    if is_integer(element):
        return instruction(body, op, f"{op.name} {ty}")
    return instruction(body, op, f"f{op.name} {body.module.fused}{ty}")


def division(body: Body, op: Operation) -> None:
    """Integers towards zero; f32 within 2 units in the last place, as `div` allows."""
    element = element_of(op)
    if is_integer(element):
        return _integer_division(body, op, element)
    if element is F64:
        return instruction(body, op, "fdiv double")
    if element is F32 and constant_of(op.inputs[0]) == 1:
        return _reciprocal(body, op)

    def divide(x: str, y: str) -> str:
        return assemble(body, "div.full.f32 $0, $1, $2;", ["float"], [("float", x), ("float", y)])[
            0
        ]

    return each(body, op, divide)


def _reciprocal(body: Body, op: Operation) -> None:
    """One over f32 by an instruction within 1 unit in the last place; of a root, within 2."""
    x = op.inputs[1]
    kind = "rcp"
    if x.op is not None and x.op.defn is math.sqrt:
        (x,), kind = x.op.inputs, "rsqrt"
    text = f"{kind}.approx.f32 $0, $1;"
    registers = body.of(x)
    found = {y: assemble(body, text, ["float"], [("float", y)])[0] for y in registers}
    body.set(op, [found[y] for y in registers])


def division_rn(body: Body, op: Operation) -> None:
    """Rounded to nearest."""
    return instruction(body, op, f"fdiv {llvm_type(element_of(op))}")


def _integer_division(body: Body, op: Operation, element: Scalar) -> None:
    """In 32 bits at least; `tile/simt/guard_divisors` keeps out what LLVM leaves open."""
    kind = ("s" if is_signed(element) else "u") + op.name
    ty = llvm_type(element)
    if element.bits >= 32:
        return instruction(body, op, f"{kind} {ty}")
    extend = "sext" if is_signed(element) else "zext"

    def divide(x: str, y: str) -> str:
        x, y = (body.new(f"{extend} {ty} {value} to i32") for value in (x, y))
        return body.new(f"trunc i32 {body.new(f'{kind} i32 {x}, {y}')} to {ty}")

    return each(body, op, divide)


def remainder(body: Body, op: Operation) -> None:
    """Of floats by libdevice, which gives the exact remainder."""
    element = element_of(op)
    if is_integer(element):
        return _integer_division(body, op, element)
    name, ty = ("__nv_fmod", "double") if element is F64 else ("__nv_fmodf", "float")
    body.module.libraries.add(name)

    return each(body, op, lambda x, y: body.call(f"@{name}", ty, (ty, x), (ty, y)))


def fma(body: Body, op: Operation) -> None:
    """Rounded once."""
    element = element_of(op)
    function(body, op, f"@llvm.fma.{_suffix(element)}", llvm_type(element))


def _suffix(element: Scalar) -> str:
    """The name of a type in the names of LLVM's intrinsics."""
    return element.name if not is_integer(element) else f"i{element.bits}"


# -- bits


def bitwise(body: Body, op: Operation) -> None:
    """`and` and `or`."""
    instruction(body, op, f"{op.name} {llvm_type(element_of(op))}")


def exclusive(body: Body, op: Operation) -> None:
    """`xor`; of indices that differ by constants from one, that one first, if registers are few.

    They take one register then until something else is XORed, such as the number of a round, and
    an instruction more, where the assembler unrolls the rounds and knows that number.
    """
    ty = llvm_type(element_of(op))
    few = any(_takes_most_registers(other) for other in op.block or ())

    def cross(x: str, y: str) -> str:
        middle, apart = body.sums.get(x, (x, 0))
        base, by = body.crossed.get(middle, (middle, 0))
        if not few or base == x or is_literal(y):
            return body.new(f"xor {ty} {x}, {y}")
        both = body.new(f"xor {ty} {base}, {y}")
        found = body.new(f"xor {ty} {both}, {by | apart}")
        body.crossed[found] = both, by | apart
        return found

    each(body, op, cross)


def _takes_most_registers(op: Operation) -> bool:
    """Whether an operation is a product whose sums are in more than half of a thread's registers.

    There are 32 bits in a register.
    """
    if op.defn is not ops.matrix.thread_dot:
        return False
    sums = op.result.type
    return 2 * count_of(sums) * sums.element.bits > 32 * REGISTERS


def complement(body: Body, op: Operation) -> None:
    """All bits but those that are set."""
    element = element_of(op)
    ty = llvm_type(element)
    ones = "true" if element is I1 else "-1"
    each(body, op, lambda x: body.new(f"xor {ty} {x}, {ones}"))


def negate(body: Body, op: Operation) -> None:
    """Integers wrap; of floats the sign changes, of NaNs too."""
    element = element_of(op)
    ty = llvm_type(element)
    text = f"sub {ty} 0," if is_integer(element) else f"fneg {ty}"
    each(body, op, lambda x: body.new(f"{text} {x}"))


def shift(body: Body, op: Operation) -> None:
    """A count outside the width is taken as the width, which LLVM's own shifts leave open.

    PTX takes it so, too, but has counts of 32 bits. LLVM 22 leaves the comparison with the width to
    PTX even where it cuts a count of 64 bits short, so that one is made to fit before.
    """
    element = element_of(op)
    ty, bits = llvm_type(element), element.bits
    signed = op.defn is arith.shr and is_signed(element)
    kind = "shl" if op.defn is arith.shl else "ashr" if signed else "lshr"

    def at_most(count: str, limit: int) -> str:
        return body.call(f"@llvm.umin.{ty}", ty, (ty, count), (ty, str(limit)))

    def compute(x: str, count: str) -> str:
        if is_literal(count) and 0 <= int(count) < bits:
            return body.new(f"{kind} {ty} {x}, {count}")
        if signed:
            return body.new(f"ashr {ty} {x}, {at_most(count, bits - 1)}")
        if bits > 32:
            count = at_most(count, bits)
        inside = body.new(f"icmp ult {ty} {count}, {bits}")
        shifted = body.new(f"{kind} {ty} {x}, {count}")
        return body.new(f"select i1 {inside}, {ty} {shifted}, {ty} 0")

    each(body, op, compute)


_HIGH = {(32, True): "i", (32, False): "ui", (64, True): "ll", (64, False): "ull"}


def high_half(body: Body, op: Operation) -> None:
    """The high half of a product."""
    element = element_of(op)
    name = f"@llvm.nvvm.mulhi.{_HIGH[element.bits, is_signed(element)]}"
    function(body, op, name, llvm_type(element))


# -- comparison and selection

_UNORDERED = {Predicate.NE: "une"}


def extremum(body: Body, op: Operation) -> None:
    """`min` and `max`; of a number and a NaN the number, or with `propagate_nan` the NaN."""
    element = element_of(op)
    ty = llvm_type(element)
    if is_integer(element):
        sign = "s" if is_signed(element) else "u"
        return function(body, op, f"@llvm.{sign}{op.name}.{ty}", ty)
    propagate = op["propagate_nan"]
    direct = propagate and element is not F64 and body.module.arch.capability >= 80
    name = f"@llvm.{op.name}{'imum' if direct else 'num'}.{_suffix(element)}"

    def compute(x: str, y: str) -> str:
        found = body.call(name, ty, (ty, x), (ty, y))
        if propagate and not direct:
            missing = body.new(f"fcmp uno {ty} {x}, {y}")
            found = body.new(f"select i1 {missing}, {ty} {NAN[element]}, {ty} {found}")
        return found

    return each(body, op, compute)


def compare(body: Body, op: Operation) -> None:
    """A comparison with a NaN is false, but for `ne`."""
    element = op.inputs[0].type.element
    predicate = op["predicate"]
    ty = llvm_type(element)
    if not is_integer(element):
        kind = _UNORDERED.get(predicate, f"o{predicate}")
        return instruction(body, op, f"fcmp {kind} {ty}")
    sign = "" if predicate in (Predicate.EQ, Predicate.NE) else "s" if is_signed(element) else "u"
    return instruction(body, op, f"icmp {sign}{predicate} {ty}")


def select(body: Body, op: Operation) -> None:
    """One of two, which are both there."""
    ty = llvm_type(op.result.type.element)

    def choose(condition: str, x: str, y: str) -> str:
        if x == y:
            return x
        return body.new(f"select i1 {condition}, {ty} {x}, {ty} {y}")

    each(body, op, choose)


def magnitude(body: Body, op: Operation) -> None:
    """Without the sign; the least integer stays."""
    element = element_of(op)
    ty = llvm_type(element)
    if is_integer(element):
        if not is_signed(element):
            return same(body, op)
        return each(body, op, lambda x: body.call(f"@llvm.abs.{ty}", ty, (ty, x), ("i1", "false")))
    if element is not BF16:
        return function(body, op, f"@llvm.fabs.{_suffix(element)}", ty)

    def clear(x: str) -> str:
        bits = body.new(f"bitcast bfloat {x} to i16")
        return body.new(f"bitcast i16 {body.new(f'and i16 {bits}, 32767')} to bfloat")

    return each(body, op, clear)


RULES: dict[OpDef, Rule] = {
    arith.const: const,
    arith.poison: poison,
    arith.hint: same,
    arith.add: arithmetic,
    arith.sub: arithmetic,
    arith.mul: arithmetic,
    arith.div: division,
    arith.div_rn: division_rn,
    arith.rem: remainder,
    arith.fma: fma,
    arith.and_: bitwise,
    arith.or_: bitwise,
    arith.xor: exclusive,
    arith.not_: complement,
    arith.neg: negate,
    arith.shl: shift,
    arith.shr: shift,
    arith.mulhi: high_half,
    arith.min_: extremum,
    arith.max_: extremum,
    arith.cmp: compare,
    arith.select: select,
}
