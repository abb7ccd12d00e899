"""Compilation rules of statements, one per kind of AST node."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from functools import partial

from tile.errors import CompilationError
from tile.frontend.python.assignment import annotated, assign, augmented
from tile.frontend.python.branches import guard, if_else
from tile.frontend.python.debug_info import emit_statement_step
from tile.frontend.python.expressions import truth
from tile.frontend.python.loops import for_, while_loop
from tile.frontend.python.lowering_context import (
    Binding,
    Flow,
    LiveOut,
    Lowering,
    Statement,
    refused,
)
from tile.frontend.python.value_trees import compile_time_only, describe
from tile.language import debug
from tile.language.base.static_args import constant_value, static_truth
from tile.language.base.tensor import Tensor


def body(low: Lowering, statements: Sequence[ast.stmt], live_out: LiveOut) -> None:
    """Compile statements in order; `live_out` are the names live after the last of them."""
    pending = list(reversed(statements))
    while pending and not low.flow.unreachable:
        if low.flow.exited is not False:
            guard(low, partial(body, low, pending[::-1], live_out), live_out, low.loc(pending[-1]))
            return
        statement = pending.pop()
        if low.session.steps:
            emit_statement_step(low, statement)
        if not isinstance(statement, ast.If):
            low.statement(statement)
            continue
        condition = truth(low, statement.test, "if")
        if isinstance(condition, bool):
            pending.extend(reversed(statement.body if condition else statement.orelse))
        elif if_else(low, statement, condition, pending[::-1], live_out):
            return


def assignment(low: Lowering, node: ast.Assign) -> None:
    """Compile `a = b = value`."""
    value = low.expression(node.value)
    low.at(node.value)
    for target in node.targets:
        assign(low, target, value)


def expression(low: Lowering, node: ast.Expr) -> None:
    """Compile an expression statement; a docstring has no effect."""
    if not isinstance(node.value, ast.Constant):  # a docstring, or `...`
        low.expression(node.value)


def pass_(low: Lowering, node: ast.Pass) -> None:
    """Compile `pass`, which does nothing."""


def while_(low: Lowering, node: ast.While) -> None:
    """Compile a `while`."""
    if node.orelse:
        low.fail(node.orelse[0], "`else` of a `while` is not supported; set a flag before `break`")
    while_loop(low, node)


def return_(low: Lowering, node: ast.Return) -> None:
    """Compile `return`; a kernel returns no value."""
    value = None if node.value is None else low.expression(node.value)
    if low.kernel and value is not None:
        low.fail(
            node,
            f"a kernel returns nothing, and this returns {describe(value)}; write results with "
            "tl.store",
        )
    low.flow = Flow(True, True, True, Binding(value, low.loc(node)))


def break_(low: Lowering, node: ast.Break) -> None:
    """Compile `break`."""
    low.flow = Flow(exited=True, left=True)


def continue_(low: Lowering, node: ast.Continue) -> None:
    """Compile `continue`."""
    low.flow = Flow(exited=True)


def assert_(low: Lowering, node: ast.Assert) -> None:
    """Compile `assert`: check a compile-time condition now, and others when the kernel runs."""
    condition = low.expression(node.test)
    value = constant_value(condition)
    if isinstance(condition, Tensor) and value is None:
        message = "" if node.msg is None else low.expression(node.msg)
        low.at(node.test)
        debug.device_assert.emit(low.build, condition, message)
    elif not static_truth(value, "the condition of `assert`"):
        message = None if node.msg is None else low.expression(node.msg)
        text = "" if message is None else f": {compile_time_only(message, 'a message')}"
        raise CompilationError(f"assertion failed{text}", loc=low.loc(node.test))


ASYNC = "`async` is not supported in a kernel: each program runs from start to end"
TRY = "`try` is not supported in a kernel, where nothing raises; test with `if` or tl.device_assert"
IMPORT = "`import` is not supported in a kernel; import at the top of the file"

REFUSED: Mapping[type[ast.stmt], str] = {
    **dict.fromkeys((ast.AsyncFor, ast.AsyncFunctionDef, ast.AsyncWith), ASYNC),
    ast.ClassDef: "`class` is not supported in a kernel; values are tiles, scalars and tuples",
    ast.Delete: "`del` is not supported in a kernel; a name that is not used costs nothing",
    ast.FunctionDef: (
        "a function inside a kernel is not supported; write it outside with @tile.jit, and pass "
        "it what it needs as arguments"
    ),
    ast.Global: "`global` is not supported in a kernel; pass a pointer and store through it",
    **dict.fromkeys((ast.Import, ast.ImportFrom), IMPORT),
    ast.Match: "`match` is not supported in a kernel; write `if` and `elif`",
    ast.Nonlocal: "`nonlocal` is not supported in a kernel; pass and return values",
    ast.Raise: (
        "`raise` is not supported in a kernel; write tl.static_assert(False, ...) for a fault of "
        "the program, tl.device_assert(condition, ...) for one of the data"
    ),
    **dict.fromkeys((ast.Try, ast.TryStar), TRY),
    ast.With: "`with` is not supported in a kernel",
}
STATEMENTS: Mapping[type[ast.stmt], Statement] = {
    ast.AnnAssign: annotated,
    ast.Assert: assert_,
    ast.Assign: assignment,
    ast.AugAssign: augmented,
    ast.Break: break_,
    ast.Continue: continue_,
    ast.Expr: expression,
    ast.For: for_,
    ast.Pass: pass_,
    ast.Return: return_,
    ast.While: while_,
    **{kind: refused(message) for kind, message in REFUSED.items()},
}
