"""Legalize operations that a target's emitter has no rule for."""

from __future__ import annotations

from collections.abc import Callable

from tile.ir.builder import Builder
from tile.ir.core import Operation, Value
from tile.ir.effects import constant_of
from tile.ir.module import Module
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith, math
from tile.ir.ops.arith import Predicate
from tile.ir.passes import module_pass
from tile.ir.types import F32, I1, I32, NARROW_FLOATS, number_of
from tile.simt.lower.fp8_casts import expand_cast, is_emulated
from tile.simt.target import GENERIC, SimtTarget
from tile.transforms.expressions import Expression, operands


@module_pass("legalize", before=None)
def legalize(module: Module, *, target: SimtTarget = GENERIC) -> None:
    """Replace operations that the target's emitter has no rule for (`SimtTarget.ops`).

    An operation without a rule is expanded (`EXPANSIONS`), or left for the emitter to refuse at the
    user's line. Casts of 8-bit floats that no machine has become integer operations. An operation
    whose rule does not take the narrow floats of its operands is computed in f32, and its result
    rounded. A sum, product, or quotient of narrow floats computed so equals the correctly rounded
    one, since f32 has more than twice their significand bits (Figueroa, "When is double rounding
    innocuous?", 1995); an `fma` is rounded to odd first (`fma_to_odd`).

        %z = add %x, %y : frag<8xbf16>    %a = cast %x {to = f32} : frag<8xf32>
                                          %b = cast %y {to = f32} : frag<8xf32>
                                          %c = add %a, %b : frag<8xf32>
                                          %z = cast %c {to = bf16} : frag<8xbf16>
    """
    for op in list(module.walk()):
        expand = EXPANSIONS.get(op.defn)
        if is_emulated(op):
            op.replace_by([expand_cast(Builder.before(op), op)])
            op.erase()
        elif expand is not None and not target.ops.has(op.defn):
            op.replace_by([expand(Builder.before(op), op)])
            op.erase()
    for op in list(module.walk()):
        if target.ops.computes_in_f32(op):
            _in_f32(op)


def _complement(build: Builder, op: Operation) -> Value:
    (x,) = op.inputs
    element = number_of(x.type)
    ones = True if element is I1 else -1 if element.signed else element.max_value
    return build(arith.xor, x, build(arith.const, value=ones, result=x.type))


def _rsqrt(build: Builder, op: Operation) -> Value:
    (x,) = op.inputs
    one = build(arith.const, value=1.0, result=x.type)
    return build(arith.div_rn, one, build(math.sqrt_rn, x))


# How operations are computed by others, which may be expanded or legalized in turn.
EXPANSIONS: dict[OpDef, Callable[[Builder, Operation], Value]] = {
    arith.not_: _complement,
    math.rsqrt: _rsqrt,
}


def _in_f32(op: Operation) -> None:
    wide = [_widened(x) for x in operands(op)]
    x = wide[0]
    result = (
        fma_to_odd(*wide) if op.defn is arith.fma else x.apply(op.defn, *wide[1:], **op.attributes)
    )
    if op.result.type.element in NARROW_FLOATS:
        result = result.cast(op.result.type.element)
    op.replace_by([result.value])
    op.erase()


def _widened(x: Expression) -> Expression:
    """Extend a value to f32, which is exact; a constant stays one."""
    number = constant_of(x.value)
    return x.cast(F32) if number is None else x.constant(number, F32)


def fma_to_odd(x: Expression, y: Expression, z: Expression) -> Expression:
    """Return x * y + z of f32 that were narrow floats, rounded to odd.

    Rounding the result to the narrow float then equals one rounding of the exact value, since f32
    has at least two bits more (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums:
    proved algorithms using rounding to odd", 2008). Products are exact, but for those of bf16 below
    2^-133. Where one overflows, the sum is exact or infinite.

        %s = fma %x, %y, %z     // to nearest
        %e = ..                 // the error of the sum of the product and %z (Knuth)
        %s +- 1 bit             // towards the exact value, where %e is not 0 and %s is even
    """
    total = x.apply(arith.fma, y, z)
    product = x * y
    part = total - product
    error = product - (total - part) + (z - part)
    # Towards the error, where the sum is even and the error smaller than a sum that is a number.
    bits = total.view(I32)
    even = (bits & 1).equals(0)
    inexact = error.is_(Predicate.NE, 0.0)
    within = error.absolute() < total.absolute()
    alike = (bits ^ error.view(I32)) >= 0
    step = alike.select(bits.constant(1), -1)
    return (bits + (even & inexact & within).select(step, 0)).view(total.element)
