"""Programs that run together: where they stand and what their registers hold.

A wave is a set of programs at one place in the code. Where they disagree on a condition the wave
is forked: its children run each with some of the programs, and meet again at a `Join` behind the
region, so that programs part for no longer than they must. A child copies nothing when it is
forked; it fetches from its parent, which stands still meanwhile, what it comes to read.

At the THREAD level the rows of a wave are threads, the first thread of the first program first, and
all that is said of programs here is true of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tile.backends.interp.code import ABSENT, BlockCode, FunctionCode, Instruction
from tile.backends.interp.values import Held, Rows, merge, take

if TYPE_CHECKING:
    from tile.backends.interp.launch import Launch
    from tile.backends.interp.waiting import Observed, Wait


class Activation:
    """The registers of one call of a function, for the programs of one wave."""

    __slots__ = ("function", "parent", "registers", "rows")

    def __init__(
        self, function: FunctionCode, parent: Activation | None = None, rows: Rows | None = None
    ) -> None:
        self.function = function
        self.registers: list[Held | None] = [None] * function.registers
        self.parent = parent
        self.rows = rows  # the programs of this activation among the parent's

    def read(self, register: int) -> Held | None:
        """The value of a register; None for an operand that is absent."""
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
        """The same registers for some of the programs."""
        take_rows = Activation(
            self.function, self.parent, None if self.rows is None else self.rows[rows]
        )
        take_rows.registers = [None if v is None else take(v, rows) for v in self.registers]
        return take_rows


@dataclass(eq=False)
class Loop:
    """A running `for` or `while`."""

    carried: list[Held]  # between iterations; while the body runs its registers hold them
    index: Any = None  # of a `for`: an int, or an array where bounds differ between programs
    upper: Any = None
    step: Any = None
    iterations: int = 0  # iterations since a program left the loop
    # Of a `while`: the state of its exit slice when the running iteration began, and memory's
    # version then; the same of an earlier iteration, with which others are compared.
    entry_state: dict[int, Held] | None = None
    version: int = -1
    checkpoint: dict[int, Held] | None = None
    checkpoint_version: int = -1
    observed: Observed | None = None  # the accesses of the running iteration, if observed

    def take_rows(self, rows: Rows) -> Loop:
        """The loop for some of its programs."""
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


def _take_rows(state: dict[int, Held] | None, rows: Rows) -> dict[int, Held] | None:
    return None if state is None else {i: take(value, rows) for i, value in state.items()}


@dataclass(eq=False)
class Frame:
    """A place inside a block, and what to do at its end."""

    activation: Activation
    block: BlockCode
    instruction: Instruction | None = None  # whose region, or call, this is
    loop: Loop | None = None
    join: Join | None = None
    pc: int = 0

    def take_rows(self, rows: Rows, activation: Activation) -> Frame:
        """The frame for some of its programs."""
        loop = None if self.loop is None else self.loop.take_rows(rows)
        return Frame(activation, self.block, self.instruction, loop, self.join, self.pc)


class Wave:
    """Programs, or threads, that run together. `rows` are their sorted numbers in the launch.

    `chunk` is what those that started together share, if the launch has such a thing.
    """

    def __init__(
        self, launch: Launch, rows: Rows, frames: list[Frame], chunk: object = None
    ) -> None:
        self.launch = launch
        self.rows = rows
        self.frames = frames
        self.chunk = chunk
        self.parked: Wait | None = None  # what this wave waits for

    def __len__(self) -> int:
        return len(self.rows)

    def fork(self, rows: Rows) -> Wave:
        """A wave of some of the programs at the same place.

        This wave must not run while it lives.
        """
        return self._take_rows(rows, lambda outer: Activation(outer.function, outer, rows))

    def split(self, rows: Rows) -> Wave:
        """A wave of some of the programs that shares nothing with this one, which may run on."""
        return self._take_rows(rows, lambda outer: outer.take_rows(rows))

    def _take_rows(self, rows: Rows, make: Callable[[Activation], Activation]) -> Wave:
        made: dict[int, Activation] = {}
        frames = []
        for frame in self.frames:
            outer = frame.activation
            if id(outer) not in made:
                made[id(outer)] = make(outer)
            frames.append(frame.take_rows(rows, made[id(outer)]))
        return Wave(self.launch, self.rows[rows], frames, self.chunk)

    def restrict(self, rows: Rows) -> None:
        """Keep only some of the programs."""
        rest = self.split(rows)
        self.rows, self.frames = rest.rows, rest.frames

    def instruction(self) -> Instruction | None:
        """The instruction at which the wave stands."""
        frame = self.frames[-1]
        if frame.pc < len(frame.block.instructions):
            return frame.block.instructions[frame.pc]
        return None


@dataclass(eq=False)
class Join:
    """Where the children of a wave meet again: behind an `if` or a loop of the waiting `wave`.

    A join may be broken when nothing else can run: those that arrived go on without the rest, and
    the rest on their own later. That is what lets a program that left a spin loop release its
    lock.
    """

    wave: Wave
    instruction: Instruction
    arrivals: list[tuple[Rows, list[Held]]] = field(default_factory=list)
    count: int = 0
    broken: bool = False

    def arrive(self, programs: Rows, values: list[Held]) -> bool:
        """Take the results of some programs; whether they were the last."""
        rows = np.searchsorted(self.wave.rows, programs)
        self.arrivals.append((rows, values))
        self.count += len(programs)
        return self.count == len(self.wave)

    def results(self) -> list[Held]:
        """The results of all programs that arrived, in order of program."""
        rows = np.concatenate([r for r, _ in self.arrivals])
        place = np.argsort(np.argsort(rows))
        parts = []
        start = 0
        for r, values in self.arrivals:
            parts.append((place[start : start + len(r)], values))
            start += len(r)
        return [
            merge([(r, values[i]) for r, values in parts], len(rows))
            for i in range(len(self.instruction.results))
        ]

    def arrived(self) -> Rows:
        """The rows of the waiting wave that arrived."""
        return np.sort(np.concatenate([r for r, _ in self.arrivals]))
