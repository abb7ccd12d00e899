"""Distribute a dot over the warps and lanes of a program.

Where the target has an mma instruction for the elements and the tiles are large enough, warps
execute it together: as warpgroups of four warps (wgmma) if the target has such instructions
(`wgmma_layouts`), else each warp by itself. Without one, each thread computes a dot of its own by
FMA. The sub-tile of a warp or thread is as square as possible, so that each element of an operand
is reused as often as possible.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tile.analysis.axis_info import AxisInfoResult, contiguous_axis
from tile.analysis.dot_tiles import multiplied_depth, used_columns
from tile.ir.builder import Builder
from tile.ir.core import Function, Operation, Value
from tile.ir.ops import arith, dot
from tile.ir.ops.dot import UNLIMITED
from tile.ir.types import F16, F32, Precision, number_of
from tile.simt.assign.decompose_dots import decompose_dots, has_own_warps, mma_shapes
from tile.simt.hopper.wgmma_layouts import (
    REGISTER_OPERAND_BITS,
    a_operand_layout,
    is_imprecise,
    wgmma_instruction,
)
from tile.simt.layouts.blocked import blocked
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.layouts.mma_fragments import (
    MmaShape,
    Operand,
    fma_operand_layouts,
    matrix_layout,
)
from tile.simt.ops.mma import mma_dot
from tile.simt.ops.wgmma import wgmma, wgmma_wait
from tile.simt.target import SimtTarget

# wgmma has any multiple of these columns.
WGMMA_COLUMNS, WGMMA_INTEGER_COLUMNS = 8, 16

_matrix_layout = lru_cache(maxsize=1024)(matrix_layout)
_fma_operand_layouts = lru_cache(maxsize=1024)(fma_operand_layouts)


@dataclass(frozen=True)
class DotTiling:
    """The sizes of a warp's and of a thread's sub-tile of a dot.

    `warp_rows` warps of a program share the rows of the result, and the others its columns; 0
    derives it from the tile's shape. Without mma instructions, a thread's sub-tile is made of
    squares of at most `thread_tile` by `thread_tile` elements; with four of f32, an access to
    shared memory has its full width of 128 bits.
    """

    thread_tile: int = 4
    warp_rows: int = 0
    thread_columns: int = 0  # of a sub-tile that is not a square, whose rows are `thread_tile`

    @property
    def part(self) -> tuple[int, int]:
        """The most rows and columns of a thread's sub-tile."""
        return self.thread_tile, self.thread_columns or self.thread_tile


def mma_instruction(op: Operation, target: SimtTarget, num_warps: int) -> MmaShape | None:
    """Return the largest mma instruction of a target for a `dot`; None if none fits."""
    a, acc = op.inputs[0].type, op.inputs[2].type
    element = number_of(a)
    if element is F32 and op["input_precision"] is not Precision.TF32:
        return None
    if a.rank != 2 and not has_own_warps(op, target, num_warps):
        return None
    m, n, k = (*acc.shape[-2:], a.shape[-1])
    fitting = mma_shapes(target, element, m, n, k)
    return max(fitting, key=lambda shape: (shape.m * shape.n * shape.k, shape), default=None)


def square_grid(extents: Sequence[int], least: Sequence[int], count: int) -> tuple[int, ...]:
    """Return how many of `count` workers share each axis, for sub-tiles as square as possible.

    A sub-tile has at least `least` elements along each axis; excess workers go to the first axis.
    """
    sub_tile = list(extents)
    grid = [1] * len(sub_tile)
    for _ in range(count.bit_length() - 1):
        wide = [axis for axis, size in enumerate(sub_tile) if size > least[axis]]
        axis = max(wide, key=lambda axis: (sub_tile[axis], -axis), default=0)
        sub_tile[axis] //= 2
        grid[axis] *= 2
    return tuple(grid)


def mma_warps(
    extents: Sequence[int],
    shape: MmaShape,
    num_warps: int,
    *,
    rows: bool,
    tiling: DotTiling = DotTiling(),
) -> tuple[int, int]:
    """Return how many warps share the rows and the columns of the result of an mma dot.

    With `rows`, all warps share the rows if there are enough rows. Each warp then has whole rows,
    and values computed from them can be the `a` operand of another dot, in the same registers.
    """
    if tiling.warp_rows:
        return tiling.warp_rows, num_warps // tiling.warp_rows
    if rows and extents[0] >= shape.m * num_warps:
        return num_warps, 1
    m, n = square_grid(extents, (shape.m, shape.n), num_warps)
    return m, n


