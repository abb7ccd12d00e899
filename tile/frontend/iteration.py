"""`for` statements: counted loops over integers, and unrolled loops over compile-time values."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import partial
from typing import Any

from tile.frontend.assignment import assign
from tile.frontend.exits import guard
from tile.frontend.loops import Bounds, counted_loop
from tile.frontend.scope import Binding, Loop, Partial
from tile.frontend.state import Flow, Lowering
from tile.frontend.steps import emit_step
from tile.frontend.values import describe
from tile.ir.builder import Builder
from tile.ir.core import Value
from tile.ir.types import I1, I32, I64, Scalar
from tile.language import iterators, promote
from tile.language.tensor import Tensor


def for_(low: Lowering, node: ast.For) -> None:
    """Compile a `for`, depending on what it iterates over."""
    if node.orelse:
        low.fail(node.orelse[0], "`else` of a `for` is not supported; set a flag before `break`")
    iterable = low.expression(node.iter)
    if isinstance(iterable, iterators.static_range):
        unroll(low, node, iterable.values)
    elif isinstance(iterable, tuple):
        unroll(low, node, iterable)
    elif not isinstance(iterable, iterators.range):
        low.fail(
            node.iter,
            "`for` runs over range, tl.range, tl.static_range or a tuple, not over "
            f"{describe(iterable)}",
        )
    elif not isinstance(node.target, ast.Name):
        low.fail(node.target, "a loop over a range assigns one name")
    else:
        counted_loop(low, node, node.target, bounds(low, node.iter, iterable))


# -- counted loops


def bounds(low: Lowering, node: ast.expr, iterable: iterators.range) -> Bounds:
    """Return start, stop and step as values of one integer type."""
    low.at(node)
    limits = [limit(low, node, value) for value in (iterable.start, iterable.stop, iterable.step)]
    ty = count_type(limits)
    build = low.build

    lower, upper, step = (bound_value(build, x, ty) for x in limits)
    return Bounds(lower, upper, step, iterable.attributes())


def bound_value(build: Builder, x: Tensor | int, ty: Scalar) -> Value:
    """Return a bound of a loop as a value of the induction variable's type."""
    if isinstance(x, Tensor):
        return promote.convert(build, x, ty).value
    return promote.constant(build, x, ty).value


def limit(low: Lowering, node: ast.expr, value: Any) -> Tensor | int:
    """Return a bound of a loop, which must be a scalar integer."""
    if isinstance(value, Tensor) and not value.shape and value.dtype.is_int():
        return value
    if isinstance(value, bool | int):
        return int(value)
    low.fail(node, f"a range takes scalar integers, not {describe(value)}")


def count_type(limits: Sequence[Tensor | int]) -> Scalar:
    """Return the type of the induction variable: the common type of the bounds.

    It is i64 if a Python number among the bounds does not fit that type.
    """
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


# -- unrolled loops


def unroll(low: Lowering, node: ast.For, values: Sequence[object]) -> None:
    """Compile the body once for each value."""
    outer, low.loop = low.loop, Loop(None, low.loop)
    try:
        unroll_iterations(low, node, values)
        returned = low.flow.returned
        if low.flow.exited is not False:
            clear_doubtful(low)
            low.flow = Flow(returned, returned, returned, low.flow.result)
    finally:
        low.loop = outer


def unroll_iterations(low: Lowering, node: ast.For, values: Sequence[object]) -> None:
    """Compile the iterations of an unrolled loop, up to one that always leaves it."""
    for position, value in enumerate(values):
        assign(low, node.target, value, weak=True)
        low.body(node.body, None)
        flow = low.flow
        if flow.exited is not flow.left:  # a `continue` ends here
            clear_doubtful(low)
        low.flow = Flow(flow.left, flow.left, flow.returned, flow.result)
        rest = values[position + 1 :]
        if flow.left is not False:
            if flow.left is not True and (rest or low.session.steps):
                guard(low, partial(next_iteration, low, node, rest), None, low.loc(node))
            return
        emit_step(low, low.loc(node))


def next_iteration(low: Lowering, node: ast.For, values: Sequence[object]) -> None:
    """Emit the debug step of the loop's head, then the remaining iterations."""
    emit_step(low, low.loc(node))
    unroll_iterations(low, node, values)


def clear_doubtful(low: Lowering) -> None:
    """Make doubtful names of the loop partial: paths that left it did not assign them."""
    for name, entry in low.scope.items():
        if isinstance(entry, Binding) and entry.doubtful is low.loop:
            low.scope[name] = Partial("only on paths without `break` and `continue`", entry.loc)
