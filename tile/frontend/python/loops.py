"""`for` and `while` loops as operations.

A `for` statement over integers becomes a counted loop; one over compile-time values is unrolled. If
the body may `break` or `return`, the loop also carries a flag, and a `for` becomes a `while` that
tests the flag:

    for i in range(n):         %r.. = while iter(%i = %c0, %x = %x0, %stop = %f) : i32, f32, i1 {
        x = f(x)                 %in = cmp %i, %n {predicate = lt} : i1
        if x > 1:          =>    ...
            break                condition (%in and not %stop)
                               } do {
                                 ...
                                 yield (%i + 1), %x1, %stop1
                               }

The body is compiled first; whether it leaves the loop decides which of the two it becomes part of.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tile.frontend.python.assignment import assign
from tile.frontend.python.branches import guard
from tile.frontend.python.debug_info import emit_backedge_step, emit_step
from tile.frontend.python.expressions import truth, warn_unread
from tile.frontend.python.loop_carried import Ends, LoopNames
from tile.frontend.python.lowering_context import (
    FLOWING,
    Binding,
    Flag,
    Flow,
    Loop,
    Lowering,
    Partial,
)
from tile.frontend.python.value_trees import POISON, describe, leaves, materialize, rebuild
from tile.ir.builder import Builder
from tile.ir.core import Block, Value
from tile.ir.effects import is_pure
from tile.ir.expressions import Expression, is_before
from tile.ir.ops import arith, control
from tile.ir.ops.control import WarpSpecialize
from tile.ir.types import I1, I32, I64, Scalar
from tile.language import python_builtins
from tile.language.base import promotion
from tile.language.base.tensor import Tensor
from tile.location import Loc

# Options of `tl.range`, by the loop's attribute: those that no pass reads, and the neutral value of
# each. A loop that may be left early becomes a `while`, which has none of them.
NEVER_READ = ("flatten", "disallow_acc_multi_buffer")
LOOP_OPTIONS: dict[str, object] = {
    "num_stages": 0,
    "unroll": 1,
    "disable_licm": False,
    "warp_specialize": WarpSpecialize.AUTO,
    **dict.fromkeys(NEVER_READ, False),
}
OPTION_NAMES = {"unroll": "loop_unroll_factor"}


@dataclass(frozen=True)
class Bounds:
    """The bounds of a counted loop, which have one integer type, and its compiler options."""

    lower: Value
    upper: Value
    step: Value
    options: dict[str, Any]


def counted_loop(low: Lowering, node: ast.For, target: ast.Name, bounds: Bounds) -> None:
    """Compile a `for` over integers."""
    loc = low.at(node.iter)
    names = LoopNames(low, node)
    body = Block([bounds.lower.type])
    index = body.args[0]

    def iteration() -> None:
        low.bind(target.id, Tensor(index), low.loc(target))
        low.body(node.body, low.live_names(names.loop.names))
        emit_backedge_step(low, node)

    path = names.region(body, iteration)
    low.build.loc = loc
    ends = Ends(names, path)
    unread = {name for name in NEVER_READ if bounds.options[name]}
    if path.flow.left is not False:
        unread |= {
            name
            for name, default in LOOP_OPTIONS.items()
            if bounds.options[name] not in (default, WarpSpecialize.OFF)
        }
    if unread:
        of = (
            "tl.range" if unread <= set(NEVER_READ) else "tl.range of a loop that may be left early"
        )
        warn_unread(loc, tuple(sorted(OPTION_NAMES.get(name, name) for name in unread)), of)
    if path.flow.left is not False:
        _counted_while(low, ends, bounds, loc)
        return
    with low.build.into(body):
        end = low.build.op(control.yield_, *ends.values())
    inits = ends.prune(end, 0)
    operands = (bounds.lower, bounds.upper, bounds.step, *inits)
    op = low.build.op(control.for_, *operands, regions=(body,), **bounds.options)
    ends.leave(op.results)


def _counted_while(low: Lowering, ends: Ends, bounds: Bounds, loc: Loc) -> None:
    """Emit a `for` that may be left early, as a `while` that counts."""
    build = low.build
    names, body = ends.names, ends.body.block
    test = Block([bounds.lower.type], [body.args[0].name])
    names.arguments[test] = [test.add_arg(v.type, v.name) for v in names.arguments[body]]
    with build.into(test):
        inside = in_range(build, test.args[0], bounds)
    with build.into(body):
        next_index = build(arith.add, body.args[0], bounds.step)
    _emit_while(low, ends, test, inside, [(bounds.lower, next_index)])


def in_range(build: Builder, index: Value, bounds: Bounds) -> Value:
    """Return an i1 value, true if `index` is in the range of a counted loop of either direction."""
    number, end, step = (Expression(build, x) for x in (index, bounds.upper, bounds.step))
    return is_before(number, end, step).value


def while_loop(low: Lowering, node: ast.While, step: Sequence[ast.stmt] = ()) -> None:
    """Compile a `while`; the statements of `step` end each iteration, also after a `continue`."""
    loc = low.loc(node.test)
    names = LoopNames(low, node)
    test, body = Block(), Block()
    condition: list[Flag] = []

    def compile_test() -> None:
        emit_step(low, low.loc(node))
        condition.append(truth(low, node.test, "while"))

    names.region(test, compile_test)
    if condition[0] is False:
        emit_step(low, low.loc(node))  # that in the test is dropped with it
        return
    live = low.live_names(names.loop.names)

    def iteration() -> None:
        low.body(node.body, None if step else live)
        if step:
            end_iteration(low)
            low.body(step, live)

    path = names.region(body, iteration)
    if condition[0] is True and path.flow.left is False:
        low.fail(
            node.test,
            "this loop never ends: its condition is true and it has no `break` or `return`",
        )
    low.build.loc = loc
    _emit_while(low, Ends(names, path), test, condition[0], [])


def _emit_while(
    low: Lowering,
    ends: Ends,
    test: Block,
    condition: Flag,
    counts: Sequence[tuple[Value, Value]],
) -> None:
    """Emit the `while` of a compiled test and body; flags of the body's flow leave the loop.

    It carries, in this order: `counts` (initial and next value of induction variables), the names,
    and the exits.
    """
    build = low.build
    body = ends.body.block
    exits = Exits(ends.body.flow)
    exits.add_arguments(body)
    stop = exits.add_arguments(test)
    with build.into(body):
        values = [*ends.values(), *exits.values(build)]
        end = build.op(control.yield_, *(next_index for _, next_index in counts), *values)
    with build.into(test):
        finish_test(build, test, condition, stop)
    names = ends.prune(end, len(counts))
    inits = [*(first for first, _ in counts), *names, *exits.inits(build)]
    results = build.op(control.while_, *inits, regions=(test, body)).results[len(counts) :]
    ends.leave(results[: len(names)])
    low.flow = exits.after(results[len(names) :], endless=condition is True)


class Exits:
    """The values that a loop carries because its body may leave it.

    They are a flag that it was left, a flag that it was left by `return`, and the function's
    result.
    """

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.flags: list[Flag] = [] if flow.left is False else [flow.left]
        if flow.returned not in (False, flow.left):
            self.flags.append(flow.returned)
        self.result = flow.result if flow.returned is not False else None
        self.leaves = [] if self.result is None else leaves(self.result.value)

    def add_arguments(self, block: Block) -> Value | None:
        """Add the arguments to a region, and return the flag that the loop was left, if any."""
        names = ("left", "returned")
        values = [block.add_arg(I1, name) for name, _ in zip(names, self.flags, strict=False)]
        for leaf in self.leaves:
            block.add_arg(leaf.type, "result")
        return values[0] if values else None

    def values(self, build: Builder) -> list[Value]:
        return [*(materialize(build, flag, I1) for flag in self.flags), *self.leaves]

    def inits(self, build: Builder) -> list[Value]:
        flags = [build.constant(False, I1) for _ in self.flags]
        return [*flags, *(materialize(build, POISON, leaf.type) for leaf in self.leaves)]

    def after(self, results: Sequence[Value], *, endless: bool) -> Flow:
        """Return the flow after the loop; an `endless` loop ends only by an exit."""
        if self.result is None:
            return FLOWING
        returned: Flag = results[len(self.flags) - 1]
        if endless and self.flow.returned is self.flow.left:
            returned = True
        value = rebuild(self.result.value, results[len(self.flags) :])
        return Flow(returned, returned, returned, Binding(value, self.result.loc))


def finish_test(build: Builder, test: Block, condition: Flag, stop: Value | None) -> None:
    """End the test of a `while`: iterate if the condition holds and the loop was not left.

    A condition with side effects or loads is not evaluated after an exit: the memory that it reads
    may no longer be valid.
    """
    if stop is None:
        build.op(control.condition, materialize(build, condition, I1))
    elif condition is True and all(map(is_pure, test.ops)):
        build.op(control.condition, build(arith.not_, stop))
    elif all(map(is_pure, test.ops)):
        not_left = build(arith.not_, stop)
        build.op(control.condition, build(arith.and_, not_left, materialize(build, condition, I1)))
    else:
        left, continues = Block(), Block()
        for op in test.ops:
            op.unlink()
            continues.append(op)
        with build.into(left):
            build.op(control.yield_, build.constant(False, I1))
        with build.into(continues):
            build.op(control.yield_, materialize(build, condition, I1))
        both = build.op(control.if_, stop, regions=(left, continues))
        build.op(control.condition, both.result)


def for_(low: Lowering, node: ast.For) -> None:
    """Compile a `for` by the kind of its iterator."""
    if node.orelse:
        low.fail(node.orelse[0], "`else` of a `for` is not supported; set a flag before `break`")
    iterable = low.expression(node.iter)
    if isinstance(iterable, python_builtins.static_range):
        unroll(low, node, iterable.values)
    elif isinstance(iterable, tuple):
        unroll(low, node, iterable)
    elif not isinstance(iterable, python_builtins.range):
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


def bounds(low: Lowering, node: ast.expr, iterable: python_builtins.range) -> Bounds:
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
        return promotion.convert(build, x, ty).value
    return promotion.constant(build, x, ty).value


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
            ty = own if ty is None else promotion.common_type(ty, own)
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
        flow = end_iteration(low)
        rest = values[position + 1 :]
        if flow.left is not False:
            if flow.left is not True and (rest or low.session.steps):
                guard(low, partial(next_iteration, low, node, rest), None, low.loc(node))
            return
        emit_step(low, low.loc(node))


def end_iteration(low: Lowering) -> Flow:
    """End a `continue`, and return the flow: the statements that follow run after it too."""
    flow = low.flow
    if flow.exited is not flow.left:
        clear_doubtful(low)
    low.flow = Flow(flow.left, flow.left, flow.returned, flow.result)
    return low.flow


def next_iteration(low: Lowering, node: ast.For, values: Sequence[object]) -> None:
    """Emit the debug step of the loop's head, then the remaining iterations."""
    emit_step(low, low.loc(node))
    unroll_iterations(low, node, values)


def clear_doubtful(low: Lowering) -> None:
    """Make doubtful names of the loop partial: paths that left it did not assign them."""
    for name, entry in low.scope.items():
        if isinstance(entry, Binding) and entry.doubtful is low.loop:
            low.scope[name] = Partial("only on paths without `break` and `continue`", entry.loc)
