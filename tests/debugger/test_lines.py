"""Lines and variables are Python's own: random programs, traced by Python and by the debugger's steps."""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import dataclass, field
from types import FrameType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import tile.language as tl
from tests.frontend.programs import programs
from tests.frontend.test_semantics import LOOPS, NESTED, defined
from tests.sampling import examples
from tile.backends.interp.backend import RULES
from tile.backends.interp.program_batch import ProgramBatch
from tile.backends.interp.stepping import SteppedKernel, SteppedLaunch, Watcher, watcher
from tile.debugger.frames import KernelFrame, kernel_frames
from tile.debugger.variables import MissingError, whole
from tile.frontend.python.code_generator import compile_function
from tile.frontend.python.source import DeviceFunction
from tile.ir.debug_info import DebugSteps
from tile.ir.ops import memory
from tile.ir.ops.debug import StepKind
from tile.ir.types import I32, Pointer
from tile.ir.verifier import verify

INPUTS = ((1, 2, 3), (5, -1, 7), (3, 3, 40), (0, 0, 0))
Event = tuple[str, int, dict[str, int]]


def python_lines(text: str, args: tuple[int, ...], flag: bool) -> list[Event]:
    """The lines that Python runs, with its variables before each."""
    language = SimpleNamespace(
        range=range, static_range=range, constexpr=tl.constexpr, store=lambda offset, value: None
    )
    kernel = defined(text, {"tl": language})["kernel"]
    file = kernel.__code__.co_filename
    events: list[Event] = []

    def trace(frame: FrameType, what: str, _: Any) -> Any:
        if frame.f_code.co_filename != file:
            return None
        if what == "line":
            events.append((frame.f_code.co_name, frame.f_lineno, dict(frame.f_locals)))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        kernel(0, *args, flag)
    finally:
        sys.settrace(before)
    return events


@dataclass
class Recorder(Watcher):
    """Gives each program arguments of its own, and keeps the lines that it comes to.

    So programs part at branches and loops, and meet again.
    """

    events: dict[int, list[Event]] = field(default_factory=lambda: defaultdict(list))

    def begin(self, launch: SteppedLaunch) -> None:
        launch.arguments[1:] = [np.array(column, np.int32) for column in zip(*INPUTS, strict=True)]

    def step(self, batch: ProgramBatch) -> None:
        for row in map(int, batch.rows):
            frame = kernel_frames(batch, row)[-1]
            if frame.kind is StepKind.LINE:
                self.events[row].append((frame.function, frame.line, numbers(frame)))


def numbers(frame: KernelFrame) -> dict[str, int]:
    """The variables of a program that have values."""
    values = {}
    for name, tree in frame.variables.items():
        try:
            value = whole(tree, frame.reader)
        except MissingError:
            continue
        if isinstance(value, int | np.generic) and not np.ma.is_masked(value):
            values[name] = int(value)
    return values


def debugged_lines(text: str, flag: bool) -> dict[int, list[Event]]:
    """The same of the steps of the compiled program, for each of `INPUTS`."""
    namespace = defined(text, {"tl": tl})
    if "helper" in namespace:
        namespace["helper"] = DeviceFunction(namespace["helper"])
    types = {"out": Pointer(I32), "a": I32, "b": I32, "c": I32}
    kernel = DeviceFunction(namespace["kernel"])
    module = compile_function(kernel, types, {"FLAG": flag}, steps=DebugSteps.ALWAYS)
    verify(module)
    for op in module.walk():
        if op.defn is memory.store:
            op.erase()
    recorder = Recorder()
    with watcher.scope(recorder):
        arguments = [np.zeros(1, np.int32), *(np.int32(0),) * 3]
        SteppedKernel(module, RULES, frozenset()).launch((len(INPUTS), 1, 1), arguments)
    return recorder.events


def check(text: str) -> None:
    """The same lines in the same order, and the same values wherever there is one."""
    for flag in (True, False):
        every = debugged_lines(text, flag)
        for row, args in enumerate(INPUTS):
            ours, pythons = every[row], python_lines(text, args, flag)
            where = f"differs for {args}, FLAG={flag}:\n{text}"
            assert [event[:2] for event in ours] == [event[:2] for event in pythons], where
            for (_, line, values), (_, _, known) in zip(ours, pythons, strict=True):
                wrong = {n: v for n, v in values.items() if known.get(n) != v}
                assert not wrong, f"line {line}: {wrong}, {known}\n{where}"


@examples(10)
@given(text=programs())
def test_random_programs(text: str) -> None:
    check(text)


def test_a_while_that_never_runs_has_a_step() -> None:
    check(
        """
def kernel(out, a, b, c, FLAG: tl.constexpr):
    x = 0
    while FLAG and x < 0 and c > c:
        x += 1
    tl.store(out, x)
"""
    )


EXITS = ("break", "continue", "return")


@pytest.mark.parametrize("number", range(len(LOOPS) ** 2))
def test_every_nesting_and_the_ways_out_of_it(number: int) -> None:
    kinds = list(LOOPS)
    outer, inner = kinds[number // len(kinds)], kinds[number % len(kinds)]
    first, second = (
        [part.format(i=name) for part in LOOPS[kind]] for kind, name in ((outer, "i"), (inner, "j"))
    )
    check(
        NESTED.format(
            before_i=first[0] or "pass",
            before_j=second[0] or "pass",
            outer=first[1].replace("\n", "\n    "),
            inner=second[1].replace("\n", "\n        "),
            exit_inner=EXITS[number % 3],
            exit_outer=EXITS[number % 2],
            test="i + j == c & 3",
        )
    )
