"""Breakpoints: where programs stop, and which programs stop at a step.

The condition of a breakpoint is evaluated for all programs of a batch: at once, if it is over
scalars (`i > 3 and program_id(0) == 2`). Any other is an expression like those of `p`, evaluated
for one program after the other.
"""

from __future__ import annotations

import ast
import builtins
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from tile.backends.interp.program_batch import ProgramBatch
from tile.backends.interp.values import Array, Rows
from tile.debugger.evaluate import FAILURES, names_of, namespace
from tile.debugger.frames import KernelFrame, depth, kernel_frames
from tile.debugger.source_files import display_path, same_file
from tile.debugger.variables import Leaf, MissingError
from tile.errors import ArgumentValueError
from tile.ir.core import Operation
from tile.ir.ops.debug import StepKind


class NotVectorizableError(Exception):
    """Raised for an expression that cannot be evaluated for all programs at once."""


class Condition:
    """A condition as the user wrote it. Raises `SyntaxError` for what is not an expression."""

    def __init__(self, text: str) -> None:
        self.text = text.strip()
        self.tree = ast.parse(self.text, mode="eval").body
        self.code = compile(self.text, "<condition>", "eval")
        self.vectorized = _vectorized(self.text)

    def __str__(self) -> str:
        return self.text

    def holds(self, frame: KernelFrame, user_variables: Mapping[str, Any]) -> Array:
        """Return a bool for each program of the frame's batch: the condition is true for it.

        Raises one of `FAILURES`; `MissingError` if a name in it has no value here.
        """
        names = names_of(self.code)
        defined = {"np", "tl", "program_id", "num_programs", *user_variables, *dir(builtins)}
        missing = sorted(names - defined - frame.variables.keys() - _attributes(self.tree))
        if missing:
            raise MissingError(f"name '{missing[0]}' is not defined")
        programs = len(frame.batch)
        code = self.vectorized
        values = None if code is None else _batch_namespace(frame, code.co_names)
        if code is None or values is None:
            return self.one_by_one(frame, names, user_variables)
        truth = np.asarray(eval(code, values), dtype=bool)
        return np.array(np.broadcast_to(truth, (programs,)))

    def one_by_one(
        self, frame: KernelFrame, names: set[str], user_variables: Mapping[str, Any]
    ) -> Array:
        """Evaluate the condition for each program by itself."""
        truths = []
        for row in frame.batch.rows:
            one = KernelFrame(
                frame.batch, int(row), frame.activation, frame.step, frame.instruction
            )
            value = eval(self.code, namespace(one, names, user_variables))
            if isinstance(value, np.ndarray) and value.size != 1:
                raise ArgumentValueError(
                    f"`{self.text}` is a tile of shape {value.shape}; say when it holds: "
                    f"`({self.text}).any()` or `({self.text}).all()`"
                )
            truths.append(bool(value))
        return np.array(truths)


def _attributes(tree: ast.expr) -> set[str]:
    """Return names after a dot, names that are assigned, and parameters of functions inside."""
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    stored = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    }
    return attributes | stored | {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}


