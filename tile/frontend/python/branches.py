"""Merge two branches: their names and early exits become results of one `if`.

The IR has no `break`, `continue` or `return`. If a branch always takes an exit, the statements that
follow are moved into the other branch (`if_else`). If a branch may take one, it sets a flag, and
the statements that follow are placed under an `if` on that flag (`guard`).

    if x > 0:              if %c {
        return                 yield
    y = f(x)         =>    } else {
    ...                        %y = ...
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tile.errors import CompilationError
from tile.frontend.python.lowering_context import (
    Binding,
    Conflict,
    Entry,
    Flag,
    Flow,
    LiveOut,
    Lowering,
    Partial,
    Path,
    Scope,
    note_at,
)
from tile.frontend.python.value_trees import (
    MismatchError,
    Phi,
    Phis,
    describe,
    name_leaves,
    resolve,
)
from tile.ir.core import Block, Value
from tile.ir.ops import arith, control
from tile.ir.types import I1
from tile.location import Loc


def if_else(
    low: Lowering, node: ast.If, condition: Value, rest: Sequence[ast.stmt], live_out: LiveOut
) -> bool:
    """Compile an `if` on a runtime condition.

    Return True if the statements `rest` that follow it were compiled too, inside a branch.
    """
    inner = None if rest else live_out
    loc = low.loc(node.test)
    # Each `elif` is nested in the one before it, so use few Python frames per level.
    first = low.branch(functools.partial(low.rules.body, low, node.body, inner))
    second = low.branch(functools.partial(low.rules.body, low, node.orelse, inner))
    takes_rest = first.flow.unreachable or second.flow.unreachable
    for path, other in ((first, second), (second, first)):
        if path.flow.unreachable and not other.flow.unreachable:
            low.extend(other, lambda: low.body(rest, live_out))
            break
    join(low, condition, first, second, live_out if takes_rest else inner, loc)
    return takes_rest


def guard(low: Lowering, work: Callable[[], None], live_out: LiveOut, loc: Loc) -> None:
    """Compile `work` under an `if` on the flag that an exit was taken; it runs if none was."""
    flow = low.flow
    assert isinstance(flow.exited, Value)

    def at_exit(flag: Flag) -> Flag:
        return True if flag is flow.exited else flag

    taken = Flow(True, at_exit(flow.left), at_exit(flow.returned), flow.result)
    first = Path(Block(), dict(low.scope), taken)
    second = low.branch(work)
    join(low, flow.exited, first, second, live_out, loc)


def join(
    low: Lowering, condition: Value, first: Path, second: Path, live_out: LiveOut, loc: Loc
) -> None:
    """Merge two branches into an `if`, and set the names and the flow after it."""
    merge = _Merge(low, condition, first, second)
    scope = merge.scope(live_out)
    result = merge.result()
    a, b = first.flow, second.flow
    pairs = ((a.exited, b.exited), (a.left, b.left), (a.returned, b.returned))
    flags = [merge.flag(x, y) for x, y in pairs]
    values = emit_if(low, condition, first.block, second.block, merge.phis, loc)
    low.scope = {name: _resolved(name, entry, values) for name, entry in scope.items()}
    exited, left, returned = (merge.resolve(flag, values) for flag in flags)
    if result is not None:
        result = Binding(resolve(result.value, values), result.loc)
    low.flow = Flow(exited, left, returned, result)


def emit_if(
    low: Lowering, condition: Value, first: Block, second: Block, phis: Phis, loc: Loc
) -> list[Value]:
    """Emit the `if` of two branches, and return its results: the values of the phis."""
    build = low.build
    build.loc = loc
    if not phis.types and first.first is None and second.first is None:
        return []
    for block, incoming in ((first, phis.first), (second, phis.second)):
        with build.into(block):
            build.op(control.yield_, *phis.materialize(build, incoming))
    return build.op(control.if_, condition, regions=(first, second)).results


def _resolved(name: str, entry: Entry, values: Sequence[Value]) -> Entry:
    if not values or not isinstance(entry, Binding):
        return entry
    value = resolve(entry.value, values)
    name_leaves(value, name)
    return Binding(value, entry.loc, entry.doubtful)


@dataclass(frozen=True, slots=True)
class _Negated:
    """The flag that is the negated condition."""


_Flag = bool | Value | Phi | _Negated

ONE_BRANCH = "only in one branch of an `if`"


class _Merge:
    """The merge of two branches of an `if`."""

    def __init__(self, low: Lowering, condition: Value, first: Path, second: Path) -> None:
        self.low = low
        self.condition = condition
        self.negated: Value | None = None
        self.first = first
        self.second = second
        self.phis = Phis()
        self.flags: dict[tuple[Flag, Flag], Phi] = {}

    def scope(self, live_out: LiveOut) -> Scope:
        """Return the names after the `if`, in terms of phis, limited to those in `live_out`."""
        scope: Scope = {}
        for name in {**self.first.scope, **self.second.scope}:
            if live_out is None or name in live_out:
                a, b = self.first.scope.get(name), self.second.scope.get(name)
                entry = a if a is b else self.entry(name, a, b)
                if entry is not None:
                    scope[name] = entry
        return scope

    def entry(self, name: str, a: Entry | None, b: Entry | None) -> Entry | None:
        """Return the entry of a name whose entries in the two branches differ."""
        read_a, read_b = self.reads(name, self.first), self.reads(name, self.second)
        loop = self.low.loop
        if not (read_a or read_b or (loop is not None and loop.tested(name))):
            return None
        if isinstance(a, Binding) and isinstance(b, Binding):
            met = self.both(a, b, self.low.scope.get(name))
            if isinstance(met, Binding) or (read_a and read_b):
                return met
        if not read_a or (self.first.flow.unreachable and not isinstance(a, Binding)):
            return self.alone(b, first=False, doubtful=read_a)
        if not read_b or (self.second.flow.unreachable and not isinstance(b, Binding)):
            return self.alone(a, first=True, doubtful=read_b)
        if a is None or b is None:
            bound = a or b
            return Partial(ONE_BRANCH, bound.loc) if isinstance(bound, Binding) else bound
        return b if isinstance(a, Binding) else a

    def reads(self, name: str, path: Path) -> bool:
        """Return True if a name may be read after this path."""
        if not path.flow.unreachable:
            return True
        loop = self.low.loop
        return path.flow.returned is not True and loop is not None and loop.carries(name)

    def alone(self, entry: Entry | None, *, first: bool, doubtful: bool) -> Entry | None:
        """Return the entry of a name that matters on one path only; the other took an exit."""
        if not isinstance(entry, Binding):
            return entry
        value = self.phis.one_sided(entry.value, first=first)
        self.low.read_bindings.add(entry)
        return Binding(value, entry.loc, self.low.loop if doubtful else entry.doubtful)

    def both(self, a: Binding, b: Binding, before: Entry | None) -> Entry:
        try:
            value = self.phis.unify(a.value, b.value)
        except MismatchError:
            return Conflict(a, b)
        self.low.read_bindings.update((a, b))
        return Binding(value, b.loc if before is a else a.loc, a.doubtful or b.doubtful)

    def result(self) -> Binding | None:
        """Return the merged result of the function, if one of the branches returned."""
        a, b = self.first.flow.result, self.second.flow.result
        if a is None or self.first.flow.returned is False:
            return b and Binding(self.phis.one_sided(b.value, first=False), b.loc)
        if b is None or self.second.flow.returned is False:
            return Binding(self.phis.one_sided(a.value, first=True), a.loc)
        try:
            return Binding(self.phis.unify(a.value, b.value), a.loc)
        except MismatchError:
            raise different_results(self.low.function.name, a, b) from None

    def flag(self, a: Flag, b: Flag) -> _Flag:
        """Return the flag that is `a` after the first branch and `b` after the second."""
        if a is b:
            return a
        if a is True and b is False:
            return self.condition
        if a is False and b is True:
            return _Negated()
        if (a, b) not in self.flags:
            self.flags[a, b] = self.phis.add(I1, a, b)
        return self.flags[a, b]

    def resolve(self, flag: _Flag, values: Sequence[Value]) -> Flag:
        """Return the value of a flag after the `if`."""
        if isinstance(flag, Phi):
            return values[flag.index]
        if isinstance(flag, _Negated):
            if self.negated is None:
                self.negated = self.low.build(arith.not_, self.condition)
                self.low.flags.append(self.negated)
            return self.negated
        return flag


def different_results(function: str, a: Binding, b: Binding) -> CompilationError:
    """Return the error for a function whose paths return different types."""
    return CompilationError(
        f"`{function}` returns {describe(b.value)} here and {describe(a.value)} on another path; "
        "all paths must return one type",
        loc=b.loc,
        notes=[note_at(f"it returns {describe(a.value)}", a.loc)],
    )
