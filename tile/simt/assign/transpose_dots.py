"""Compute a dot as the transpose of another one, whose operands wgmma takes without a copy.

wgmma reads 32-bit operands from shared memory K-major only, but takes `a` from registers, where
each thread holds single elements of it. So an MN-major `b` had better be `a`: a thread then loads
its elements from the buffer that memory was copied to, and nothing is stored again.
"""

from __future__ import annotations

from tile.analysis.axis_info import AxisInfoResult, axis_info
from tile.ir.builder import Builder
from tile.ir.core import Level, Module, Operation, Value
from tile.ir.effects import constant_of
from tile.ir.ops import control, dot, memory, shape
from tile.ir.passes import module_pass
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
        axes = axis_info(function)
        for op in [op for op in function.walk() if op.defn is dot.dot]:
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
    return _contiguous_axis(a, axes) == 1 and _contiguous_axis(b, axes) == 1


def _contiguous_axis(value: Value, axes: AxisInfoResult) -> int | None:
    """Return the axis along which a loaded matrix is contiguous in memory, or None."""
    op = value.op
    if op is not None and op.defn is shape.trans:
        axis = _contiguous_axis(op.inputs[0], axes)
        return None if axis is None else op["order"].index(axis)
    if op is None or op.defn is not memory.load or value.type.rank != 2:
        return None
    rows, columns = axes.of(op["ptr"]).contiguous
    return None if rows == columns else int(columns > rows)


def _transpose(op: Operation) -> None:
    """Replace a dot by the transpose of a dot of transposed operands."""
    build = Builder.before(op)
    a, b, acc = (build(shape.trans, value, order=_SWAP) for value in op.inputs)
    result = build(shape.trans, build(dot.dot, b, a, acc, **op.attributes), order=_SWAP)
    op.replace_by([result])
    transposed: Operation | None = acc.op
    while transposed is not None:
        transposed = _carry(transposed)


def _carry(transposed: Operation) -> Operation | None:
    """Let a loop carry the transpose of a value that nothing else uses; return that of its init."""
    (value,) = transposed.inputs
    number, loop = constant_of(value), value.block.parent
    if number is not None:
        build = Builder.before(transposed)
        transposed.replace_by([build.constant(number, transposed.result.type)])
        return None
    if value.op is not None or loop is None or loop.defn is not control.for_ or not value.index:
        return None
    (body,), index = loop.regions, value.index - 1
    end, last = body.yielded[index].op, body.last
    if end is None or end.defn is not shape.trans or len(value.uses) > 1:
        return None
    assert last is not None
    last.set_operand(index, end.inputs[0])
    if not end.result.uses:
        end.erase()
    init = Builder.before(loop)(shape.trans, loop.operands[_FIRST_INIT + index], order=_SWAP)
    loop.set_operand(_FIRST_INIT + index, init)
    result = loop.results[index]
    uses = list(result.uses)
    value.type = result.type = init.type
    transposed.replace_by([value])
    if uses:
        whole = Builder.after(loop)(shape.trans, result, order=_SWAP)
        for user, position in uses:
            user.set_operand(position, whole)
    return init.op