class _Vectorizer(ast.NodeTransformer):
    """Rewrites an expression over scalars to one over arrays with an element for each program.

    Raises `NotVectorizableError` for any other expression.
    """

    NODES = (
        ast.BinOp, ast.BoolOp, ast.Compare, ast.Constant, ast.Name, ast.UnaryOp, ast.expr_context,
        ast.operator, ast.unaryop, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE,
    )  # fmt: skip

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if not isinstance(node, self.NODES) or isinstance(node, ast.MatMult):
            raise NotVectorizableError
        return super().generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        return _joined(ALL if isinstance(node.op, ast.And) else ANY, map(self.visit, node.values))

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        operands = pairwise([node.left, *node.comparators])
        links = zip(operands, node.ops, strict=True)
        return _joined(ALL, [ast.Compare(a, [op], [b]) for (a, b), op in links])

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return _joined(NOT, [node.operand]) if isinstance(node.op, ast.Not) else node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Accept `program_id(axis)` and `num_programs(axis)`, with `tl.` or without."""
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else ast.unparse(function)
        axes = [a.value for a in node.args if isinstance(a, ast.Constant)]
        if name not in GRID_FUNCTIONS or node.keywords or axes not in ([0], [1], [2]):
            raise NotVectorizableError
        return _joined(GRID_FUNCTIONS[name], node.args)


# Names of the functions that a rewritten expression calls; no program can spell them.
ALL, ANY, NOT = "<all>", "<any>", "<not>"
GRID_FUNCTIONS = {"program_id": "<program_id>", "num_programs": "<num_programs>"}


def _joined(function: str, values: Iterable[ast.expr]) -> ast.expr:
    return ast.Call(ast.Name(function, ast.Load()), list(values), [])


def _vectorized(text: str) -> types.CodeType | None:
    """Return the code of an expression for all programs of a batch at once, if there is any."""
    try:
        tree = ast.Expression(_Vectorizer().visit(ast.parse(text, mode="eval").body))
    except NotVectorizableError:
        return None
    return compile(ast.fix_missing_locations(tree), "<condition>", "eval")


def _batch_namespace(frame: KernelFrame, names: Iterable[str]) -> dict[str, Any] | None:
    """Return the values of scalars by name in all programs of a batch; None if one is not a scalar.

    Raises `MissingError` for a variable without a value.
    """
    launch, rows = frame.batch.launch, frame.batch.rows
    values: dict[str, Any] = {
        ALL: lambda *links: np.logical_and.reduce(np.broadcast_arrays(*links)),
        ANY: lambda *links: np.logical_or.reduce(np.broadcast_arrays(*links)),
        NOT: np.logical_not,
        GRID_FUNCTIONS["program_id"]: lambda axis: launch.coordinate(rows, axis),
        GRID_FUNCTIONS["num_programs"]: lambda axis: launch.grid[axis],
    }
    for name in set(names) - values.keys():
        leaf = frame.variables.get(name)
        if not isinstance(leaf, Leaf):
            return None
        if leaf.variable.text is not None or leaf.variable.reason is not None:
            values[name] = frame.reader.value(leaf)
        elif leaf.type is None or leaf.type.shape or leaf.type.element.is_ptr():
            return None
        else:
            values[name] = frame.reader.among_all(leaf)
    return values


class NoBreakpointError(Exception):
    """Raised for a number that no breakpoint has."""


@dataclass(eq=False)
class Breakpoint:
    """A breakpoint at a line of a file, at the first line of a function, or at any line.

    It stops the programs for which `condition` is true, after it was passed `ignore` times. One at
    any line stops programs for which the condition was not true at their previous line.
    """

    number: int
    file: str | None = None
    line: int | None = None
    function: str | None = None
    condition: Condition | None = None
    temporary: bool = False
    enabled: bool = True
    ignore: int = 0
    hits: int = 0
    held: Array | None = None  # at any line: True for each program whose condition held last

    @property
    def anywhere(self) -> bool:
        return self.line is None and self.function is None

    @property
    def place(self) -> str:
        """Its location, as messages name it."""
        if self.line is not None and self.file is not None:
            return f"{display_path(self.file)}:{self.line}"
        return self.function if self.function is not None else "any line"

    def __str__(self) -> str:
        """Return the line of a table, in pdb's form."""
        disposition = "del " if self.temporary else "keep"
        enabled = "yes" if self.enabled else "no "
        lines = [f"{self.number:<4}breakpoint   {disposition} {enabled}   at {self.place}"]
        if self.condition is not None:
            lines.append(f"\tstop only if {self.condition}")
        if self.ignore:
            lines.append(f"\tignore next {self.ignore} hits")
        if self.hits:
            lines.append(f"\tbreakpoint already hit {self.hits} time{'s' * (self.hits != 1)}")
        return "\n".join(lines)

    def is_at(self, file: str, line: int) -> bool:
        return self.line == line and self.file is not None and same_file(self.file, file)


HEADER = "Num Type         Disp Enb   Where"


class Breakpoints:
    """All breakpoints of a session, by number."""

    def __init__(self) -> None:
        self.by_number: dict[int, Breakpoint] = {}
        self.last_number = 0
        self.version = 0  # incremented by each change

    def add(
        self,
        *,
        file: str | None = None,
        line: int | None = None,
        function: str | None = None,
        condition: Condition | None = None,
        temporary: bool = False,
    ) -> Breakpoint:
        """Add a breakpoint."""
        self.last_number += 1
        self.version += 1
        one = Breakpoint(self.last_number, file, line, function, condition, temporary)
        self.by_number[one.number] = one
        return one

    def get(self, text: str) -> Breakpoint:
        """Return the breakpoint of a number. Raises `NoBreakpointError`."""
        if not text.isdecimal():
            raise NoBreakpointError(f"a breakpoint is named by its number, not `{text}`")
        breakpoint_ = self.by_number.get(int(text))
        if breakpoint_ is None:
            raise NoBreakpointError(f"there is no breakpoint {text}; `b` lists them")
        return breakpoint_

    def remove(self, one: Breakpoint) -> None:
        self.by_number.pop(one.number, None)
        self.version += 1

    def __iter__(self) -> Iterator[Breakpoint]:
        return iter(list(self.by_number.values()))

    def __str__(self) -> str:
        return "\n".join([HEADER, *map(str, self)])


