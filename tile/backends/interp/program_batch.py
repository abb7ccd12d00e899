"""Program batches: programs that run together, their position in the code and their registers.

A batch is a set of programs at one instruction. Where they disagree on a condition the batch is
forked: each child runs some of the programs, and the children meet again at a `Join` after the
region (reconvergence), so that programs diverge no longer than they must. A fork copies nothing. A
child takes the registers that it reads from its parent, which does not run meanwhile.

At the THREAD level the rows of a batch are threads, ordered by program and then by thread number,
and everything said of programs here applies to them.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from tile.backends.base import Grid
from tile.backends.interp.bytecode import ABSENT, BlockCode, Code, FunctionCode, Instruction
from tile.backends.interp.spin_loops import ObservedAccesses
from tile.backends.interp.values import Array, RegisterValue, Rows, merge, take
from tile.backends.interp.virtual_memory import DetectedFaultError, Memory
from tile.faults import Fault, FaultLog
from tile.ir.core import Operation


class StepResult(enum.Enum):
    """The state of a batch after a step of control flow."""

    GO = enum.auto()  # it continues
    STOP = enum.auto()  # it ended, or waits for its children
    PARK = enum.auto()  # it waits for a change of memory
    YIELD = enum.auto()  # it can continue, but other batches are to run first


class ParkedError(Exception):
    """Raised by an instruction that cannot continue before `wait` is over; it then runs again."""

    def __init__(self, wait: Waiting) -> None:
        super().__init__()
        self.wait = wait


class Waiting(Protocol):
    """The condition that ends the wait of a parked batch."""

    def over(self, memory: Memory) -> bool:
        """Return True if the batch may be able to continue."""

    def deadlock(self) -> DetectedFaultError | None:
        """Return the fault of a wait that never ends; None for the wait of a loop."""


class Activation:
    """The registers of one call of a function, for the programs of one batch."""

    __slots__ = ("function", "parent", "registers", "rows")

    def __init__(
        self, function: FunctionCode, parent: Activation | None = None, rows: Rows | None = None
    ) -> None:
        self.function = function
        self.registers: list[RegisterValue | None] = [None] * (function.registers + 1)
        self.parent = parent
        self.rows = rows  # rows of the parent that are the programs of this activation

    def read(self, register: int) -> RegisterValue | None:
        """Return the value of a register; None for an operand that is absent."""
        if register == ABSENT:
            return None
        value = self.registers[register]
        if value is None:
            assert self.parent is not None, "a register was never written"
            assert self.rows is not None
            outer = self.parent.read(register)
            assert outer is not None
            value = self.registers[register] = take(outer, self.rows)
        return value

    def take_rows(self, rows: Rows) -> Activation:
        """Return the same registers for some of the programs."""
        taken = Activation(
            self.function, self.parent, None if self.rows is None else self.rows[rows]
        )
        taken.registers = [None if v is None else take(v, rows) for v in self.registers]
        return taken


@dataclass(eq=False)
class Loop:
    """A running `for` or `while`."""

    carried: list[RegisterValue]  # between iterations; while the body runs, its registers hold them
    index: Any = None  # of a `for`: an int, or an array if bounds differ between programs
    upper: Any = None
    step: Any = None
    iterations: int = 0  # iterations since a program left the loop
    # Of a `while`: the state of its exit slice at the start of the running iteration, and memory's
    # version then; the same of an earlier iteration, with which later ones are compared.
    entry_state: dict[int, RegisterValue] | None = None
    version: int = -1
    checkpoint: dict[int, RegisterValue] | None = None
    checkpoint_version: int = -1
    observed: ObservedAccesses | None = None  # the accesses of the running iteration, if observed

    def take_rows(self, rows: Rows) -> Loop:
        """Return the loop for some of its programs."""
        bounds = (self.index, self.upper, self.step)
        if isinstance(self.index, np.ndarray):
            bounds = tuple(take(b, rows) for b in bounds)  # type: ignore[assignment]
        return replace(
            self,
            carried=[take(v, rows) for v in self.carried],
            index=bounds[0],
            upper=bounds[1],
            step=bounds[2],
            entry_state=_take_rows(self.entry_state, rows),
            checkpoint=_take_rows(self.checkpoint, rows),
        )


def _take_rows(
    state: dict[int, RegisterValue] | None, rows: Rows
) -> dict[int, RegisterValue] | None:
    return None if state is None else {i: take(value, rows) for i, value in state.items()}


@dataclass(eq=False)
class Frame:
    """A position in a block, and the continuation at the block's end."""

    activation: Activation
    block: BlockCode
    instruction: Instruction | None = None  # the operation whose region, or callee, this is
    loop: Loop | None = None
    join: Join | None = None
    pc: int = 0

    @property
    def enclosing_loop(self) -> tuple[Loop, Instruction]:
        """The loop whose region this is, and its operation."""
        assert self.loop is not None and self.instruction is not None
        return self.loop, self.instruction

    def take_rows(self, rows: Rows, activation: Activation) -> Frame:
        """Return the frame for some of its programs."""
        loop = None if self.loop is None else self.loop.take_rows(rows)
        return Frame(activation, self.block, self.instruction, loop, self.join, self.pc)


