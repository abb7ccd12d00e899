"""Greedy pattern rewriting.

    @canonical.pattern(shape.trans)
    def trans_of_trans(op: Operation, rewriter: Rewriter) -> bool:
        ...
        rewriter.replace(op, [value])
        return True

A pattern is keyed by its root operation, or by a property of that. It returns True if it changed
the IR, and makes all changes through the `Rewriter`, which maintains the worklist. A
`simplification` is a pattern that returns what replaces the operation. Patterns are tried on each
operation in the order of their declaration, until none applies.

`erase_unused` is for code that is built; passes use `transforms/dce.py`, which also finds dead
loop-carried values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tile.errors import PassError, stamp
from tile.ir.builder import Builder
from tile.ir.core import Block, Function, Operation, Value
from tile.ir.effects import is_dead, is_removable
from tile.ir.op_definition import OpDef
from tile.ir.ops import control

Pattern = Callable[[Operation, "Rewriter"], bool]
# Returns what replaces the results of an operation; None where it does not apply.
Simplification = Callable[[Operation, "Rewriter"], Value | Sequence[Value] | None]

# The most rewrites per operation of the function; beyond that, patterns presumably undo each other.
MAX_REWRITES = 64


class PatternSet:
    """Patterns by their root operations."""

    def __init__(self) -> None:
        self._declared: list[tuple[Callable[[OpDef], bool], Pattern]] = []
        self._of: dict[OpDef, tuple[Pattern, ...]] = {}  # of the operations seen so far

    def pattern(
        self, *defns: OpDef, where: Callable[[OpDef], bool] | None = None
    ) -> Callable[[Pattern], Pattern]:
        """Declare a pattern on these operations and on those for which `where` holds.

        Without either it is a pattern on every operation.
        """
        every = not defns and where is None

        def matches(defn: OpDef) -> bool:
            return every or defn in defns or (where is not None and where(defn))

        def declare(pattern: Pattern) -> Pattern:
            self._declared.append((matches, pattern))
            self._of.clear()
            return pattern

        return declare

    def simplification(
        self, *defns: OpDef, where: Callable[[OpDef], bool] | None = None
    ) -> Callable[[Simplification], Simplification]:
        """Declare a pattern by the values that replace an operation, none if it has no results."""

        def declare(simplified: Simplification) -> Simplification:
            def pattern(op: Operation, rewriter: Rewriter) -> bool:
                values = simplified(op, rewriter)
                if values is None:
                    return False
                rewriter.replace(op, [values] if isinstance(values, Value) else values)
                return True

            self.pattern(*defns, where=where)(pattern)
            return simplified

        return declare

    def of(self, op: Operation) -> Sequence[Pattern]:
        """Return the patterns to try on an operation, in the order of their declaration."""
        patterns = self._of.get(op.defn)
        if patterns is None:
            patterns = tuple(pattern for matches, pattern in self._declared if matches(op.defn))
            self._of[op.defn] = patterns
        return patterns


class Rewriter:
    """A greedy rewrite of one function, with its worklist."""

    def __init__(self, function: Function, patterns: PatternSet) -> None:
        self.patterns = patterns
        self.function = function
        # A stack, reversed so that the first operation of the function is visited first.
        self.worklist: list[Operation] = list(reversed(list(function.walk())))
        self.queued: set[Operation] = set(self.worklist)
        # Parents of erased operations. Testing if they are dead walks all of their regions, so
        # they are visited last, once for any number of erased operations.
        self.parents: dict[Operation, None] = {}
        self.budget = MAX_REWRITES * (len(self.worklist) + 16)

    def run(self) -> bool:
        """Apply the patterns until none applies, and return True if the function changed."""
        changed = False
        while self.worklist or self.parents:
            if not self.worklist:
                for op in self.parents:
                    self.push(op)
                self.parents.clear()
                continue
            op = self.worklist.pop()
            self.queued.discard(op)
            if op.block is not None and self.visit(op):
                changed = True
                self.budget -= 1
                if self.budget < 0:
                    raise PassError(f"patterns do not converge in {self.function}", loc=op.loc)
        return changed

    def visit(self, op: Operation) -> bool:
        if is_dead(op):
            self.erase(op)
            return True
        with stamp(op.loc):
            for pattern in self.patterns.of(op):
                if pattern(op, self):
                    self.push(op)
                    return True
        return False

    def push(self, op: Operation) -> None:
        """Add an operation to the worklist."""
        if op.block is not None and op not in self.queued:
            self.queued.add(op)
            self.worklist.append(op)

    def build(
        self, op: Operation, defn: OpDef, *operands: Value | None, **attributes: Any
    ) -> Value:
        """Insert an operation with one result before `op`, with its location."""
        value = Builder.before(op)(defn, *operands, **attributes)
        if value.op is not None:
            self.push(value.op)
        return value

    def replace(self, op: Operation, values: Sequence[Value]) -> None:
        """Replace the results of `op` and erase it."""
        for old, new in zip(op.results, values, strict=True):
            for user in old.users:
                self.push(user)
            old.replace_by(new)
        self.erase(op)

    def erase(self, op: Operation) -> None:
        inputs = [value.op for inner in op.walk() for value in inner.inputs]
        if op.parent is not None:
            self.parents[op.parent] = None
        op.erase()
        for source in inputs:
            if source is not None:
                self.push(source)

    def set_operand(self, op: Operation, index: int, value: Value | None) -> None:
        old = op.operands[index]
        op.set_operand(index, value)
        if old is not None and old.op is not None:
            self.push(old.op)
        self.push(op)


def rewrite(function: Function, patterns: PatternSet) -> bool:
    """Apply patterns and remove dead operations until nothing changes; True if anything did."""
    return Rewriter(function, patterns).run()


Functions = Mapping[str, Function]


def erase_unused(block: Block, functions: Functions) -> None:
    """Erase the unused operations of a block and of its regions, and of functions it calls.

    A call is erased if the called function, which is one of `functions`, has no effects.
    """
    _erase(block, functions, set())


def _erase(block: Block, functions: Functions, seen: set[str]) -> None:
    for op in reversed(list(block)):
        for region in op.regions:
            _erase(region, functions, seen)
        if op.defn is control.call:
            _erase_called(op["callee"], functions, seen)
        if not any(result.uses for result in op.results) and _removable(op, functions):
            op.erase()


def _erase_called(name: str, functions: Functions, seen: set[str]) -> None:
    """Erase the unused operations of a function, each function once."""
    if name in functions and name not in seen:
        seen.add(name)
        _erase(functions[name].body, functions, seen)


def _removable(op: Operation, functions: Functions) -> bool:
    """Return True if an operation has no effects but its results; calls are looked into."""
    if op.defn is not control.call:
        return is_removable(op)
    called = functions.get(op["callee"])
    return called is not None and all(
        inner.defn.terminator or _removable(inner, functions) for inner in called.body
    )
