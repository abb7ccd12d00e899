"""Multiply f32 operands that were 16-bit floats, or narrower, as 16-bit floats.

Kernels often widen what they load before a dot, which then rounds its operands to tf32, or splits
them into terms. Numbers of 16-bit floats do not change by that, and are multiplied exactly in
either type, so that the dot of the narrow operands has the same sum. It takes half of the
instructions, registers and shared memory, and wgmma reads operands where they were copied to.
"""

from __future__ import annotations

from tile.ir.builder import Builder
from tile.ir.core import Operation, Value
from tile.ir.module import Module
from tile.ir.op_definition import Level
from tile.ir.ops import arith, dot, shape
from tile.ir.passes import module_pass
from tile.ir.types import (
    BF16,
    F16,
    F32,
    FP8,
    I1,
    I8,
    U8,
    Precision,
    Scalar,
    number_of,
)
from tile.simt.assign.decompose_dots import mma_shapes
from tile.simt.target import GENERIC, SimtTarget

# The types whose numbers are all numbers of a 16-bit type.
_SMALL = (*FP8, I1, I8, U8)
_HELD = {F16: (F16, *_SMALL), BF16: (BF16, *_SMALL)}

_REARRANGING = (shape.trans, shape.reshape, shape.expand_dims, shape.broadcast)


@module_pass("narrow-dots", before=Level.TILE)
def narrow_dots(module: Module, *, target: SimtTarget = GENERIC) -> None:
    """Multiply operands that were widened to f32 in the type that they had, as that is exact.

    That is for dots whose precision permits tensor cores, if these multiply the narrow type.

        %x = cast %a {to = f32}                    %y = trans %b {order = (1, 0)}
        %w = cast %b {to = f32}                    %r = dot %a, %y, %c : tile<16x8xf32>
        %y = trans %w {order = (1, 0)}
        %r = dot %x, %y, %c {input_precision = tf32} : tile<16x8xf32>
    """
    for function in module:
        for op in list(function.walk()):
            if op.defn is dot.dot and op["input_precision"] is not Precision.IEEE:
                _narrow(op, target)


def _narrow(op: Operation, target: SimtTarget) -> None:
    operands = op.inputs[:2]
    if any(number_of(x.type) is not F32 for x in operands):
        return
    sources = [_source(x) for x in operands]
    extents = (*op.result.type.shape[-2:], operands[0].type.shape[-1])
    for element, held in _HELD.items():
        if all(source in held for source in sources) and mma_shapes(target, element, *extents):
            b = Builder.before(op)
            narrow = [_narrowed(b, x, element) for x in operands]
            attributes = {**op.attributes, "input_precision": Precision.IEEE}
            op.replace_by([b(dot.dot, *narrow, op.inputs[2], **attributes)])
            return


def _source(x: Value) -> Scalar | None:
    """Return the type that a value was cast from, if it was only rearranged since."""
    op = x.op
    while op is not None and op.defn in _REARRANGING:
        op = op.inputs[0].op
    return number_of(op.inputs[0].type) if op is not None and op.defn is arith.cast else None


def _narrowed(b: Builder, x: Value, element: Scalar) -> Value:
    """Return a value that was widened as numbers of a type, rearranged as it is."""
    op = x.op
    assert op is not None
    source = op.inputs[0]
    if op.defn is arith.cast:
        return source if number_of(source.type) is element else b(arith.cast, source, to=element)
    return b(op.defn, _narrowed(b, source, element), **op.attributes)
