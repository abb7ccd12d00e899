"""`for` and `while` as operations.

Where the body may `break` or `return`, a flag is carried as well, and a `for` becomes a `while`
that looks at the flag:

    for i in range(n):         %r.. = while iter(%i = %c0, %x = %x0, %stop = %f) : i32, f32, i1 {
        x = f(x)                 %in = cmp %i, %n {predicate = lt} : i1
        if x > 1:          =>    ...
            break                condition (%in and not %stop)
                               } do {
                                 ...
                                 yield (%i + 1), %x1, %stop1
                               }

The body is compiled before it is known which of the two it will be the body of.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tile.errors import Loc
from tile.frontend.carried import Ends, LoopNames
from tile.frontend.conditions import truth
from tile.frontend.scope import Binding
from tile.frontend.state import FLOWING, Flag, Flow, Lowering
from tile.frontend.steps import again, mark
from tile.frontend.unread import warn_unread
from tile.frontend.values import POISON, leaves, materialise, rebuild
from tile.ir.builder import Builder
from tile.ir.core import Block, Value
from tile.ir.effects import constant_of, is_pure
from tile.ir.ops import arith, control
from tile.ir.ops.arith import Predicate
from tile.ir.types import I1
from tile.language.tensor import Tensor

# Options of `tl.range`, by attribute of the loop: those that no pass reads, and the value without
# effect of all, of which a loop that may be left early has none.
NEVER_READ = ("flatten", "warp_specialize", "disallow_acc_multi_buffer")
WISHES: dict[str, object] = {
    "num_stages": 0,
    "unroll": 1,
    "disable_licm": False,
    **dict.fromkeys(NEVER_READ, False),
}
OPTIONS = {"unroll": "loop_unroll_factor"}


@dataclass(frozen=True)
class Bounds:
    """What a counting loop runs over, of one integer type, and what it wishes of the compiler."""

    lower: Value
    upper: Value
    step: Value
    wishes: dict[str, Any]


def counted(low: Lowering, node: ast.For, target: ast.Name, bounds: Bounds) -> None:
    """Compile a `for` over integers."""
    loc = low.at(node.iter)
    names = LoopNames(low, node)
    body = Block([bounds.lower.type])
    index = body.args[0]

    def turn() -> None:
        low.bind(target.id, Tensor(index), low.loc(target))
        low.body(node.body, low.wanted(names.loop.names))
        again(low, node)

    path = names.region(body, turn)
    low.build.loc = loc
    ends = Ends(names, path)
    unread = {name for name in NEVER_READ if bounds.wishes[name]}
    if path.flow.left is not False:
        unread |= {name for name, default in WISHES.items() if bounds.wishes[name] != default}
    if unread:
        of = (
            "tl.range" if unread <= set(NEVER_READ) else "tl.range of a loop that may be left early"
        )
        warn_unread(loc, tuple(sorted(OPTIONS.get(name, name) for name in unread)), of)
    if path.flow.left is not False:
        _counted_while(low, ends, bounds, loc)
        return
    with low.build.into(body):
        end = low.build.op(control.yield_, *ends.values())
    inits = ends.prune(end, 0)
    operands = (bounds.lower, bounds.upper, bounds.step, *inits)
    op = low.build.op(control.for_, *operands, regions=(body,), **bounds.wishes)
    ends.leave(op.results)


def _counted_while(low: Lowering, ends: Ends, bounds: Bounds, loc: Loc) -> None:
    """A `for` that may be left early, as a `while` that counts."""
    build = low.build
    names, body = ends.names, ends.body.block
    test = Block([bounds.lower.type], [body.args[0].name])
    names.arguments[test] = [test.add_arg(v.type, v.name) for v in names.arguments[body]]
    with build.into(test):
        inside = in_range(build, test.args[0], bounds)
    with build.into(body):
        following = build(arith.add, body.args[0], bounds.step)
    _emit_while(low, ends, test, inside, [(bounds.lower, following)], loc)


def in_range(build: Builder, index: Value, bounds: Bounds) -> Value:
    """Whether a counting loop takes a turn at `index`, by the sign of its step."""
    step = constant_of(bounds.step)
    if step is not None:
        predicate = Predicate.LT if step > 0 else Predicate.GT
        return build(arith.cmp, index, bounds.upper, predicate=predicate)
    zero = build.constant(0, bounds.step.type)
    up = build(arith.cmp, bounds.step, zero, predicate=Predicate.GT)
    below = build(arith.cmp, index, bounds.upper, predicate=Predicate.LT)
    above = build(arith.cmp, index, bounds.upper, predicate=Predicate.GT)
    return build(arith.select, up, below, above)


def repeated(low: Lowering, node: ast.While) -> None:
    """Compile a `while`."""
    loc = low.loc(node.test)
    names = LoopNames(low, node)
    test, body = Block(), Block()
    condition: list[Flag] = []

    def tested() -> None:
        mark(low, low.loc(node))
        condition.append(truth(low, node.test, "while"))

    names.region(test, tested)
    if condition[0] is False:
        return
    path = names.region(body, lambda: low.body(node.body, low.wanted(names.loop.names)))
    if condition[0] is True and path.flow.left is False:
        low.fail(
            node.test,
            "this loop never ends: its condition is true and it has no `break` or `return`",
        )
    low.build.loc = loc
    _emit_while(low, Ends(names, path), test, condition[0], [], loc)


def _emit_while(
    low: Lowering,
    ends: Ends,
    test: Block,
    condition: Flag,
    counts: Sequence[tuple[Value, Value]],
    loc: Loc,
) -> None:
    """The `while` of a compiled test and body, which leaves the loop by the flags of its flow.

    It carries, in this order: what it counts (first value and next one), the names, then the exits.
    """
    build = low.build
    body = ends.body.block
    exits = Exits(ends.body.flow)
    exits.add_arguments(body)
    stop = exits.add_arguments(test)
    with build.into(body):
        values = [*ends.values(), *exits.values(build)]
        end = build.op(control.yield_, *(following for _, following in counts), *values)
    with build.into(test):
        finish_test(build, test, condition, stop)
    names = ends.prune(end, len(counts))
    inits = [*(first for first, _ in counts), *names, *exits.inits(build)]
    results = build.op(control.while_, *inits, regions=(test, body)).results[len(counts) :]
    ends.leave(results[: len(names)])
    low.flow = exits.after(results[len(names) :], endless=condition is True)


class Exits:
    """What a loop carries because its body may leave it.

    That is: whether it did, whether by `return`, and with what result of the function.
    """

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.flags: list[Flag] = [] if flow.left is False else [flow.left]
        if flow.returned not in (False, flow.left):
            self.flags.append(flow.returned)
        self.result = flow.result if flow.returned is not False else None
        self.leaves = [] if self.result is None else leaves(self.result.value)

    def add_arguments(self, block: Block) -> Value | None:
        """Give a region arguments for all of it; the one that says that the loop is left."""
        names = ("left", "returned")
        values = [block.add_arg(I1, name) for name, _ in zip(names, self.flags, strict=False)]
        for leaf in self.leaves:
            block.add_arg(leaf.type, "result")
        return values[0] if values else None

    def values(self, build: Builder) -> list[Value]:
        return [*(materialise(build, flag, I1) for flag in self.flags), *self.leaves]

    def inits(self, build: Builder) -> list[Value]:
        flags = [build.constant(False, I1) for _ in self.flags]
        return [*flags, *(materialise(build, POISON, leaf.type) for leaf in self.leaves)]

    def after(self, results: Sequence[Value], *, endless: bool) -> Flow:
        """The flow after the loop; an `endless` one is left by an exit only."""
        if self.result is None:
            return FLOWING
        returned: Flag = results[len(self.flags) - 1]
        if endless and self.flow.returned is self.flow.left:
            returned = True
        value = rebuild(self.result.value, results[len(self.flags) :])
        return Flow(returned, returned, returned, Binding(value, self.result.loc))


def finish_test(build: Builder, test: Block, condition: Flag, stop: Value | None) -> None:
    """End the test of a `while`: another turn if the condition holds and the loop was not left.

    What the condition reads from memory may be there no longer after an exit, so it is not
    evaluated then.
    """
    if stop is None:
        build.op(control.condition, materialise(build, condition, I1))
    elif condition is True and all(map(is_pure, test.ops)):
        build.op(control.condition, build(arith.not_, stop))
    elif all(map(is_pure, test.ops)):
        stays = build(arith.not_, stop)
        build.op(control.condition, build(arith.and_, stays, materialise(build, condition, I1)))
    else:
        left, goes = Block(), Block()
        for op in test.ops:
            op.unlink()
            goes.append(op)
        with build.into(left):
            build.op(control.yield_, build.constant(False, I1))
        with build.into(goes):
            build.op(control.yield_, materialise(build, condition, I1))
        both = build.op(control.if_, stop, regions=(left, goes))
        build.op(control.condition, both.result)
