"""Legalize arithmetic that a target lacks."""

from __future__ import annotations

from tile.ir.builder import Builder
from tile.ir.core import Module, Operation
from tile.ir.ops import arith
from tile.ir.passes import module_pass
from tile.ir.types import BF16, F16, F32, Scalar
from tile.simt.target import GENERIC, SimtTarget

NARROW = (F16, BF16)
# No target divides narrow floats.
_QUOTIENTS = {arith.div, arith.div_rn, arith.rem}
_ARITHMETIC = {arith.add, arith.sub, arith.mul, arith.fma}
_COMPARISON = {arith.cmp, arith.min_, arith.max_}


@module_pass("legalize", before=None)
def legalize(module: Module, *, target: SimtTarget = GENERIC) -> None:
    """Compute in f32 what the target cannot compute in narrow floats, and round the result.

    A sum, product, or quotient of narrow floats computed so equals the correctly rounded one, since
    f32 has more than twice their significand bits (Figueroa, "When is double rounding innocuous?",
    1995); `fma` is within its permitted error of one unit in the last place.

        %z = add %x, %y : frag<8xbf16>    %a = cast %x {to = f32} : frag<8xf32>
                                          %b = cast %y {to = f32} : frag<8xf32>
                                          %c = add %a, %b : frag<8xf32>
                                          %z = cast %c {to = bf16} : frag<8xbf16>
    """
    for op in list(module.walk()):
        if _is_lacking(op, target):
            _in_f32(op)


def _is_lacking(op: Operation, target: SimtTarget) -> bool:
    if op.defn in _QUOTIENTS:
        own: tuple[Scalar, ...] = ()
    elif op.defn in _ARITHMETIC:
        own = target.narrow_arithmetic
    elif op.defn in _COMPARISON:
        own = target.narrow_comparison
    else:
        return False
    element = op.inputs[0].type.element
    return element in NARROW and element not in own


def _in_f32(op: Operation) -> None:
    build = Builder.before(op)
    wide = [build(arith.cast, value, to=F32) for value in op.inputs]
    result = build(op.defn, *wide, **op.attributes)
    if op.result.type.element in NARROW:
        result = build(arith.cast, result, to=op.result.type.element)
    op.replace_by([result])
    op.erase()
