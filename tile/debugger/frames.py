"""The call stack, from the lines of Python that launch down to where a program stands.

The positions of all programs of a launch are here, too.
"""

from __future__ import annotations

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

from tile.backends.interp.bytecode import Instruction
from tile.backends.interp.program_batch import Activation, LaunchContext, ProgramBatch
from tile.backends.interp.program_batch import Frame as BlockFrame
from tile.backends.interp.stepping import StepInstruction, SteppedLaunch
from tile.backends.interp.values import Rows
from tile.debugger.source_files import display_path, functions, span
from tile.debugger.variables import Leaf, Reader, Tree, trees
from tile.ir.debug_info import distribute_values
from tile.ir.ops import control
from tile.ir.ops.debug import StepKind

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
    """A frame of the Python program, which launched the kernel, or failed."""

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
        """Return the arguments of the function by name."""
        info = inspect.getargvalues(self.frame)
        names = [*info.args, *filter(None, (info.varargs, info.keywords))]
        return {name: info.locals[name] for name in names if name in info.locals}


@dataclass(frozen=True, eq=False)
class KernelFrame:
    """A call of a kernel's function in a batch, inspected for the program at one of its rows."""

    batch: ProgramBatch
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
        """The kind of the step that begins here; None inside a statement."""
        return self.step.op["kind"] if self.instruction is self.step else None

    @property
    def reader(self) -> Reader:
        """The reader of variables for the selected program."""
        index = int(np.searchsorted(self.batch.rows, self.row))
        return Reader(self.batch, self.activation, index)

    @cached_property
    def variables(self) -> dict[str, Tree]:
        """The variables by name."""
        return variables(self.step)

    def arguments(self) -> list[str]:
        """Return the names of the function's parameters: its variables where it begins."""
        for instruction in self.activation.function.body.instructions:
            if isinstance(instruction, StepInstruction):
                return list(variables(instruction))
        return []


def variables(step: StepInstruction) -> dict[str, Tree]:
    """Return the variables that a step describes, by name."""
    op = step.op
    pairs = list(zip(op.inputs, step.shown, strict=True))
    shared = distribute_values(op["variables"], [value.type for value in op.inputs], pairs)
    return trees([Leaf(v, [x for x, _ in own], [r for _, r in own]) for v, own in shared])


def depth(batch: ProgramBatch) -> int:
    """Return the number of active calls in a batch; 1 in the kernel itself."""
    return 1 + sum(_is_call(frame) for frame in batch.frames)


def _is_call(frame: BlockFrame) -> bool:
    return frame.instruction is not None and frame.instruction.op.defn is control.call


def kernel_frames(batch: ProgramBatch, row: int) -> list[KernelFrame]:
    """Return the calls of a batch, the kernel first."""
    calls: list[list[BlockFrame]] = []
    for frame in batch.frames:
        if calls and calls[-1][0].activation is frame.activation:
            calls[-1].append(frame)
        else:
            calls.append([frame])
    frames = []
    for blocks in calls:
        step, instruction = _position(blocks)
        if step is not None:
            frames.append(KernelFrame(batch, row, blocks[0].activation, step, instruction or step))
    return frames


def _position(blocks: Sequence[BlockFrame]) -> tuple[StepInstruction | None, Instruction | None]:
    """Return the last step before the position of a call, and the instruction at it."""
    top = blocks[-1]
    within = top.pc < len(top.block.instructions)
    instruction = top.block.instructions[top.pc] if within else None
    for frame in reversed(blocks):
        for before in reversed(frame.block.instructions[: frame.pc + 1]):
            if isinstance(before, StepInstruction):
                return before, instruction
    return None, instruction


def host_frames(innermost: types.FrameType | None) -> list[HostFrame]:
    """Return the Python frames outside this package, outermost first."""
    frames = []
    frame = innermost
    while frame is not None:
        if not _is_internal(frame):
            frames.append(HostFrame(frame, frame.f_lineno))
        elif frame.f_code.co_name == RUNS_PROGRAMS:
            break
        frame = frame.f_back
    return frames[::-1]


