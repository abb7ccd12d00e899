"""The chain of calls: from the lines of Python that launch down to where a program stands."""

from __future__ import annotations

import ast
import inspect
import linecache
import os
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tile.backends.interp.code import Instruction
from tile.backends.interp.stepped.translate import StepInstruction
from tile.backends.interp.wave import Activation, Wave
from tile.backends.interp.wave import Frame as Block
from tile.debugger.values import Leaf, Reader, Tree, trees
from tile.ir.ops import control
from tile.ir.ops.debug import StepKind
from tile.ir.steps import shared_out

PACKAGE = str(Path(__file__).parent.parent) + os.sep


class Frame(Protocol):
    """A function that has begun and not ended; lines are 1-based."""

    @property
    def file(self) -> str: ...
    @property
    def line(self) -> int: ...
    @property
    def function(self) -> str: ...
    @property
    def first_line(self) -> int: ...


@dataclass(frozen=True, eq=False)
class HostFrame:
    """A frame of Python's own, which launched the kernel, or failed."""

    frame: types.FrameType
    line: int

    @property
    def file(self) -> str:
        return self.frame.f_code.co_filename

    @property
    def function(self) -> str:
        return self.frame.f_code.co_name

    @property
    def first_line(self) -> int:
        return self.frame.f_code.co_firstlineno

    def arguments(self) -> Mapping[str, Any]:
        """The arguments of the function by name."""
        found = inspect.getargvalues(self.frame)
        names = [*found.args, *filter(None, (found.varargs, found.keywords))]
        return {name: found.locals[name] for name in names if name in found.locals}


@dataclass(frozen=True, eq=False)
class KernelFrame:
    """A call of a kernel's function: in a wave, looked at for one of its rows."""

    wave: Wave
    row: int
    activation: Activation
    step: StepInstruction
    instruction: Instruction

    @property
    def file(self) -> str:
        loc = self.step.op.loc
        assert loc is not None
        return loc.file

    @property
    def line(self) -> int:
        loc = self.instruction.op.loc or self.step.op.loc
        assert loc is not None
        return loc.line

    @property
    def function(self) -> str:
        loc = self.step.op.loc
        assert loc is not None
        return loc.function

    @property
    def first_line(self) -> int:
        loc = self.activation.function.function.loc
        assert loc is not None
        return loc.line

    @property
    def kind(self) -> StepKind | None:
        """What begins here; None inside a statement."""
        return self.step.op["kind"] if self.instruction is self.step else None

    @property
    def reader(self) -> Reader:
        """Reads variables for the program that is looked at."""
        index = int(np.searchsorted(self.wave.rows, self.row))
        return Reader(self.wave, self.activation, index)

    @cached_property
    def variables(self) -> dict[str, Tree]:
        """What is known of each variable by name."""
        return variables(self.step)

    def arguments(self) -> list[str]:
        """The names of the function's parameters: its variables where it begins."""
        for instruction in self.activation.function.body.instructions:
            if isinstance(instruction, StepInstruction):
                return list(variables(instruction))
        return []


def variables(step: StepInstruction) -> dict[str, Tree]:
    """What a step says of each variable by name."""
    op = step.op
    pairs = list(zip(op.inputs, step.shown, strict=True))
    shared = shared_out(op["variables"], [value.type for value in op.inputs], pairs)
    return trees([Leaf(v, [x for x, _ in own], [r for _, r in own]) for v, own in shared])


def depth(wave: Wave) -> int:
    """How many functions have begun in a wave and not ended; 1 in the kernel itself."""
    return 1 + sum(_is_call(frame) for frame in wave.frames)


def _is_call(frame: Block) -> bool:
    return frame.instruction is not None and frame.instruction.op.defn is control.call


def kernel_frames(wave: Wave, row: int) -> list[KernelFrame]:
    """The calls of a wave, the kernel first."""
    calls: list[list[Block]] = []
    for frame in wave.frames:
        if calls and calls[-1][0].activation is frame.activation:
            calls[-1].append(frame)
        else:
            calls.append([frame])
    found = []
    for blocks in calls:
        step, instruction = _place(blocks)
        if step is not None:
            found.append(KernelFrame(wave, row, blocks[0].activation, step, instruction or step))
    return found


def _place(blocks: Sequence[Block]) -> tuple[StepInstruction | None, Instruction | None]:
    """The last step before where a call stands, and the instruction where it does."""
    top = blocks[-1]
    within = top.pc < len(top.block.instructions)
    instruction = top.block.instructions[top.pc] if within else None
    for frame in reversed(blocks):
        for before in reversed(frame.block.instructions[: frame.pc + 1]):
            if isinstance(before, StepInstruction):
                return before, instruction
    return None, instruction


def host_frames(innermost: types.FrameType | None) -> list[HostFrame]:
    """The frames of Python that are no part of this package, outermost first."""
    found = []
    frame = innermost
    while frame is not None:
        if not _is_own(frame):
            found.append(HostFrame(frame, frame.f_lineno))
        elif frame.f_code.co_name == RUNS_PROGRAMS:
            break
        frame = frame.f_back
    return found[::-1]


def failed_frames(error: BaseException) -> list[HostFrame]:
    """The frames of Python through which an error came, but for this package's."""
    found = []
    trace = error.__traceback__
    while trace is not None:
        if not _is_own(trace.tb_frame):
            found.append(HostFrame(trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    return found


# The function of this package that runs a user's program; what is outside of it is nobody's matter.
RUNS_PROGRAMS = "run_program"


def _is_own(frame: types.FrameType) -> bool:
    file = frame.f_code.co_filename
    return file.startswith((PACKAGE, "<frozen ")) or file == os.path.join(
        os.path.dirname(os.__file__), "contextlib.py"
    )


def caller() -> list[HostFrame]:
    """The frames of Python that led here."""
    return host_frames(sys._getframe(1))


def source_lines(frame: Frame) -> tuple[list[str], int]:
    """The lines of the function of a frame, and the number of the first; all of a module's."""
    lines = linecache.getlines(frame.file)
    if isinstance(frame, HostFrame) and frame.function == "<module>":
        return lines, 1
    for node in _functions("".join(lines)):
        decorators = [d.lineno for d in node.decorator_list]
        first = min([node.lineno, *decorators])
        if frame.first_line in (node.lineno, first) and node.end_lineno is not None:
            return lines[first - 1 : node.end_lineno], first
    return lines, 1


def _functions(text: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
