"""The layouts of a dot's factors, given its accumulator's.

A thread that multiplies alone holds, for each element of the accumulator that it has, all of a row
of the left factor and all of a column of the right one. Lanes and warps that differ in columns
alone so have copies of the left factor's rows.

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
    """The layouts of factors with `k` columns, or rows, where each thread multiplies alone.

    Registers of the left factor count k fastest, then m; of the right one n, then k; a batch comes
    last. Raises `TypeRuleError` where a basis of `acc` moves along several axes.
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
    """The layout with axis `replaced` of the accumulator replaced by k, all of it in registers."""
    rank = len(acc.outs)
    axis = rank - 1 if replaced == rank - 1 else rank - 2  # where the factor has k
    shape = list(acc.shape)
    shape[replaced] = k

    def kept(name: str) -> list[list[int]]:
        return [[0 if a == replaced else x for a, x in enumerate(b)] for b in acc.bases(name)]

    registers = [basis for basis in kept(REGISTER) if any(basis)]
    for bit in range(k.bit_length() - 1):
        registers.append([1 << bit if a == axis else 0 for a in range(rank)])
    # Row-major: the last axis is the fastest.
    registers.sort(key=lambda basis: ([-int(x > 0) for x in basis][::-1], max(basis)))
    others = {name: kept(name) for name, _ in acc.ins if name != REGISTER}
    return LinearLayout.of({REGISTER: registers, **others}, shape)
