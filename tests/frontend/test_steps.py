"""Debug steps: their locations, their variables, and that they change nothing else."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

import tile.language as tl
from tests.frontend.building import INTS, PTR
from tile.frontend.python.code_generator import compile_function
from tile.frontend.python.source import DeviceFunction
from tile.ir.debug_info import DebugSteps, Variable
from tile.ir.module import Module
from tile.ir.ops.debug import StepKind, breakpoint_, debug_step
from tile.ir.parser import parse_module
from tile.ir.passes import run_pipeline
from tile.ir.printer import print_module
from tile.ir.types import I32
from tile.ir.verifier import verify
from tile.transforms.pass_pipeline import TILE


class Pair(NamedTuple):
    first: Any
    second: Any


def added(a, b):
    return a + b


added_ = DeviceFunction(added)


def kernel(x_ptr, n, B: tl.constexpr):
    """A docstring is no statement."""
    i = tl.arange(0, B)
    pair = Pair(i, (n, "text"))
    d = tl.make_tensor_descriptor(x_ptr, [n], [1], [4])
    if n > 3:
        late = n
    elif n > 2:
        late = n + 1
    x = d.load([0])
    while n > 0:
        n = added_(n, -1)
    total = tl.reduce(x, 0, added_)
    tl.store(x_ptr, total)


def stops(x_ptr, n):
    tl.store(x_ptr, 1)
    breakpoint()


def made(function: Any, steps: DebugSteps, **constants: Any) -> Module:
    types = {"x_ptr": INTS if "B" in constants else PTR, "n": I32}
    module = compile_function(DeviceFunction(function), types, constants, steps=steps)
    verify(module)
    return module


def step_ops(module: Module) -> list[tuple[str, int, str]]:
    first = kernel.__code__.co_firstlineno
    return [
        (op.loc.function, op.loc.line - first, op["kind"].value)
        for op in module.walk()
        if op.defn is debug_step and op.loc is not None
    ]


def test_every_statement_has_one_debug_step_and_loops_one_at_the_back_edge() -> None:
    module = made(kernel, DebugSteps.ALWAYS, B=4)
    lines = [
        line for function, line, kind in step_ops(module) if function == "kernel" and kind == "line"
    ]
    assert lines == [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]
    kinds = [kind for function, _, kind in step_ops(module) if function == "added"]
    assert kinds == ["call", "line", "return"]


def test_debug_steps_record_the_values_of_names() -> None:
    module = made(kernel, DebugSteps.ALWAYS, B=4)
    last = [op for op in module.kernel.walk() if op.defn is debug_step][-1]
    assert last["kind"] is StepKind.RETURN
    names = [
        "x_ptr", "n", "B = 4", "i", "pair.first", "pair.second.0", "pair.second.1 = 'text'", "d @ 2",
        "late ! it is assigned only in one branch of an `if`", "x", "total", "-> = None",
    ]  # fmt: skip
    assert list(last["variables"]) == names
    text = print_module(module)
    assert print_module(parse_module(text)) == text


def test_combine_functions_have_no_debug_steps() -> None:
    functions = [f for f in made(kernel, DebugSteps.ALWAYS, B=4) if f.name.startswith("added")]
    has_steps = [any(op.defn is debug_step for op in f.walk()) for f in functions]
    assert sorted(has_steps) == [False, True]


@pytest.mark.filterwarnings("ignore:.* is ignored")
@pytest.mark.parametrize("function", [kernel, stops])
def test_without_debug_steps_the_kernel_is_unchanged(function: Any) -> None:
    """After the passes that all backends begin with there is no difference."""
    constants = {"B": 4} if function is kernel else {}
    texts = []
    for steps in DebugSteps:
        module = made(function, steps, **constants)
        run_pipeline(module, TILE)
        texts.append(print_module(module))
    assert texts[0] == texts[1] == texts[2]


def test_breakpoints_add_debug_steps_where_a_debugger_can_open() -> None:
    assert step_ops(made(kernel, DebugSteps.AT_BREAKPOINTS, B=4)) == []
    assert step_ops(made(stops, DebugSteps.NEVER)) == []
    module = made(stops, DebugSteps.AT_BREAKPOINTS)
    assert len(step_ops(module)) == 4
    assert [op.defn for op in module.walk()].count(breakpoint_) == 1


def changes_type(x_ptr, n):
    x = n
    for _ in range(3):
        x = tl.load(x_ptr)
        tl.store(x_ptr, x)


def test_names_that_nobody_reads_may_change_their_type_under_a_debugger_too() -> None:
    """The type of such a name in an iteration's first lines differs between iterations."""
    made(changes_type, DebugSteps.NEVER)
    module = made(changes_type, DebugSteps.ALWAYS)
    said = [
        v for op in module.walk() if op.defn is debug_step for v in op["variables"] if v[0] == "x"
    ]
    assert said.count("x ! it changes its type in this loop") == 1


@pytest.mark.parametrize("text", ["x", "t.0", "B = 8", "s = ' ! @ = '", "y ! why = not", "d @ 4"])
def test_variables_are_read_as_they_are_written(text: str) -> None:
    assert str(Variable.parse(text)) == text


def test_passes_say_that_a_breakpoint_is_passed_over_and_drop_it() -> None:
    module = made(stops, DebugSteps.AT_BREAKPOINTS)
    line = stops.__code__.co_firstlineno + 2
    with pytest.warns(RuntimeWarning, match=rf"test_steps\.py:{line}:5 is ignored"):
        run_pipeline(module, "strip-debug-info")
    assert {op.defn for op in module.walk()}.isdisjoint({debug_step, breakpoint_})
