"""Where paths meet: names and exits of two branches become the results of one `if`.

`break`, `continue` and `return` never reach the IR. A branch that surely takes one has nothing
after it, so the statements that follow go into the other branch (`if_else`); where a branch only
may take one, it sets a flag, and what follows is put under an `if` on that flag (`guard`).

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

from tile.errors import CompilationError, Loc
from tile.frontend.scope import Binding, Conflict, Entry, Partial, Scope, place
from tile.frontend.state import Flag, Flow, Lowering, Path, Tail
from tile.frontend.values import (
    MismatchError,
    Slot,
    Slots,
    describe,
    name_leaves,
    resolve,
)
from tile.ir.core import Block, Value
from tile.ir.ops import arith, control
from tile.ir.types import I1


def if_else(
    low: Lowering, node: ast.If, condition: Value, rest: Sequence[ast.stmt], tail: Tail
) -> bool:
    """Compile an `if` on a runtime condition; whether it took the `rest` of the block along."""
    inner = None if rest else tail
    loc = low.loc(node.test)
    # No more of Python's frames than need be: each `elif` is nested in the one before it.
    first = low.branch(functools.partial(low.rules.body, low, node.body, inner))
    second = low.branch(functools.partial(low.rules.body, low, node.orelse, inner))
    takes = first.flow.gone or second.flow.gone
    for gone, other in ((first, second), (second, first)):
        if gone.flow.gone and not other.flow.gone:
            low.extend(other, lambda: low.body(rest, tail))
            break
    join(low, condition, first, second, tail if takes else inner, loc)
    return takes


def guard(low: Lowering, work: Callable[[], None], tail: Tail, loc: Loc) -> None:
    """Do `work` only if no exit was taken on the way here, which a flag says."""
    flow = low.flow
    assert isinstance(flow.exited, Value)

    def given_exit(flag: Flag) -> Flag:
        return True if flag is flow.exited else flag

    taken = Flow(True, given_exit(flow.left), given_exit(flow.returned), flow.result)
    first = Path(Block(), dict(low.scope), taken)
    second = low.branch(work)
    join(low, flow.exited, first, second, tail, loc)


def join(low: Lowering, condition: Value, first: Path, second: Path, tail: Tail, loc: Loc) -> None:
    """End two branches and go on after them, with what names and flow have become."""
    meeting = _Meeting(low, condition, first, second)
    scope = meeting.scope(tail)
    result = meeting.result()
    a, b = first.flow, second.flow
    pairs = ((a.exited, b.exited), (a.left, b.left), (a.returned, b.returned))
    flags = [meeting.flag(x, y) for x, y in pairs]
    values = emit_if(low, condition, first.block, second.block, meeting.slots, loc)
    low.scope = {name: _resolved(name, entry, values) for name, entry in scope.items()}
    exited, left, returned = (meeting.resolve(flag, values) for flag in flags)
    if result is not None:
        result = Binding(resolve(result.value, values), result.loc)
    low.flow = Flow(exited, left, returned, result)


def emit_if(
    low: Lowering, condition: Value, first: Block, second: Block, slots: Slots, loc: Loc
) -> list[Value]:
    """The `if` of two branches, and the values of its slots after it."""
    build = low.build
    build.loc = loc
    if not slots.types and first.first is None and second.first is None:
        return []
    for block, fillings in ((first, slots.first), (second, slots.second)):
        with build.into(block):
            build.op(control.yield_, *slots.fill(build, fillings))
    return build.op(control.if_, condition, regions=(first, second)).results


def _resolved(name: str, entry: Entry, values: Sequence[Value]) -> Entry:
    if not values or not isinstance(entry, Binding):
        return entry
    value = resolve(entry.value, values)
    name_leaves(value, name)
    return Binding(value, entry.loc, entry.doubtful)


@dataclass(frozen=True, slots=True)
class _Negated:
    """The flag that is the opposite of the condition."""


_Flag = bool | Value | Slot | _Negated

ONE_BRANCH = "only in one branch of an `if`"


class _Meeting:
    """Two branches of an `if` at their ends."""

    def __init__(self, low: Lowering, condition: Value, first: Path, second: Path) -> None:
        self.low = low
        self.condition = condition
        self.negated: Value | None = None
        self.first = first
        self.second = second
        self.slots = Slots()
        self.flags: dict[tuple[Flag, Flag], Slot] = {}

    def scope(self, tail: Tail) -> Scope:
        """What names stand for after both, in terms of slots; no more names than the tail wants."""
        scope: Scope = {}
        for name in {**self.first.scope, **self.second.scope}:
            if tail is None or name in tail:
                a, b = self.first.scope.get(name), self.second.scope.get(name)
                entry = a if a is b else self.entry(name, a, b)
                if entry is not None:
                    scope[name] = entry
        return scope

    def entry(self, name: str, a: Entry | None, b: Entry | None) -> Entry | None:
        """What a name stands for after two branches that left it different."""
        read_a, read_b = self.reads(name, self.first), self.reads(name, self.second)
        loop = self.low.loop
        if not (read_a or read_b or (loop is not None and loop.tested(name))):
            return None
        if isinstance(a, Binding) and isinstance(b, Binding):
            met = self.both(a, b, self.low.scope.get(name))
            if isinstance(met, Binding) or (read_a and read_b):
                return met
        if not read_a or (self.first.flow.gone and not isinstance(a, Binding)):
            return self.alone(b, first=False, doubtful=read_a)
        if not read_b or (self.second.flow.gone and not isinstance(b, Binding)):
            return self.alone(a, first=True, doubtful=read_b)
        if a is None or b is None:
            known = a or b
            return Partial(ONE_BRANCH, known.loc) if isinstance(known, Binding) else known
        return b if isinstance(a, Binding) else a

    def reads(self, name: str, path: Path) -> bool:
        """Whether anybody may read the name after this path."""
        if not path.flow.gone:
            return True
        loop = self.low.loop
        return path.flow.returned is not True and loop is not None and loop.carries(name)

    def alone(self, entry: Entry | None, *, first: bool, doubtful: bool) -> Entry | None:
        """A name of one path only; the other was left by an exit."""
        if not isinstance(entry, Binding):
            return entry
        value = self.slots.one_sided(entry.value, first=first)
        self.low.looked_at.add(entry)
        return Binding(value, entry.loc, self.low.loop if doubtful else entry.doubtful)

    def both(self, a: Binding, b: Binding, before: Entry | None) -> Entry:
        try:
            value = self.slots.unify(a.value, b.value)
        except MismatchError:
            return Conflict(a, b)
        self.low.looked_at.update((a, b))
        return Binding(value, b.loc if before is a else a.loc, a.doubtful or b.doubtful)

    def result(self) -> Binding | None:
        """What the function returns where one of the branches returned."""
        a, b = self.first.flow.result, self.second.flow.result
        if a is None or self.first.flow.returned is False:
            return b and Binding(self.slots.one_sided(b.value, first=False), b.loc)
        if b is None or self.second.flow.returned is False:
            return Binding(self.slots.one_sided(a.value, first=True), a.loc)
        try:
            return Binding(self.slots.unify(a.value, b.value), a.loc)
        except MismatchError:
            raise different_results(self.low.function.name, a, b) from None

    def flag(self, a: Flag, b: Flag) -> _Flag:
        """The flag that is `a` after the first branch and `b` after the second."""
        if a is b:
            return a
        if a is True and b is False:
            return self.condition
        if a is False and b is True:
            return _Negated()
        if (a, b) not in self.flags:
            self.flags[a, b] = self.slots.add(I1, a, b)
        return self.flags[a, b]

    def resolve(self, flag: _Flag, values: Sequence[Value]) -> Flag:
        """A flag as it is after the `if`."""
        if isinstance(flag, Slot):
            return values[flag.index]
        if isinstance(flag, _Negated):
            if self.negated is None:
                self.negated = self.low.build(arith.not_, self.condition)
                self.low.flags.append(self.negated)
            return self.negated
        return flag


def different_results(function: str, a: Binding, b: Binding) -> CompilationError:
    """The error for a function whose paths return different types."""
    return CompilationError(
        f"`{function}` returns {describe(b.value)} here and {describe(a.value)} on another path; "
        "all paths must return one type",
        loc=b.loc,
        notes=[place(f"it returns {describe(a.value)}", a.loc)],
    )