@lru_cache(maxsize=1024)
def fma_accumulator_layout(
    extents: tuple[int, ...],
    lanes: int,
    num_warps: int,
    tiling: DotTiling = DotTiling(),
    simd_width: int = 1,
) -> LinearLayout:
    """Return the layout of the accumulator of an FMA dot; the axes are (batch,) m, n.

    `simd_width` lanes, the width of a vector instruction, hold adjacent columns of one row.
    """
    batch = extents[:-2]
    warps = _shared_out(batch, extents[-2:], num_warps)
    if tiling.warp_rows and not batch:
        warps = [tiling.warp_rows, num_warps // tiling.warp_rows]
    part = [max(1, extent // count) for extent, count in zip(extents, warps, strict=True)]
    across = min(simd_width, lanes, part[-1])
    rest = [*part[:-1], part[-1] // across]
    threads = _shared_out(rest[:-2], rest[-2:], lanes // across)
    part = [max(1, extent // count) for extent, count in zip(rest, threads, strict=True)]
    own = (min(size, most) for size, most in zip(part[-2:], tiling.part, strict=True))
    micro = [*(1 for _ in batch), *own]
    if across > 1:
        threads[-1] *= across
        micro[-1] = 1
        return blocked(extents, micro, threads, warps)
    return _alternating(blocked(extents, micro, threads, warps), threads)


def _alternating(layout: LinearLayout, threads: Sequence[int]) -> LinearLayout:
    """Let lanes alternate between two rows before they move along the columns.

    Lanes that differ in one of the two lowest bits then load the same vectors of one operand, which
    shared memory serves together: 2048 cubed in float32 takes 374 us so, and 389 if all lanes of a
    row follow each other (H200, 2026-11-30).
    """
    if threads[-2] == 1:
        return layout
    across = threads[-1].bit_length() - 1
    lane, bits = layout.ins[1]
    moved = (bits[across], *bits[:across], *bits[across + 1 :])
    return LinearLayout((layout.ins[0], (lane, moved), *layout.ins[2:]), layout.outs)


def _shared_out(batch: Sequence[int], extents: Sequence[int], count: int) -> list[int]:
    """Return the number of workers per axis, batch axes first, as they share no operands."""
    grid = []
    for extent in batch:
        grid.append(min(extent, count))
        count //= grid[-1]
    return [*grid, *square_grid(extents, [1] * len(extents), count)]


@dataclass(frozen=True)
class DotLayouts:
    """The layouts of a dot's operands; the layout of the accumulator is also the result's.

    An operand of None may have any layout.
    """

    operands: tuple[LinearLayout | None, LinearLayout | None]
    result: LinearLayout


def replace_dots(
    function: Function,
    axes: AxisInfoResult,
    target: SimtTarget,
    num_warps: int,
    usual: DotTiling = DotTiling(),
    own: Mapping[Operation, DotTiling] | None = None,
) -> dict[Operation, DotLayouts]:
    """Replace each `dot` for which the target has instructions by a `wgmma` or a `mma_dot`.

    Dots that decompose into such are decomposed before (`decompose_dots`). `own` has the tiling of
    those dots whose is not `usual`.

    Return the layouts of all dots. The values have no layouts yet.
    """
    decompose_dots(function, target, num_warps)
    chained = _chained(function)
    dots: dict[Operation, DotLayouts] = {}
    for op in list(function.walk()):
        if op.defn is not dot.dot:
            continue
        tiling = usual if own is None else own.get(op, usual)
        instruction = wgmma_instruction(op, target, num_warps, tiling.warp_rows)
        if instruction is None and is_imprecise(op.inputs[0].type.element, target):
            instruction = wgmma_instruction(op, target, num_warps, tiling.warp_rows, F16)
            op = op if instruction is None else _of_f16(op)
        shape = mma_instruction(op, target, num_warps)
        if instruction is not None:
            columns = _used_columns(op, *instruction)
            dots |= _by_groups(op, *instruction, axes, target, columns)
        elif shape is None:
            dots[op] = _by_threads(op, target, num_warps, tiling)
        else:
            extents, rows = op.result.type.shape, op in chained
            batch, extents = extents[:-2], extents[-2:]
            each = num_warps // math.prod(batch)
            warps = (*batch, *mma_warps(extents, shape, each, rows=rows, tiling=tiling))
            new = _matrix_dot(op, shape, warps)
            dots[new] = _by_warps(new, shape, warps)
    return dots


def _matrix_dot(op: Operation, shape: MmaShape, warps: tuple[int, ...]) -> Operation:
    b = Builder.before(op)
    precision = op["input_precision"]
    new = b.op(mma_dot, *op.inputs, shape=shape, warps=warps, input_precision=precision)
    op.replace_by(new.results)
    return new


def _by_warps(op: Operation, shape: MmaShape, warps: tuple[int, ...]) -> DotLayouts:
    left, right, result = (
        _matrix_layout(value.type.shape, shape, operand, warps)
        for value, operand in zip(op.inputs, Operand, strict=True)
    )
    return DotLayouts((left, right), result)


def _of_f16(op: Operation) -> Operation:
    """Replace a `dot` of 8-bit floats by one of f16, which is exact and accumulates in full."""
    b = Builder.before(op)
    a, right = (b(arith.cast, value, to=F16) for value in op.inputs[:2])
    new = b.op(dot.dot, a, right, op.inputs[2], **op.attributes)
    op.replace_by(new.results)
    return new


def _by_groups(
    op: Operation,
    shape: MmaShape,
    warpgroups: tuple[int, int],
    axes: AxisInfoResult,
    target: SimtTarget,
    columns: int,
) -> dict[Operation, DotLayouts]:
    """Replace the dot by a wgmma and an immediate wait for it.

    An `a` operand that the instruction cannot read from memory as it is comes from registers, if
    each of these has one element.

    Where the hardware accumulates with reduced precision, and `max_num_imprecise_acc` limits that,
    the wgmma starts from zero, and its result is added to the accumulator in full precision.
    """
    b = Builder.before(op)
    a, right, acc = op.inputs
    how = {"shape": shape, "warpgroups": warpgroups, "input_precision": op["input_precision"]}
    if columns < op.result.type.shape[-1]:
        how["columns"] = columns
    if (depth := multiplied_depth(op)) < a.type.shape[-1]:
        how["depth"] = depth
    apart = is_imprecise(a.type.element, target) and op["max_num_imprecise_acc"] < UNLIMITED
    begun = b.op(wgmma, a, right, b.constant(0, acc.type) if apart else acc, **how)
    done = b(wgmma_wait, begun.result, pending=0)
    op.replace_by([b(arith.add, acc, done) if apart else done])
    layout = _matrix_layout(begun.result.type.shape, shape, Operand.ACCUMULATOR, warpgroups)
    loaded = a.type.element.storage_bits in REGISTER_OPERAND_BITS and contiguous_axis(a, axes) == -2
    left = a_operand_layout(begun, a.type.shape) if loaded else None
    return {begun: DotLayouts((left, None), layout)}


def _used_columns(op: Operation, shape: MmaShape, warpgroups: tuple[int, int]) -> int:
    """Return how many columns wgmma computes of a dot: those used, if they are one tile."""
    columns = int(op.result.type.shape[-1])
    if columns != shape.n or warpgroups[1] > 1:
        return columns
    used = used_columns(op.result) or columns
    step = WGMMA_COLUMNS if op.result.type.element.is_floating() else WGMMA_INTEGER_COLUMNS
    return -(-used // step) * step


def _by_threads(op: Operation, target: SimtTarget, num_warps: int, tiling: DotTiling) -> DotLayouts:
    result = fma_accumulator_layout(
        op.result.type.shape, target.warp_size, num_warps, tiling, target.simd_width
    )
    return DotLayouts(_fma_operand_layouts(result, op.inputs[0].type.shape[-1]), result)


def _chained(function: Function) -> set[Operation]:
    """Return the dots whose result reaches an operand of another dot, and those users."""
    made: dict[Value, frozenset[Operation]] = {}  # the dots that a value is computed from
    chained: set[Operation] = set()
    none: frozenset[Operation] = frozenset()
    for op in function.walk():
        if op.defn is dot.dot:
            before = none.union(*(made.get(value, none) for value in op.inputs[:2]))
            if before:
                chained |= before | {op}
            made[op.result] = frozenset({op})
        elif not op.regions:
            before = none.union(*(made.get(value, none) for value in op.inputs))
            if before:
                made.update(dict.fromkeys(op.results, before))
    return chained