class LaunchContext:
    """The launch of a batch as rules see it: a kernel's code, a grid, and memory.

    A row of a batch is a program.
    """

    report: FaultLog | None = None  # collects faults; None: the first one is raised
    ready: Callable[[ProgramBatch], None]  # queues a batch; set by the scheduler

    def __init__(self, code: Code, grid: Grid) -> None:
        self.code = code
        self.grid = grid
        self.name = code.kernel.function.name
        self.programs = math.prod(grid)
        self.memory = Memory()
        self.memory.watched = code.polls
        self.gathers: dict[Operation, Any] = {}  # the state of each `cluster_gather`

    def report_fault(self, fault: Fault) -> None:
        """Take a fault: collect it, or raise it as its error."""
        raise NotImplementedError

    # -- grid coordinates

    def programs_of(self, rows: Rows) -> Rows:
        """Return the number of each row's program."""
        return rows

    def coordinate(self, rows: Rows, axis: int) -> Array:
        """Return the index of rows' programs along a grid axis, as i32; one number if shared."""
        programs = self.programs_of(rows)
        stride = math.prod(self.grid[:axis])
        extent = self.grid[axis]
        if extent == 1:
            return np.zeros(1, np.int32)
        first, last = int(programs[0]) // stride, int(programs[-1]) // stride
        if first == last:
            return np.full(1, first % extent, np.int32)
        return (programs // stride % extent).astype(np.int32)

    def coordinates(self, program: int) -> tuple[int, int, int]:
        """Return the grid coordinates of a program."""
        x, y, _ = self.grid
        return program % x, program // x % y, program // (x * y)

    def program(self, row: int) -> str:
        """Describe the program of a row."""
        return f"program {self.coordinates(row)} of grid {self.grid}"

    def element(self, index: tuple[int, ...], row: int) -> str:
        """Describe an element of a value, and its program. A scalar has an empty index."""
        where = f"element {list(index)} of the tile, in " if index else "in "
        return where + self.program(row)


class ProgramBatch:
    """Programs, or threads, that run together. `rows` are their sorted numbers in the launch.

    `chunk` is the state shared by programs that started together, if the launch has such state.
    """

    def __init__(
        self, launch: LaunchContext, rows: Rows, frames: list[Frame], chunk: object = None
    ) -> None:
        self.launch = launch
        self.rows = rows
        self.frames = frames
        self.chunk = chunk
        self.parked: Waiting | None = None  # what this batch waits for

    def __len__(self) -> int:
        return len(self.rows)

    def fork(self, rows: Rows) -> ProgramBatch:
        """Return a batch of some of the programs at the same position, which shares registers.

        This batch must not run before the new one has ended.
        """
        return self._take_rows(rows, lambda outer: Activation(outer.function, outer, rows))

    def split(self, rows: Rows) -> ProgramBatch:
        """Return a batch of some of the programs that shares nothing with this one."""
        return self._take_rows(rows, lambda outer: outer.take_rows(rows))

    def _take_rows(self, rows: Rows, make: Callable[[Activation], Activation]) -> ProgramBatch:
        activations: dict[int, Activation] = {}
        frames = []
        for frame in self.frames:
            outer = frame.activation
            if id(outer) not in activations:
                activations[id(outer)] = make(outer)
            frames.append(frame.take_rows(rows, activations[id(outer)]))
        return ProgramBatch(self.launch, self.rows[rows], frames, self.chunk)

    def restrict(self, rows: Rows) -> None:
        """Keep only some of the programs."""
        rest = self.split(rows)
        self.rows, self.frames = rest.rows, rest.frames

    def instruction(self) -> Instruction | None:
        """Return the instruction at which the batch stands; None at the end of a block."""
        frame = self.frames[-1]
        if frame.pc < len(frame.block.instructions):
            return frame.block.instructions[frame.pc]
        return None


@dataclass(eq=False)
class Join:
    """The reconvergence point of a batch's children, after an `if` or loop of the waiting parent.

    If nothing else can run, a join is broken: the programs that arrived continue without the rest,
    which continue on their own later. This lets a program that left a spin loop release its lock.
    """

    batch: ProgramBatch
    instruction: Instruction
    waiting: list[tuple[Rows, list[RegisterValue]]] = field(default_factory=list)
    count: int = 0
    broken: bool = False

    def arrive(self, programs: Rows, values: list[RegisterValue]) -> bool:
        """Take the results of some programs; return True if they were the last."""
        rows = np.searchsorted(self.batch.rows, programs)
        self.waiting.append((rows, values))
        self.count += len(programs)
        return self.count == len(self.batch)

    def results(self) -> list[RegisterValue]:
        """Return the results of all programs that arrived, in order of program."""
        rows = np.concatenate([r for r, _ in self.waiting])
        rank = np.argsort(np.argsort(rows))
        parts = []
        start = 0
        for r, values in self.waiting:
            parts.append((rank[start : start + len(r)], values))
            start += len(r)
        return [
            merge([(r, values[i]) for r, values in parts], len(rows))
            for i in range(len(self.instruction.results))
        ]

    def arrived(self) -> Rows:
        """Return the rows of the waiting batch that arrived."""
        return np.sort(np.concatenate([r for r, _ in self.waiting]))
