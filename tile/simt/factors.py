"""Layouts of the operands of an FMA dot, given the layout of its accumulator.

For each element of the accumulator that it holds, a thread holds the whole row of the `a` operand
and the whole column of the `b` operand. Lanes and warps that differ only in columns therefore hold
copies of the rows of `a`.

    >>> from tile.simt.layouts.blocked import blocked
    >>> left, right = thread_factors(blocked([4, 4], [1, 2], [4, 2], [1, 1]), 2)
    >>> left
    #linear{register = [[0,1]], lane = [[0,0],[1,0],[2,0]], warp = [] -> dim0 = 4, dim1 = 2}
    >>> right
    #linear{register = [[0,1],[1,0]], lane = [[0,2],[0,0],[0,0]], warp = [] -> dim0 = 2, dim1 = 4}
"""

from __future__ import annotations

from tile.ir.types import require
from tile.simt.layouts.dims import REGISTER
from tile.simt.layouts.layout import LinearLayout


def thread_factors(acc: LinearLayout, k: int) -> tuple[LinearLayout, LinearLayout]:
    """Return the layouts of the `a` and `b` operands of extent `k` along k for an FMA dot.

    Registers of `a` count k fastest, then m; those of `b` n, then k; a batch comes last. Raises
    `TypeRuleError` where a basis of `acc` moves along several axes.
    """
    for _, columns in acc.ins:
        for column in columns:
            require(_axes(acc, column) <= 1, f"a dot in threads has no accumulator of {acc}")
    rank = len(acc.outs)
    return _factor(acc, rank - 1, k), _factor(acc, rank - 2, k)


def _axes(layout: LinearLayout, column: int) -> int:
    single = LinearLayout(((REGISTER, (column,)),), layout.outs)
    return sum(map(bool, single.bases(REGISTER)[0]))


def _factor(acc: LinearLayout, replaced: int, k: int) -> LinearLayout:
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