@dataclass(frozen=True, eq=False)
class Hit:
    """The programs that stop, the breakpoint, and a problem with its condition."""

    rows: Rows
    breakpoint: Breakpoint
    problem: str = ""


@dataclass(frozen=True, eq=False)
class PendingStop:
    """A program that is about to reach the first line of a function with a breakpoint."""

    hit: Hit
    depth: int

    def is_at(self, batch: ProgramBatch) -> bool:
        return depth(batch) == self.depth and bool(np.isin(self.hit.rows[0], batch.rows))


class BreakpointMatcher:
    """Matches the steps of programs against the breakpoints of a session.

    Programs for which `only` is false hit none.
    """

    def __init__(self, breakpoints: Breakpoints, user_variables: Mapping[str, Any]) -> None:
        self.breakpoints = breakpoints
        self.user_variables = user_variables
        self.only: Condition | None = None
        self.pending: list[PendingStop] = []
        self._version = -1
        self._candidates: dict[Operation, Sequence[Breakpoint]] = {}

    def forget(self) -> None:
        """Reset at the start or restart of a launch."""
        self.pending.clear()
        for one in self.breakpoints:
            one.held = None

    def at(self, batch: ProgramBatch, op: Operation) -> Hit | None:
        """Return the first breakpoint that programs of a batch hit at a step, if any."""
        first = self.pending_hit(batch)
        candidates = self.candidates(op)
        if not candidates:
            return first
        frame = kernel_frames(batch, int(batch.rows[0]))[-1]
        for one in candidates:
            hit = self.hit(one, frame)
            if hit is not None and one.function is not None:
                self.pending.append(PendingStop(hit, depth(batch)))
            elif hit is not None:
                first = first or hit
        return first

    def pending_hit(self, batch: ProgramBatch) -> Hit | None:
        """Return the hit of a function whose first line a program of the batch has reached."""
        for pending in self.pending:
            if pending.is_at(batch):
                self.pending.remove(pending)
                return pending.hit
        return None

    def candidates(self, op: Operation) -> Sequence[Breakpoint]:
        """Return the enabled breakpoints at the location of a step."""
        if self._version != self.breakpoints.version:
            self._version = self.breakpoints.version
            self._candidates.clear()
        candidates = self._candidates.get(op)
        if candidates is None:
            candidates = [one for one in self.breakpoints if one.enabled and _is_at(one, op)]
            self._candidates[op] = candidates
        return candidates

    def hit(self, one: Breakpoint, frame: KernelFrame) -> Hit | None:
        """Return the hit of a breakpoint at a frame's position, if programs stop for it."""
        rows = frame.batch.rows
        problem = ""
        holds = np.ones(len(rows), bool)
        for condition in filter(None, (self.only, one.condition)):
            try:
                holds &= condition.holds(frame, self.user_variables)
            except MissingError as error:
                if one.anywhere or condition is self.only:
                    holds[:] = False
                problem = str(error)
            except FAILURES as error:
                problem = f"{type(error).__name__}: {error}"
        if one.anywhere:
            holds = _became_true(one, frame, holds)
        if not holds.any():
            return None
        if one.ignore:
            one.ignore -= 1
            return None
        one.hits += 1
        return Hit(rows[holds], one, problem)


def _is_at(one: Breakpoint, op: Operation) -> bool:
    assert op.loc is not None
    if one.function is not None:
        return op["kind"] is StepKind.CALL and op.loc.function == one.function
    if op["kind"] is not StepKind.LINE:
        return False
    return one.anywhere or one.is_at(op.loc.file, op.loc.line)


def _became_true(one: Breakpoint, frame: KernelFrame, holds: Array) -> Array:
    """Return where the condition has become true, and record in the breakpoint where it is true."""
    if one.held is None:
        one.held = np.zeros(frame.batch.launch.programs, bool)
    rows = frame.batch.rows
    became_true: Array = holds & ~one.held[rows]
    one.held[rows] = holds
    return became_true
