"""Rules of dots: by FMAs of one thread, by mma instructions of a warp, and by wgmma."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from tile.errors import CompilationError
from tile.ir.core import Operation, Value
from tile.ir.op_definition import OpDef
from tile.ir.ops import dot as dot_ops
from tile.simt import ops
from tile.simt.hopper.wgmma_layouts import staged_operands
from tile.simt.layouts.axes import Registers, along_axis, inverse, sums
from tile.simt.layouts.dims import REGISTER
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.lower.distribute.context import Context, Rule
from tile.simt.ops.layout_inference import layout_of


def dot(ctx: Context, op: Operation) -> Sequence[Value]:
    """Lower a dot to FMAs of each thread, on registers in row-major order."""
    layouts = [layout_of(value) for value in op.inputs]
    orders = [row_major(layout) for layout in layouts]
    picked = [
        ctx.pick(ctx.of(value), registers=order)
        for value, order in zip(op.inputs, orders, strict=True)
    ]
    acc = elements_along(layouts[2])
    batch = acc[0] if len(acc) == 3 else 1
    sizes = (batch, acc[-2], acc[-1], op.inputs[0].type.shape[-1])
    precision = op["input_precision"]
    result = ctx(ops.mma.fma_dot, *picked, sizes=sizes, input_precision=precision)
    return [ctx.pick(result, registers=inverse(orders[2]))]


@lru_cache(maxsize=1024)
def row_major(layout: LinearLayout) -> Registers:
    """Return the registers in the order of their elements, the last axis fastest.

    Every register bit moves along one axis; `fma_operand_layouts` ensures that.
    """
    bits: list[int] = []
    for axis in reversed(range(len(layout.outs))):
        moves = along_axis(layout, REGISTER, axis)
        bits += [bit for bit, _ in sorted(moves, key=lambda move: move[1])]
    return sums(1 << bit for bit in bits)


@lru_cache(maxsize=1024)
def elements_along(layout: LinearLayout) -> tuple[int, ...]:
    """Return the number of elements that a thread holds along each axis."""
    axes = range(len(layout.outs))
    return tuple([1 << len(along_axis(layout, REGISTER, axis)) for axis in axes])


def mma_dot(ctx: Context, op: Operation) -> Sequence[Value]:
    """Lower a dot to the mma instructions of a warp, repeated over its part of the tile."""
    m, n, k, _ = op["shape"]
    (rows, depth), columns = op.inputs[0].type.shape[-2:], op.inputs[1].type.shape[-1]
    warps = op["warps"][-2:]
    repeats = (max(1, rows // (m * warps[0])), max(1, columns // (n * warps[1])), depth // k)
    attributes = {"shape": op["shape"], "input_precision": op["input_precision"]}
    operands = [ctx.of(value) for value in op.inputs]
    return [ctx(ops.mma.mma, *operands, repeats=repeats, **attributes)]


def wgmma(ctx: Context, op: Operation) -> Sequence[Value]:
    """Lower a wgmma, whose operands are in buffers or in the layout that it takes."""
    for index in staged_operands(op):
        raise CompilationError(
            f"`{op.name}` reads {op.inputs[index].type} from shared memory; an earlier pass should "
            "have stored it there"
        )
    return ctx.clone(op)


RULES: dict[OpDef, Rule] = {
    dot_ops.dot: dot,
    ops.mma.mma_dot: mma_dot,
    ops.wgmma.wgmma: wgmma,
}
