"""Compute a dot as the transpose of another one, whose operands wgmma takes without a copy.

wgmma reads 32-bit operands from shared memory K-major only, but takes `a` from registers, where
each thread holds single elements of it. So an MN-major `b` had better be `a`: a thread then loads
its elements from the buffer that memory was copied to, and nothing is stored again.
"""

from __future__ import annotations

from collections.abc import Iterator

from tile.analysis.axis_info import AxisInfoResult, axis_info, contiguous_axis
from tile.ir.builder import Builder
from tile.ir.core import Operation, Value
from tile.ir.effects import constant_of
from tile.ir.module import Module
from tile.ir.op_definition import Level
from tile.ir.ops import control, dot, shape
from tile.ir.passes import module_pass
from tile.ir.types import with_shape
from tile.simt.hopper.wgmma_layouts import REGISTER_OPERAND_BITS, wgmma_instruction
from tile.simt.target import GENERIC, SimtTarget

_SWAP = (1, 0)  # the order of the axes of a transposed matrix
_FIRST_INIT = len(control.for_.operands)


@module_pass("transpose-dots", before=Level.TILE)
def transpose_dots(
    module: Module, *, target: SimtTarget = GENERIC, num_warps: int = 4, warp_rows: int = 0
) -> None:
    """Transpose dots whose `b` operand wgmma reads only as the `a` of the transposed dot.

    These are dots of 32-bit elements with `a` contiguous along k and `b` contiguous along n in
    memory. A loop that only accumulates to the dot carries the transposed accumulator.

        %r = for .. iter(%c = %0) {                %r = for .. iter(%c = %0) {
          %a = load %p : tile<64x32xf32>             %a = load %p : tile<64x32xf32>
          %b = load %q : tile<32x128xf32>            %b = load %q : tile<32x128xf32>
          %d = dot %a, %b, %c                        %x = trans %b {order = (1, 0)}
          yield %d                                   %y = trans %a {order = (1, 0)}
        }                                            %d = dot %x, %y, %c
                                                     yield %d
                                                   }
                                                   %s = trans %r {order = (1, 0)}
    """
    if not (target.wgmma_shapes and target.tuning.transposed_dots):
        return
    for function in module:
        dots = [op for op in function.walk() if op.defn is dot.dot]
        axes = axis_info(function) if dots else None
        for op in dots:
            assert axes is not None
            instructions = [
                wgmma_instruction(op, target, num_warps, warp_rows, transposed=transposed)
                for transposed in (False, True)
            ]
            if None not in instructions and _gains(op, axes):
                _transpose(op)


def _gains(op: Operation, axes: AxisInfoResult) -> bool:
    """Return True if memory has `a` contiguous along k and `b` contiguous along n."""
    a, b = op.inputs[:2]
    if a.type.rank != 2 or a.type.element.storage_bits not in REGISTER_OPERAND_BITS:
        return False
    return contiguous_axis(a, axes) == contiguous_axis(b, axes) == -1


def _transpose(op: Operation) -> None:
    """Replace a dot by the transpose of a dot of transposed operands."""
    a, b, acc = op.inputs
    carried = list(_carried(acc, op.result))
    build = Builder.before(op)
    left, right = (
        _spread(build, build(shape.trans, b, order=_SWAP)),
        build(shape.trans, a, order=_SWAP),
    )
    if not carried:
        total = build(dot.dot, left, right, _to(build, acc), **op.attributes)
        op.replace_by([_back(build, total)])
        return
    for loop, index in carried:
        for value in (loop.regions[0].args[1 + index], loop.results[index]):
            value.type = with_shape(value.type.shape[::-1], value.type.element)
    op.replace_by([build(dot.dot, left, right, acc, **op.attributes)])
    outermost, index = carried[-1]
    init = _to(Builder.before(outermost), outermost.inputs[_FIRST_INIT + index])
    outermost.set_operand(_FIRST_INIT + index, init)
    result = outermost.results[index]
    uses = list(result.uses)
    if uses:
        whole = _back(Builder.after(outermost), result)
        for user, position in uses:
            user.set_operand(position, whole)


def _carried(acc: Value, result: Value) -> Iterator[tuple[Operation, int]]:
    """Yield the loops that carry an accumulator for a dot alone, and its position in each."""
    while True:
        loop = acc.block.parent
        if acc.op is not None or loop is None or loop.defn is not control.for_ or not acc.index:
            return
        index = acc.index - 1
        if len(acc.uses) > 1 or list(result.uses) != [(loop.regions[0].last, index)]:
            return
        yield loop, index
        acc, result = loop.inputs[_FIRST_INIT + index], loop.results[index]


def _to(build: Builder, value: Value) -> Value:
    """Return an accumulator as the transposed dot has it."""
    number = constant_of(value)
    if number is not None:
        return build.constant(number, with_shape(value.type.shape[::-1], value.type.element))
    return _spread(build, build(shape.trans, value, order=_SWAP))


def _back(build: Builder, value: Value) -> Value:
    """Return the accumulator of a transposed dot as others have it."""
    return build(shape.trans, _spread(build, value, _GATHER), order=_SWAP)


# Rows of the transposed dot, which are columns of b, are reordered in blocks of 32: bits 2 and 3 of
# their numbers with bit 4. The 8 rows that lanes read at a time are then 4 vectors apart in memory,
# so that they are in different banks if vectors are swizzled by the row of b.
_BLOCK = 32
_SPREAD, _GATHER = (2, 4, 4), (4, 2, 4)


def _spread(build: Builder, value: Value, parts: tuple[int, int, int] = _SPREAD) -> Value:
    """Reorder the rows of a matrix in blocks: exchange the first two of some axes of a block."""
    rows, columns = value.type.shape
    split = build(shape.reshape, value, shape=(rows // _BLOCK, *parts, columns))
    return build(
        shape.reshape, build(shape.trans, split, order=(0, 2, 1, 3, 4)), shape=(rows, columns)
    )
