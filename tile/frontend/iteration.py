"""What `for` runs over: integers that the kernel counts, or values known while it is compiled."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import partial
from typing import Any

from tile.frontend.assignment import assign
from tile.frontend.exits import guard
from tile.frontend.loops import Bounds, counted
from tile.frontend.scope import Binding, Loop, Partial
from tile.frontend.state import Flow, Lowering
from tile.frontend.steps import mark
from tile.frontend.values import describe
from tile.ir.builder import Builder
from tile.ir.core import Value
from tile.ir.types import I1, I32, I64, Scalar
from tile.language import iterators, promote
from tile.language.tensor import Tensor


def for_(low: Lowering, node: ast.For) -> None:
    """A `for`, by what it runs over."""
    if node.orelse:
        low.fail(node.orelse[0], "`else` of a `for` is not supported; set a flag before `break`")
    over = low.expression(node.iter)
    if isinstance(over, iterators.static_range):
        unroll(low, node, over.values)
    elif isinstance(over, tuple):
        unroll(low, node, over)
    elif not isinstance(over, iterators.range):
        low.fail(
            node.iter,
            "`for` runs over range, tl.range, tl.static_range or a tuple, not over "
            f"{describe(over)}",
        )
    elif not isinstance(node.target, ast.Name):
        low.fail(node.target, "a loop over a range counts one name")
    else:
        counted(low, node, node.target, bounds(low, node.iter, over))


# -- counted by the kernel


def bounds(low: Lowering, node: ast.expr, over: iterators.range) -> Bounds:
    """Start, stop and step as values of one integer type."""
    low.at(node)
    limits = [limit(low, node, value) for value in (over.start, over.stop, over.step)]
    ty = count_type(limits)
    build = low.build

    lower, upper, step = (counted_in(build, x, ty) for x in limits)
    return Bounds(lower, upper, step, over.attributes())


def counted_in(build: Builder, x: Tensor | int, ty: Scalar) -> Value:
    """A bound of a loop as a value of the type in which it counts."""
    if isinstance(x, Tensor):
        return promote.convert(build, x, ty).value
    return promote.constant(build, x, ty).value


def limit(low: Lowering, node: ast.expr, value: Any) -> Tensor | int:
    """A bound of a loop, which must be a scalar integer."""
    if isinstance(value, Tensor) and not value.shape and value.dtype.is_int():
        return value
    if isinstance(value, bool | int):
        return int(value)
    low.fail(node, f"a range takes scalar integers, not {describe(value)}")


def count_type(limits: Sequence[Tensor | int]) -> Scalar:
    """The integer type a loop counts in: that of its limits, or one that holds the numbers too."""
    ty: Scalar | None = None
    for x in limits:
        if isinstance(x, Tensor):
            own = x.dtype
            assert isinstance(own, Scalar)
            own = I32 if own == I1 else own
            ty = own if ty is None else promote.common_type(ty, own)
    ty = ty or I32
    fits = all(isinstance(x, Tensor) or ty.min_value <= x <= ty.max_value for x in limits)
    return ty if fits else I64


# -- known while compiling


def unroll(low: Lowering, node: ast.For, values: Sequence[object]) -> None:
    """Compile the body once for each value, one after the other."""
    outer, low.loop = low.loop, Loop(None, low.loop)
    try:
        turns(low, node, values)
        returned = low.flow.returned
        if low.flow.exited is not False:
            clear_doubt(low)
            low.flow = Flow(returned, returned, returned, low.flow.result)
    finally:
        low.loop = outer


def turns(low: Lowering, node: ast.For, values: Sequence[object]) -> None:
    """The turns of an unrolled loop, until one leaves it."""
    for position, value in enumerate(values):
        assign(low, node.target, value, weak=True)
        low.body(node.body, None)
        flow = low.flow
        if flow.exited is not flow.left:  # a `continue` ends here
            clear_doubt(low)
        low.flow = Flow(flow.left, flow.left, flow.returned, flow.result)
        rest = values[position + 1 :]
        if flow.left is not False:
            if flow.left is not True and (rest or low.session.steps):
                guard(low, partial(round_again, low, node, rest), None, low.loc(node))
            return
        mark(low, low.loc(node))


def round_again(low: Lowering, node: ast.For, values: Sequence[object]) -> None:
    """Come back to the head of the loop, and go on with the turns that are left."""
    mark(low, low.loc(node))
    turns(low, node, values)


def clear_doubt(low: Lowering) -> None:
    """Where paths that left meet the others again, a name they did not assign has no sure value."""
    for name, entry in low.scope.items():
        if isinstance(entry, Binding) and entry.doubtful is low.loop:
            low.scope[name] = Partial("only on paths without `break` and `continue`", entry.loc)
