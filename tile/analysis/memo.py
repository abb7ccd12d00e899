"""Results of analyses of a function, which are the same while the function is unchanged.

Several passes in a row ask for the ranges and axis information of a kernel, and most change
nothing. To compare the function with that of the last analysis takes a tenth of the time of one.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from tile.ir.core import Function

T = TypeVar("T")


def memoized(function: Function, analysis: Hashable, compute: Callable[[], T]) -> T:
    """Return the latest result of an analysis if the function is unchanged, or compute it."""
    state = _state(function)
    latest = function.analyses.get(analysis)
    if latest is not None and latest[0] == state:
        result: T = latest[1]
        return result
    computed = compute()
    function.analyses[analysis] = state, computed
    return computed


def _state(function: Function) -> list[Any]:
    """Return all that an analysis may read of a function, in order: equal lists, equal functions.

    It has the operations and values themselves, since results are about these.
    """
    state: list[Any] = [function.name, function.kernel, *map(str, function.arguments)]
    blocks = [function.body]
    for block in blocks:
        state += (block, *block.args, *map(_TYPE, block.args))
        op = block.first
        while op is not None:
            state += (op, op.defn, *op.operands, *op.attributes.items(), *op.results)
            state += map(_TYPE, op.results)
            if op.regions:
                blocks += op.regions
            op = op.next
    return state


_TYPE = operator.attrgetter("type")
