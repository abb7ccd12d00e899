"""Register layouts of the operands of mma and wgmma instructions, and of FMA dots.

An instruction multiplies an m x k matrix by a k x n matrix and adds to an m x n accumulator. In
each of the three, every bit of the register, lane and warp number is one bit of the row or column,
and a fragment lists them, lowest bit first. So "n0 m3 | n1 n2 m0 m1 m2" means: bit 0 of the
register is bit 0 of the column, bit 1 of the register is bit 3 of the row, bit 0 of the lane is bit
1 of the column, and so on. The fragments are those of the PTX ISA.

    >>> matrix_fragment(MmaShape(8, 8, 4, 64), Operand.LEFT)
    #linear{register = [], lane = [[0,1],[0,2],[1,0],[2,0],[4,0]], warp = [] -> dim0 = 8, dim1 = 4}

The operand layouts of an FMA dot follow from the layout of its accumulator. For each element of the
accumulator that it holds, a thread holds the whole row of the `a` operand and the whole column of
the `b` operand. Lanes and warps that differ only in columns therefore hold copies of the rows of
`a`.

    >>> from tile.simt.layouts.blocked import blocked
    >>> left, right = fma_operand_layouts(blocked([4, 4], [1, 2], [4, 2], [1, 1]), 2)
    >>> left
    #linear{register = [[0,1]], lane = [[0,0],[1,0],[2,0]], warp = [] -> dim0 = 4, dim1 = 2}
    >>> right
    #linear{register = [[0,1],[1,0]], lane = [[0,2],[0,0],[0,0]], warp = [] -> dim0 = 2, dim1 = 4}
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tile.ir.types import require as require_type
from tile.simt.layouts.blocked import cover
from tile.simt.layouts.dims import LANE, REGISTER, WARP, LayoutError, axis_name, require
from tile.simt.layouts.linear_layout import LinearLayout, identity1d, zeros1d


class Operand(enum.Enum):
    """An operand of a dot; the value names its axes."""

    LEFT = "mk"
    RIGHT = "kn"
    ACCUMULATOR = "mn"


class MmaShape(NamedTuple):
    """The shape of an mma instruction, and the bits of an element of its operands."""

    m: int
    n: int
    k: int
    bits: int

    def __str__(self) -> str:
        return f"m{self.m}n{self.n}k{self.k} of {self.bits} bits"


# Operand a of the instructions of one warp, register | lane. Operands of 8 and 16 bits have their
# elements contiguous in k in one 32-bit register.
_MMA = {
    MmaShape(8, 8, 4, 64): "| k0 k1 m0 m1 m2",
    MmaShape(16, 8, 4, 64): "m3 | k0 k1 m0 m1 m2",
    MmaShape(16, 8, 8, 64): "m3 k2 | k0 k1 m0 m1 m2",
    MmaShape(16, 8, 16, 64): "m3 k2 k3 | k0 k1 m0 m1 m2",
    MmaShape(16, 8, 4, 32): "m3 | k0 k1 m0 m1 m2",
    MmaShape(16, 8, 8, 32): "m3 k2 | k0 k1 m0 m1 m2",
    MmaShape(16, 8, 8, 16): "k0 m3 | k1 k2 m0 m1 m2",
    MmaShape(16, 8, 16, 16): "k0 m3 k3 | k1 k2 m0 m1 m2",
    MmaShape(8, 8, 16, 8): "k0 k1 | k2 k3 m0 m1 m2",
    MmaShape(16, 8, 16, 8): "k0 k1 m3 | k2 k3 m0 m1 m2",
    MmaShape(16, 8, 32, 8): "k0 k1 m3 k4 | k2 k3 m0 m1 m2",
}
# Operand a of wgmma instructions by their k and bits, register | lane | warp; operand b is in
# shared memory.
_WGMMA = {
    (8, 32): "m3 k2 | k0 k1 m0 m1 m2 | m4 m5",
    (16, 16): "k0 m3 k3 | k1 k2 m0 m1 m2 | m4 m5",
    (32, 8): "k0 k1 m3 k4 | k2 k3 m0 m1 m2 | m4 m5",
}


def _mma_fragments(shape: MmaShape, left: str) -> dict[Operand, str]:
    """Return the fragments of an mma: `b` is laid out as eight rows of `a` are, transposed."""
    right = left.replace("m3 ", "").replace("m", "n")
    accumulator = f"n0 {'m3 ' if shape.m == 16 else ''}| n1 n2 m0 m1 m2"
    return {Operand.LEFT: left, Operand.RIGHT: right, Operand.ACCUMULATOR: accumulator}


def _wgmma_fragments(shape: MmaShape, left: str) -> dict[Operand, str]:
    """Return the fragments of a wgmma: registers of the accumulator hold the columns from 8 on."""
    columns = "".join(f"n{bit} " for bit in range(3, shape.n.bit_length() - 1))
    accumulator = f"n0 m3 {columns}| n1 n2 m0 m1 m2 | m4 m5"
    return {Operand.LEFT: left, Operand.ACCUMULATOR: accumulator}


FRAGMENTS: dict[MmaShape, dict[Operand, str]] = {
    **{shape: _mma_fragments(shape, left) for shape, left in _MMA.items()},
    **{
        shape: _wgmma_fragments(shape, left)
        for (k, bits), left in _WGMMA.items()
        for shape in (MmaShape(64, n, k, bits) for n in (8, 16, 32, 64, 128, 256))
    },
}


def wgmma_shapes(*bits: int) -> Iterator[MmaShape]:
    """Return the wgmma shapes for operands whose elements have such widths in bits."""
    return (shape for shape in FRAGMENTS if shape.m == 64 and shape.bits in bits)


def matrix_fragment(shape: MmaShape, operand: Operand) -> LinearLayout:
    """Return the layout (register, lane, warp) of one operand of one instruction.

    Its outputs are the operand's axes: m and k, k and n, or m and n. Raises `LayoutError` for a
    shape that `FRAGMENTS` does not have, or an operand that is not held in registers.
    """
    if shape not in FRAGMENTS:
        shapes = sorted(s for s in FRAGMENTS if s.bits == shape.bits)
        names = ", ".join(map(str, shapes)) or "none of that width"
        raise LayoutError(f"no mma instruction is {shape}; there are {names}")
    if operand not in FRAGMENTS[shape]:
        raise LayoutError(f"the `b` operand of {shape} is read from shared memory")
    groups = FRAGMENTS[shape][operand].split("|")
    sizes = [getattr(shape, axis) for axis in operand.value]
    return LinearLayout.of(
        {
            name: [_step(bit, operand.value) for bit in group.split()]
            for name, group in zip((REGISTER, LANE, WARP), [*groups, ""], strict=False)
        },
        sizes,
    )


def _step(bit: str, axes: str) -> list[int]:
    """Return the coordinates of a bit such as "k3"."""
    return [1 << int(bit[1:]) if bit[0] == axis else 0 for axis in axes]


def matrix_layout(
    tile: Sequence[int], shape: MmaShape, operand: Operand, warps: tuple[int, ...]
) -> LinearLayout:
    """Return the layout of a whole tile of an operand of mma instructions.

    `warps` is the number of warps, or warpgroups for wgmma, that share the rows m and the columns
    n; those that differ in an axis that the operand lacks hold copies of it. A tile larger than all
    warps together takes more registers, first along k, then n, then m. Of a batch, each matrix has
    warps of its own, whose number is in front. Raises `LayoutError` for a tile smaller than one
    instruction's.
    """
    if len(tile) > 2:
        return _batched(matrix_layout(tile[1:], shape, operand, warps[1:]), warps[0])
    layout = matrix_fragment(shape, operand)
    require(
        all(extent >= size for extent, size in zip(tile, layout.shape, strict=True)),
        f"a tile of shape {list(tile)} is smaller than the {list(layout.shape)} of {shape}",
    )
    for axis, count in zip("mn", warps, strict=True):
        if axis in operand.value:
            layout *= identity1d(count, WARP, axis_name(operand.value.index(axis)))
        else:
            layout *= zeros1d(count, WARP, axis_name(0))
    fastest = sorted(range(2), key=lambda axis: "knm".index(operand.value[axis]))
    return cover(layout, tile, fastest)


def _batched(matrix: LinearLayout, count: int) -> LinearLayout:
    """Return the layout of `count` matrices, each in warps of its own."""
    bases = {name: [[0, *step] for step in matrix.bases(name)] for name in matrix.in_dims}
    bases[WARP] = [
        *bases.get(WARP, []),
        *([1 << bit, 0, 0] for bit in range(count.bit_length() - 1)),
    ]
    return LinearLayout.of(bases, [count, *matrix.shape])


def fma_operand_layouts(acc: LinearLayout, k: int) -> tuple[LinearLayout, LinearLayout]:
    """Return the layouts of the `a` and `b` operands of extent `k` along k for an FMA dot.

    Registers of `a` count k fastest, then m; those of `b` n, then k; a batch comes last. Raises
    `TypeRuleError` where a basis of `acc` moves along several axes.
    """
    for _, columns in acc.ins:
        for column in columns:
            require_type(_axes(acc, column) <= 1, f"a dot in threads has no accumulator of {acc}")
    rank = len(acc.outs)
    return _operand_layout(acc, rank - 1, k), _operand_layout(acc, rank - 2, k)


def _axes(layout: LinearLayout, column: int) -> int:
    single = LinearLayout(((REGISTER, (column,)),), layout.outs)
    return sum(map(bool, single.bases(REGISTER)[0]))


def _operand_layout(acc: LinearLayout, replaced: int, k: int) -> LinearLayout:
    """Return the accumulator's layout with axis `replaced` replaced by k, all in registers."""
    rank = len(acc.outs)
    axis = rank - 1 if replaced == rank - 1 else rank - 2  # the operand's axis of k
    shape = list(acc.shape)
    shape[replaced] = k

    def without_replaced(name: str) -> list[list[int]]:
        return [[0 if a == replaced else x for a, x in enumerate(b)] for b in acc.bases(name)]

    registers = [basis for basis in without_replaced(REGISTER) if any(basis)]
    for bit in range(k.bit_length() - 1):
        registers.append([1 << bit if a == axis else 0 for a in range(rank)])
    # Row-major: the last axis is the fastest.
    registers.sort(key=lambda basis: ([-int(x > 0) for x in basis][::-1], max(basis)))
    others = {name: without_replaced(name) for name, _ in acc.ins if name != REGISTER}
    return LinearLayout.of({REGISTER: registers, **others}, shape)
