"""The executor of program batches: straight-line instructions, and control flow over frames.

The executor has its own stack of frames instead of Python's, because a batch must be able to pause
in the middle of a loop while others run (see `scheduler.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tile.analysis.exit_slice import ExitSlice
from tile.backends.interp.bytecode import BlockCode, Instruction
from tile.backends.interp.program_batch import (
    Activation,
    Frame,
    Join,
    Loop,
    ParkedError,
    ProgramBatch,
    StepResult,
)
from tile.backends.interp.scheduler import Scheduler
from tile.backends.interp.spin_loops import (
    ObservedAccesses,
    Wait,
    wait_of_observed,
    wait_of_repeated,
)
from tile.backends.interp.tuning import TUNING
from tile.backends.interp.values import Array, RegisterValue, array_of, same, take
from tile.errors import ExecutionError
from tile.ir import semantics
from tile.ir.op_definition import OpDef
from tile.ir.ops import control
from tile.ir.types import number_of


class Executor:
    """Runs one batch at a time until it cannot continue by itself."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.control: dict[OpDef, Callable[[ProgramBatch, Frame, Instruction], StepResult]] = {
            control.if_: self.if_,
            control.for_: self.for_,
            control.while_: self.while_,
            control.condition: self.condition,
            control.yield_: self.yield_,
            control.call: self.call,
            control.return_: self.return_,
        }

    def run(self, batch: ProgramBatch) -> StepResult:
        """Run a batch as far as it goes."""
        try:
            return self.run_until_control(batch)
        except ParkedError as error:
            batch.parked = error.wait
            return StepResult.PARK

    def run_until_control(self, batch: ProgramBatch) -> StepResult:
        """Run a batch until control flow, or the end, stops it."""
        while True:
            frame = batch.frames[-1]
            activation = frame.activation
            registers = activation.registers
            instructions = frame.block.instructions
            while True:
                instruction = instructions[frame.pc]
                run = instruction.run
                if run is None:
                    outcome = self.control[instruction.op.defn](batch, frame, instruction)
                    break
                values = [
                    value if (value := registers[r]) is not None else activation.read(r)
                    for r in instruction.operands
                ]
                result = run(batch, *values)
                if instruction.result is not None:
                    registers[instruction.result] = result
                elif instruction.results:
                    for register, value in zip(instruction.results, result, strict=True):
                        registers[register] = value
                for register in instruction.frees:
                    registers[register] = None
                frame.pc += 1
            if outcome is not StepResult.GO:
                return outcome

    # -- entering and leaving regions

    def operands(self, frame: Frame, instruction: Instruction) -> list[RegisterValue]:
        values = [frame.activation.read(r) for r in instruction.operands]
        assert all(value is not None for value in values)
        return values  # type: ignore[return-value]

    def deliver(
        self, batch: ProgramBatch, instruction: Instruction, values: list[RegisterValue]
    ) -> None:
        """Write the results of a region operation in the top frame, and continue after it."""
        frame = batch.frames[-1]
        registers = frame.activation.registers
        for register, value in zip(instruction.results, values, strict=True):
            registers[register] = value
        for register in instruction.frees:
            registers[register] = None
        frame.pc += 1

    def enter(self, frame: Frame, block: BlockCode, values: list[RegisterValue]) -> None:
        """Enter a block of the frame with its arguments."""
        registers = frame.activation.registers
        for register, value in zip(block.args, values, strict=True):
            registers[register] = value
        frame.block = block
        frame.pc = 0

    def leave(self, batch: ProgramBatch, frame: Frame, values: list[RegisterValue]) -> StepResult:
        """Leave the region of the top frame, with all programs of the batch."""
        assert frame.instruction is not None
        join = frame.join
        if join is not None and not join.broken:
            return self.arrive(join, batch.rows, values)
        batch.frames.pop()
        if not batch.frames:  # a region that a batch of its own runs
            return StepResult.STOP
        self.deliver(batch, frame.instruction, values)
        return StepResult.GO

    def arrive(self, join: Join, programs: Array, values: list[RegisterValue]) -> StepResult:
        """Record programs that reach a join; the last ones make the waiting batch ready."""
        if join.arrive(programs, values):
            self.scheduler.close(join)
            self.deliver(join.batch, join.instruction, join.results())
            self.scheduler.ready(join.batch)
        return StepResult.STOP

    def release(self, join: Join) -> None:
        """Break a join: let the programs that arrived continue without the rest."""
        batch = join.batch.fork(join.arrived())
        self.deliver(batch, join.instruction, join.results())
        join.broken = True
        self.scheduler.ready(batch)

    # -- operations

    def if_(self, batch: ProgramBatch, frame: Frame, instruction: Instruction) -> StepResult:
        (condition_value,) = self.operands(frame, instruction)
        mask = array_of(condition_value)
        uniform = _uniform_bool(mask)
        activation = frame.activation
        if uniform is not None:
            region = instruction.regions[0 if uniform else 1]
            batch.frames.append(Frame(activation, region, instruction))
            return StepResult.GO
        join = Join(batch, instruction)
        self.scheduler.open(join)
        for region, rows in zip(instruction.regions, (mask, ~mask), strict=True):
            if len(region.instructions) == 1 and not instruction.results:
                join.arrive(batch.rows[rows], [])
                continue
            child = batch.fork(np.flatnonzero(rows))
            inner = child.frames[-1].activation
            child.frames.append(Frame(inner, region, instruction, join=join))
            self.scheduler.ready(child)
        if join.count == len(batch):  # both regions are empty
            self.scheduler.close(join)
            self.deliver(batch, instruction, [])
            return StepResult.GO
        return StepResult.STOP

    def for_(self, batch: ProgramBatch, frame: Frame, instruction: Instruction) -> StepResult:
        lower, upper, step, *carried = self.operands(frame, instruction)
        loop = Loop(carried)
        bounds = [array_of(v) for v in (lower, upper, step)]
        self.check_step(batch, bounds[2])
        uniform = [_uniform_int(b) for b in bounds]
        if None in uniform:
            # Wide enough for an index one step past the end of its type.
            wide = np.dtype(object) if bounds[0].itemsize == 8 else np.dtype(np.int64)
            loop.index, loop.upper, loop.step = (b.astype(wide) for b in bounds)
        else:
            loop.index, loop.upper, loop.step = uniform
        batch.frames.append(Frame(frame.activation, instruction.regions[0], instruction, loop))
        return self.next_for_iteration(batch, batch.frames[-1])

    def check_step(self, batch: ProgramBatch, step: Array) -> None:
        """Raise `ExecutionError` for a `for` with a step of 0."""
        if not step.all():
            where = batch.launch.program(int(batch.rows[int((step == 0).argmax())]))
            raise ExecutionError("a `for` loop has a step of 0", notes=[f"in {where}"])

    def next_for_iteration(self, batch: ProgramBatch, frame: Frame) -> StepResult:
        """Start the next iteration of a `for`, or leave it."""
        loop, _ = frame.enclosing_loop
        index, upper, step = loop.index, loop.upper, loop.step
        if isinstance(index, int):
            if not (index < upper if step > 0 else index > upper):
                return self.leave(batch, frame, loop.carried)
        else:
            more = np.where(step > 0, index < upper, index > upper)
            uniform = _uniform_bool(more)
            if uniform is False:
                return self.leave(batch, frame, loop.carried)
            if uniform is None:
                return self.split_loop(batch, frame, more)
        self.enter_body(frame)
        return StepResult.GO

    def while_(self, batch: ProgramBatch, frame: Frame, instruction: Instruction) -> StepResult:
        carried = self.operands(frame, instruction)
        loop = Loop(carried)
        inner = Frame(frame.activation, instruction.regions[0], instruction, loop)
        batch.frames.append(inner)
        self.enter(inner, instruction.regions[0], carried)
        return StepResult.GO

    def condition(self, batch: ProgramBatch, frame: Frame, instruction: Instruction) -> StepResult:
        (value,) = self.operands(frame, instruction)
        loop, _ = frame.enclosing_loop
        mask = array_of(value)
        uniform = _uniform_bool(mask)
        if uniform is False:
            return self.leave(batch, frame, loop.carried)
        if uniform is None:
            return self.split_loop(batch, frame, mask)
        self.enter_body(frame)
        return StepResult.GO

    def split_loop(self, batch: ProgramBatch, frame: Frame, mask: Array) -> StepResult:
        """Split a batch in a loop: programs where `mask` is false leave, the others continue."""
        loop, instruction = frame.enclosing_loop
        stay, go = np.flatnonzero(mask), np.flatnonzero(~mask)
        leaving_values = [take(v, go) for v in loop.carried]
        loop.iterations = 0
        if frame.join is None:
            join = Join(batch, instruction)
            self.scheduler.open(join)
            join.arrive(batch.rows[go], leaving_values)
            rest = batch.fork(stay)
            batch.frames.pop()
            rest.frames[-1].join = join
            self.enter_body(rest.frames[-1])
            self.scheduler.ready(rest)
            return StepResult.STOP
        if frame.join.broken:
            leaver = batch.split(go)
            leaver.frames.pop()
            self.deliver(leaver, instruction, leaving_values)
            self.scheduler.ready(leaver)
        else:
            self.arrive(frame.join, batch.rows[go], leaving_values)
        batch.restrict(stay)
        self.enter_body(batch.frames[-1])
        return StepResult.GO

    def enter_body(self, frame: Frame) -> None:
        """Enter the body of a loop for its next iteration."""
        loop, instruction = frame.enclosing_loop
        region, values = instruction.regions[-1], loop.carried
        if loop.index is None:
            assert instruction.exits is not None
            loop.entry_state = instruction.exits.state(values) if instruction.exits.reads else None
        else:
            element = number_of(instruction.op.inputs[0].type)
            index = np.asarray(loop.index).astype(semantics.numpy_dtype(element))
            values = [index.reshape(-1), *values]
        self.enter(frame, region, values)
        loop.carried = []

    def yield_(self, batch: ProgramBatch, frame: Frame, instruction: Instruction) -> StepResult:
        values = self.operands(frame, instruction)
        loop = frame.loop
        if loop is None:
            return self.leave(batch, frame, values)
        assert frame.instruction is not None
        if loop.index is not None:
            loop.carried = values
            loop.index = loop.index + loop.step
            return self.next_for_iteration(batch, frame)
        outcome = self.next_while_iteration(batch, frame, loop, values)
        loop.carried = values
        self.enter(frame, frame.instruction.regions[0], values)
        return outcome

    def next_while_iteration(
        self, batch: ProgramBatch, frame: Frame, loop: Loop, next_values: list[RegisterValue]
    ) -> StepResult:
        """End an iteration of a `while`: detect if it repeats forever, or should yield to others.

        Programs are deterministic. A loop whose exit slice has its earlier state, while memory has
        not changed, repeats itself until another batch changes memory. Loop-carried values outside
        the exit slice do not matter.
        """
        assert frame.instruction is not None
        exits = frame.instruction.exits
        assert exits is not None
        loop.iterations += 1
        batch.parked = self.find_wait(batch, loop, exits, next_values)
        if batch.parked is not None:
            return StepResult.PARK
        if exits.reads and loop.iterations % TUNING.check_interval == 0:
            join = frame.join
            if join is not None and not join.broken and join.waiting:
                self.scheduler.close(join)
                self.release(join)
            return StepResult.YIELD
        return StepResult.GO

    def find_wait(
        self, batch: ProgramBatch, loop: Loop, exits: ExitSlice, next_values: list[RegisterValue]
    ) -> Wait | None:
        """Return what a loop that is back in an earlier state waits for, or None.

        Each iteration of a loop that reads memory is compared with the previous one, as most spin
        loops change nothing at all. Longer cycles are detected every `check_interval` iterations,
        by comparison with checkpoints at doubling distances (Brent's algorithm). A loop whose end
        depends on the time repeats no state.
        """
        if exits.timed:
            return None
        memory, polls = batch.launch.memory, bool(exits.reads)
        wait = None
        repeats = polls and memory.version == loop.version
        repeats = repeats and _same_state(loop.entry_state, next_values)
        if repeats and (loop.observed is not None or not exits.exact):
            wait = wait_of_repeated(loop.observed, exits, memory)
        loop.version = memory.version
        if loop.iterations % TUNING.check_interval == 0:
            unread = not polls or memory.version == loop.checkpoint_version
            if unread and _same_state(loop.checkpoint, next_values):
                wait = Wait(memory.version if polls else None)
            wait = wait or wait_of_observed(
                loop.observed, loop.entry_state, exits, next_values, memory
            )
            if loop.iterations & (loop.iterations - 1) == 0:
                loop.checkpoint, loop.checkpoint_version = exits.state(next_values), memory.version
        observes = repeats or (loop.iterations + 1) % TUNING.check_interval == 0
        observes = observes and polls and exits.exact
        loop.observed = ObservedAccesses() if observes else None
        return wait

    def call(self, batch: ProgramBatch, frame: Frame, instruction: Instruction) -> StepResult:
        values = self.operands(frame, instruction)
        callee = batch.launch.code.functions[instruction.op["callee"]]
        inner = Frame(Activation(callee), callee.body, instruction)
        batch.frames.append(inner)
        self.enter(inner, callee.body, values)
        return StepResult.GO

    def return_(self, batch: ProgramBatch, frame: Frame, instruction: Instruction) -> StepResult:
        values = self.operands(frame, instruction)
        batch.frames.pop()
        if not batch.frames:
            return StepResult.STOP
        assert frame.instruction is not None
        self.deliver(batch, frame.instruction, values)
        return StepResult.GO


def _same_state(
    state: Mapping[int, RegisterValue] | None, carried: Sequence[RegisterValue]
) -> bool:
    """Return True if the loop-carried values equal an earlier state of the exit slice."""
    return state is not None and all(same(value, carried[i]) for i, value in state.items())


def _uniform_bool(mask: Array) -> bool | None:
    """Return the condition that all programs share, or None if they differ."""
    if mask.size == 1:
        return bool(mask[0])
    if mask.all():
        return True
    return None if mask.any() else False


def _uniform_int(bound: Array) -> int | None:
    """Return the number that all programs share, or None if they differ."""
    first = int(bound[0])
    return first if bound.size == 1 or (bound == first).all() else None
