"""Debug steps: IR operations that record the start of a statement and the variables there.

They are emitted only for kernels that a debugger inspects (`DebugSteps` in
`tile/ir/debug_info.py`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tile.frontend.python.lowering_context import Binding, Conflict, Entry, Lowering
from tile.frontend.python.value_trees import describe, item_names
from tile.ir.core import Block, Operation, Value
from tile.ir.debug_info import RESULT, Variable, distribute_values
from tile.ir.descriptor_type import Descriptor
from tile.ir.ops import control
from tile.ir.ops.debug import StepKind, debug_step
from tile.ir.types import Scalar
from tile.language.base.dtypes import spelled
from tile.language.base.tensor import Tensor
from tile.location import Loc

UNNAMED = "@"  # begins the names of values that no variable of the program has
TEXTUAL = (bool, int, float, str, type(None))


def emit_step(low: Lowering, loc: Loc, kind: StepKind = StepKind.LINE) -> None:
    """Emit a debug step with all variables, if the function is compiled with debug steps."""
    if not low.session.steps:
        return
    variables: list[str] = []
    values: list[Value] = []
    for name, entry in low.scope.items():
        if name.startswith(UNNAMED):
            continue
        for variable, value in _spelled(name, entry):
            variables.append(str(variable))
            values += [] if value is None else [value]
    outer, low.build.loc = low.build.loc, loc
    low.build.op(debug_step, *values, kind=kind, variables=tuple(variables))
    low.build.loc = outer


def drop_variable(op: Operation, name: str, why: str) -> None:
    """Record in a debug step that a variable, or all items of a tuple, has no value there."""
    variables: list[str] = []
    values: list[Value] = []
    types = [value.type for value in op.inputs]
    for variable, own in distribute_values(op["variables"], types, op.inputs):
        dropped = variable.name == name or variable.name.startswith(f"{name}.")
        variables.append(str(Variable(variable.name, reason=why) if dropped else variable))
        values += [] if dropped else own
    op.attributes["variables"] = tuple(variables)
    op.set_operands(values)


def emit_statement_step(low: Lowering, node: ast.stmt) -> None:
    """Emit the debug step of a statement. The steps of a `while` are in its test."""
    text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    names = node.targets if isinstance(node, ast.Assign) else ()
    unnamed = any(isinstance(name, ast.Name) and name.id.startswith(UNNAMED) for name in names)
    if not text and not unnamed and not isinstance(node, ast.While):
        emit_step(low, low.loc(node))


def emit_backedge_step(low: Lowering, node: ast.For) -> None:
    """Emit a debug step at the back edge of a loop, for programs that have not left the loop."""
    left = low.flow.left
    if not low.session.steps or left is True:
        return
    if left is False:
        emit_step(low, low.loc(node))
        return
    exited, staying = Block(), Block()
    with low.build.into(staying):
        emit_step(low, low.loc(node))
    for block in (exited, staying):
        with low.build.into(block):
            low.build.op(control.yield_)
    low.build.op(control.if_, left, regions=(exited, staying))


def emit_return_step(low: Lowering, result: object) -> None:
    """Emit the debug step of the function's end, with the result as the variable `RESULT`."""
    if not low.session.steps:
        return
    flow = low.flow.result
    end = low.source.node.end_lineno
    assert end is not None
    last = Loc(low.source.file, end + low.source.shift, function=low.function.name)
    loc = last if flow is None else flow.loc
    low.scope = {**low.scope, RESULT: Binding(result, loc)}
    emit_step(low, loc, StepKind.RETURN)


def _spelled(name: str, entry: Entry) -> Iterator[tuple[Variable, Value | None]]:
    if isinstance(entry, Binding):
        yield from _value(name, entry.value)
    elif isinstance(entry, Conflict):
        a, b = describe(entry.first.value), describe(entry.second.value)
        yield Variable(name, reason=f"it is {a} on one path to here and {b} on another"), None
    else:
        yield Variable(name, reason=f"it is assigned {entry.where}"), None


def _value(name: str, value: object) -> Iterator[tuple[Variable, Value | None]]:
    if isinstance(value, Tensor):
        ty = value.type
        parts = len(ty.component_types) if isinstance(ty, Descriptor) else 1
        yield Variable(name, parts), value.value
    elif isinstance(value, tuple) and value:
        for part, item in zip(item_names(value), value, strict=True):
            yield from _value(f"{name}.{part}", item)
    else:
        yield Variable(name, text=_text(value)), None


def _text(value: object) -> str:
    if isinstance(value, TEXTUAL) or value == ():
        return repr(value)
    return spelled(value) if isinstance(value, Scalar) else describe(value)