def failed_frames(error: BaseException) -> list[HostFrame]:
    """Return the Python frames outside this package that an error passed through."""
    frames = []
    trace = error.__traceback__
    while trace is not None:
        if not _is_internal(trace.tb_frame):
            frames.append(HostFrame(trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    return frames


# The function of this package that runs a user's program; the frames outside of it are irrelevant.
RUNS_PROGRAMS = "run_program"


def _is_internal(frame: types.FrameType) -> bool:
    file = frame.f_code.co_filename
    return file.startswith((PACKAGE, "<frozen ")) or file == os.path.join(
        os.path.dirname(os.__file__), "contextlib.py"
    )


def caller() -> list[HostFrame]:
    """Return the Python frames that led here."""
    return host_frames(sys._getframe(1))


def source_lines(frame: Frame) -> tuple[list[str], int]:
    """Return the lines of a frame's function and the number of the first; all of a module's."""
    lines = linecache.getlines(frame.file)
    if isinstance(frame, HostFrame) and frame.function == "<module>":
        return lines, 1
    for function in functions(frame.file):
        first, last = span(function)
        if frame.first_line in (function.lineno, first):
            return lines[first - 1 : last], first
    return lines, 1


MAX_RANGES = 4  # ranges of programs that a list names


@dataclass(frozen=True, eq=False)
class ProgramGroup:
    """Programs at the same position. `batch` holds their variables, None if they have none."""

    rows: Rows
    batch: ProgramBatch | None
    status: str


def groups(launch: SteppedLaunch) -> Iterator[ProgramGroup]:
    """Yield the programs of a launch by position, those of the running batch first."""
    scheduler = launch.scheduling
    running = {} if scheduler.running is None else {scheduler.running: "at"}
    waiting = dict.fromkeys(scheduler.parked, "wait for a change of memory, at")
    statuses = running | dict.fromkeys(scheduler.queue, "at") | waiting | running
    active = [ProgramGroup(b.rows, b, f"{status} {line_of(b)}") for b, status in statuses.items()]
    for join in scheduler.joins:
        if join.waiting:
            status = f"wait for the others, at the end of {line_of(join.batch)}"
            active.append(ProgramGroup(join.batch.rows[join.arrived()], join.batch, status))
    yield from active
    begun = np.flatnonzero(scheduler.started)
    rows = np.concatenate([np.zeros(0, np.intp), *(group.rows for group in active)])
    ended, rest = np.setdiff1d(begun, rows), np.flatnonzero(~scheduler.started)
    for others, status in ((ended, "ended"), (rest, "not started")):
        if len(others):
            yield ProgramGroup(others, None, status)


def line_of(batch: ProgramBatch) -> str:
    """Return the line at which a batch stands."""
    frames = kernel_frames(batch, int(batch.rows[0]))
    return f"{display_path(frames[-1].file)}:{frames[-1].line}" if frames else "the beginning"


def group_of(launch: SteppedLaunch, row: int) -> ProgramGroup:
    """Return the group of a program."""
    return next(group for group in groups(launch) if row in group.rows)


def describe_programs(launch: LaunchContext, rows: Rows) -> str:
    """Return a description of some programs of a launch."""
    if len(rows) == 1:
        return f"program {launch.coordinates(int(rows[0]))}"
    if len(rows) == launch.programs:
        return f"all {len(rows)} programs"
    return f"{len(rows)} programs: {', '.join(_ranges(launch, rows))}"


def _ranges(launch: LaunchContext, rows: Rows) -> Sequence[str]:
    starts = np.flatnonzero(np.diff(rows) != 1) + 1
    ranges = []
    for run in np.split(rows, starts)[: MAX_RANGES + 1]:
        first, last = (launch.coordinates(int(row)) for row in (run[0], run[-1]))
        ranges.append(str(first) if len(run) == 1 else f"{first} to {last}")
    return ranges if len(ranges) <= MAX_RANGES else [*ranges[:MAX_RANGES], "..."]
