"""Runs waves: straight-line instructions one after the other, and control flow over frames.

The machine has its own stack of frames instead of Python's, because a wave must be able to stand
still in the middle of a loop while others run (see `scheduler.py`).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tile.analysis.exit_slice import ExitSlice
from tile.backends.interp.code import BlockCode, Instruction
from tile.backends.interp.values import Array, Held, array_of, same, take
from tile.backends.interp.waiting import Observed, Wait, repeats
from tile.backends.interp.wave import Activation, Frame, Join, Loop, Wave
from tile.errors import ExecutionError
from tile.ir import numerics
from tile.ir.opdef import OpDef
from tile.ir.ops import control
from tile.ir.types import Scalar

if TYPE_CHECKING:
    from tile.backends.interp.scheduler import Scheduler

# Iterations of a loop that waits for memory, since a program last left it, after which the
# programs that did leave go on, and others get their turn. Loops are looked at for cycles as often.
# A power of two.
PATIENCE = 64


class Then(enum.Enum):
    """What a step of control flow leaves behind."""

    GO = enum.auto()  # the wave runs on
    STOP = enum.auto()  # it ended, or waits for its children
    PARK = enum.auto()  # it waits for a change of memory
    YIELD = enum.auto()  # it could run on, but others shall have their turn


class Machine:
    """Runs one wave at a time until it cannot go on by itself."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.control: dict[OpDef, Callable[[Wave, Frame, Instruction], Then]] = {
            control.if_: self.if_,
            control.for_: self.for_,
            control.while_: self.while_,
            control.condition: self.condition,
            control.yield_: self.yield_,
            control.call: self.call,
            control.return_: self.return_,
        }

    def run(self, wave: Wave) -> Then:
        """Run a wave as far as it goes."""
        while True:
            frame = wave.frames[-1]
            activation = frame.activation
            registers = activation.registers
            instructions = frame.block.instructions
            while True:
                instruction = instructions[frame.pc]
                run = instruction.run
                if run is None:
                    then = self.control[instruction.op.defn](wave, frame, instruction)
                    break
                values = [
                    registers[r] if r >= 0 and registers[r] is not None else activation.read(r)
                    for r in instruction.operands
                ]
                result = run(wave, *values)
                results = instruction.results
                if len(results) == 1:
                    registers[results[0]] = result
                elif results:
                    for register, part in zip(results, result, strict=True):
                        registers[register] = part
                for register in instruction.frees:
                    registers[register] = None
                frame.pc += 1
            if then is not Then.GO:
                return then

    # -- entering and leaving regions

    def operands(self, frame: Frame, instruction: Instruction) -> list[Held]:
        values = [frame.activation.read(r) for r in instruction.operands]
        assert all(value is not None for value in values)
        return values  # type: ignore[return-value]

    def deliver(self, wave: Wave, instruction: Instruction, values: list[Held]) -> None:
        """Write the results of a region operation, in the frame on top, and go on behind it."""
        frame = wave.frames[-1]
        registers = frame.activation.registers
        for register, value in zip(instruction.results, values, strict=True):
            registers[register] = value
        for register in instruction.frees:
            registers[register] = None
        frame.pc += 1

    def enter(self, frame: Frame, block: BlockCode, values: list[Held]) -> None:
        """Start a block of the frame with its arguments."""
        registers = frame.activation.registers
        for register, value in zip(block.args, values, strict=True):
            registers[register] = value
        frame.block = block
        frame.pc = 0

    def leave(self, wave: Wave, frame: Frame, values: list[Held]) -> Then:
        """All programs of the wave leave the region of the frame on top."""
        assert frame.instruction is not None
        join = frame.join
        if join is not None and not join.broken:
            return self.arrive(join, wave.rows, values)
        wave.frames.pop()
        self.deliver(wave, frame.instruction, values)
        return Then.GO

    def arrive(self, join: Join, programs: Array, values: list[Held]) -> Then:
        """Programs reach a join; the last ones set the waiting wave going."""
        if join.arrive(programs, values):
            self.scheduler.close(join)
            self.deliver(join.wave, join.instruction, join.results())
            self.scheduler.ready(join.wave)
        return Then.STOP

    def release(self, join: Join) -> None:
        """Let the programs that arrived go on without the rest."""
        wave = join.wave.fork(join.arrived())
        self.deliver(wave, join.instruction, join.results())
        join.broken = True
        self.scheduler.ready(wave)

    # -- operations

    def if_(self, wave: Wave, frame: Frame, instruction: Instruction) -> Then:
        (chosen,) = self.operands(frame, instruction)
        mask = array_of(chosen)
        decided = _unanimous(mask)
        activation = frame.activation
        if decided is not None:
            region = instruction.regions[0 if decided else 1]
            wave.frames.append(Frame(activation, region, instruction))
            return Then.GO
        join = Join(wave, instruction)
        self.scheduler.open(join)
        for region, rows in zip(instruction.regions, (mask, ~mask), strict=True):
            if len(region.instructions) == 1 and not instruction.results:
                join.arrive(wave.rows[rows], [])
                continue
            child = wave.fork(np.flatnonzero(rows))
            inner = child.frames[-1].activation
            child.frames.append(Frame(inner, region, instruction, join=join))
            self.scheduler.ready(child)
        if join.count == len(wave):  # both regions are empty
            self.scheduler.close(join)
            self.deliver(wave, instruction, [])
            return Then.GO
        return Then.STOP

    def for_(self, wave: Wave, frame: Frame, instruction: Instruction) -> Then:
        lower, upper, step, *carried = self.operands(frame, instruction)
        loop = Loop(carried)
        bounds = [array_of(v) for v in (lower, upper, step)]
        self.counts(wave, bounds[2])
        decided = [_same(b) for b in bounds]
        if None in decided:
            # Wide enough for a count one step past the end of its type.
            wide = np.dtype(object) if bounds[0].itemsize == 8 else np.dtype(np.int64)
            loop.index, loop.upper, loop.step = (b.astype(wide) for b in bounds)
        else:
            loop.index, loop.upper, loop.step = decided
        wave.frames.append(Frame(frame.activation, instruction.regions[0], instruction, loop))
        return self.count(wave, wave.frames[-1])

    def counts(self, wave: Wave, step: Array) -> None:
        """Refuse a step with which a `for` never gets anywhere."""
        if not step.all():
            where = wave.launch.program(int(wave.rows[int((step == 0).argmax())]))
            raise ExecutionError("a `for` loop counts in steps of 0", notes=[f"in {where}"])

    def count(self, wave: Wave, frame: Frame) -> Then:
        """Begin the next iteration of a `for`, or leave it."""
        loop, instruction = frame.loop, frame.instruction
        assert loop is not None
        assert instruction is not None
        index, upper, step = loop.index, loop.upper, loop.step
        if isinstance(index, int):
            if not (index < upper if step > 0 else index > upper):
                return self.leave(wave, frame, loop.carried)
        else:
            more = np.where(step > 0, index < upper, index > upper)
            decided = _unanimous(more)
            if decided is False:
                return self.leave(wave, frame, loop.carried)
            if decided is None:
                return self.part(wave, frame, more)
        element = instruction.op.inputs[0].type.element
        assert isinstance(element, Scalar)
        number = np.asarray(index).astype(numerics.numpy_dtype(element)).reshape(-1)
        self.enter(frame, instruction.regions[0], [number, *loop.carried])
        loop.carried = []
        return Then.GO

    def while_(self, wave: Wave, frame: Frame, instruction: Instruction) -> Then:
        carried = self.operands(frame, instruction)
        loop = Loop(carried)
        inner = Frame(frame.activation, instruction.regions[0], instruction, loop)
        wave.frames.append(inner)
        self.enter(inner, instruction.regions[0], carried)
        return Then.GO

    def condition(self, wave: Wave, frame: Frame, instruction: Instruction) -> Then:
        (value,) = self.operands(frame, instruction)
        loop = frame.loop
        assert loop is not None
        assert frame.instruction is not None
        mask = array_of(value)
        decided = _unanimous(mask)
        if decided is False:
            return self.leave(wave, frame, loop.carried)
        if decided is None:
            return self.part(wave, frame, mask)
        self.around(frame, loop, frame.instruction)
        return Then.GO

    def part(self, wave: Wave, frame: Frame, mask: Array) -> Then:
        """Some programs leave a loop and the rest go round again."""
        loop, instruction = frame.loop, frame.instruction
        assert loop is not None
        assert instruction is not None
        stay, go = np.flatnonzero(mask), np.flatnonzero(~mask)
        left = [take(v, go) for v in loop.carried]
        loop.turns = 0
        if frame.join is None:
            join = Join(wave, instruction)
            self.scheduler.open(join)
            join.arrive(wave.rows[go], left)
            rest = wave.fork(stay)
            wave.frames.pop()
            rest.frames[-1].join = join
            self.again(rest.frames[-1])
            self.scheduler.ready(rest)
            return Then.STOP
        if frame.join.broken:
            leaver = wave.split(go)
            leaver.frames.pop()
            self.deliver(leaver, instruction, left)
            self.scheduler.ready(leaver)
        else:
            self.arrive(frame.join, wave.rows[go], left)
        wave.restrict(stay)
        self.again(wave.frames[-1])
        return Then.GO

    def again(self, frame: Frame) -> None:
        """Enter the body for the programs that go round again."""
        loop, instruction = frame.loop, frame.instruction
        assert loop is not None
        assert instruction is not None
        if loop.index is None:
            self.around(frame, loop, instruction)
        else:
            element = instruction.op.inputs[0].type.element
            assert isinstance(element, Scalar)
            number = loop.index.astype(numerics.numpy_dtype(element))
            self.enter(frame, instruction.regions[0], [number, *loop.carried])
            loop.carried = []

    def around(self, frame: Frame, loop: Loop, instruction: Instruction) -> None:
        """Enter the body of a `while`."""
        assert instruction.exits is not None
        loop.begun = instruction.exits.state(loop.carried) if instruction.exits.reads else None
        self.enter(frame, instruction.regions[1], loop.carried)
        loop.carried = []

    def yield_(self, wave: Wave, frame: Frame, instruction: Instruction) -> Then:
        values = self.operands(frame, instruction)
        loop = frame.loop
        if loop is None:
            return self.leave(wave, frame, values)
        assert frame.instruction is not None
        if loop.index is not None:
            loop.carried = values
            loop.index = loop.index + loop.step
            return self.count(wave, frame)
        then = self.round(wave, frame, loop, values)
        loop.carried = values
        self.enter(frame, frame.instruction.regions[0], values)
        return then

    def round(self, wave: Wave, frame: Frame, loop: Loop, following: list[Held]) -> Then:
        """A `while` goes round: see whether it can ever end, and whether others should run first.

        Programs are deterministic: a loop whose exit slice is what it was, while memory has not
        changed, does the same again until another wave changes memory. What it carries besides is
        no progress.
        """
        assert frame.instruction is not None
        exits = frame.instruction.exits
        assert exits is not None
        loop.turns += 1
        wave.parked = self.repeats(wave, loop, exits, following)
        if wave.parked is not None:
            return Then.PARK
        if exits.reads and loop.turns % PATIENCE == 0:
            join = frame.join
            if join is not None and not join.broken and join.arrivals:
                self.scheduler.close(join)
                self.release(join)
            return Then.YIELD
        return Then.GO

    def repeats(
        self, wave: Wave, loop: Loop, exits: ExitSlice, following: list[Held]
    ) -> Wait | None:
        """Return what a loop waits for that came back to an earlier state, or None.

        Each iteration of a loop that reads memory is compared with the one before it, as most waits
        change nothing at all. Longer cycles are looked for from time to time, by comparing with
        iterations that are further and further apart (Brent's algorithm).
        """
        memory, polls = wave.launch.memory, bool(exits.reads)
        wait = None
        if polls and memory.version == loop.version and _is_at(loop.begun, following):
            wait = Wait(memory.version)
        loop.version = memory.version
        if loop.turns % PATIENCE == 0:
            unread = not polls or memory.version == loop.earlier_version
            if unread and _is_at(loop.earlier, following):
                wait = Wait(memory.version if polls else None)
            wait = wait or repeats(loop, exits, following, memory)
            if loop.turns & (loop.turns - 1) == 0:
                loop.earlier, loop.earlier_version = exits.state(following), memory.version
        observes = polls and exits.exact and (loop.turns + 1) % PATIENCE == 0
        loop.observed = Observed() if observes else None
        return wait

    def call(self, wave: Wave, frame: Frame, instruction: Instruction) -> Then:
        values = self.operands(frame, instruction)
        callee = wave.launch.code.functions[instruction.op["callee"]]
        inner = Frame(Activation(callee), callee.body, instruction)
        wave.frames.append(inner)
        self.enter(inner, callee.body, values)
        return Then.GO

    def return_(self, wave: Wave, frame: Frame, instruction: Instruction) -> Then:
        values = self.operands(frame, instruction)
        wave.frames.pop()
        if not wave.frames:
            return Then.STOP
        assert frame.instruction is not None
        self.deliver(wave, frame.instruction, values)
        return Then.GO


def _is_at(state: Mapping[int, Held] | None, carried: Sequence[Held]) -> bool:
    """Return True if a loop is where it was, in all that its end depends on."""
    return state is not None and all(same(value, carried[i]) for i, value in state.items())


def _unanimous(mask: Array) -> bool | None:
    """What all programs say, or None if they differ."""
    if mask.size == 1:
        return bool(mask[0])
    if mask.all():
        return True
    return None if mask.any() else False


def _same(bound: Array) -> int | None:
    """The number that all programs have, or None if they differ."""
    first = int(bound[0])
    return first if bound.size == 1 or (bound == first).all() else None
