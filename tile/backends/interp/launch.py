"""A run of a kernel over its grid: arguments in memory, and batches of programs in some order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tile.backends.base import Grid, LaunchArgument
from tile.backends.interp.bytecode import Code
from tile.backends.interp.executor import Executor
from tile.backends.interp.fault_report import error_of
from tile.backends.interp.program_batch import Activation, Frame, LaunchContext, ProgramBatch
from tile.backends.interp.scheduler import Scheduler
from tile.backends.interp.tuning import TUNING
from tile.backends.interp.values import Rows, RunValue
from tile.config import config
from tile.faults import Fault
from tile.ir import semantics


def reordered(programs: int, size: int, order: str | int) -> Iterator[Rows]:
    """Yield the programs of batches of at most `size`, in an order other than the numerical one.

    The order `reverse` starts the last program first. A number is the seed of a random order, which
    is divided into a random number of batches. Within a batch, as in all batches, rows ascend.
    """
    if order == "reverse":
        sequence, batches = np.arange(programs)[::-1], TUNING.reordered_batches
    else:
        random = np.random.default_rng(int(order))
        sequence, batches = (
            random.permutation(programs),
            int(random.integers(2, TUNING.reordered_batches + 1)),
        )
    batches = max(min(batches, programs), -(-programs // size))
    return map(np.sort, np.array_split(sequence, batches))


def reordered_runs(programs: int, size: int, order: str | int) -> Iterator[Rows]:
    """Yield the programs in runs of at most `size` consecutive ones, in another order.

    Like `reordered`, for the SIMT simulator, whose batches consist of consecutive programs.
    """
    if order == "reverse":
        count = min(programs, TUNING.reordered_batches)
        cuts = np.linspace(0, programs, count + 1).astype(np.int64)[1:-1]
        runs = np.split(np.arange(programs), cuts)[::-1]
    else:
        random = np.random.default_rng(int(order))
        count = min(programs, int(random.integers(2, TUNING.reordered_batches + 1)))
        cuts = np.sort(random.choice(np.arange(1, programs), count - 1, replace=False))
        parts = np.split(np.arange(programs), cuts)
        runs = [parts[index] for index in random.permutation(count)]
    for run in runs:
        yield from np.split(run, range(size, len(run), size))


class Launch(LaunchContext):
    """A run of a kernel over a grid, with its arguments in memory."""

    executor = Executor
    scheduler = Scheduler

    def __init__(self, code: Code, grid: Grid, arguments: Sequence[LaunchArgument]) -> None:
        super().__init__(code, grid)
        self.arguments = self.bind_arguments(arguments)

    def bind_arguments(self, arguments: Sequence[LaunchArgument]) -> list[RunValue]:
        """Add arrays to memory; return the values of the kernel's parameters."""
        values: list[RunValue] = []
        for parameter, argument in zip(self.code.kernel.function.args, arguments, strict=True):
            if parameter.type.element.is_ptr():
                assert isinstance(argument, np.ndarray)
                values.append(np.array([self.memory.add(parameter.name, argument)], np.int64))
                for index, target in enumerate(getattr(argument, "targets", ())):
                    self.memory.add(f"{parameter.name}[{index}]", target)
            else:
                values.append(np.asarray(argument).reshape(1))
        return values

    def run(self) -> None:
        """Run all programs.

        Raises the error of the first illegal access, failed assertion or deadlock.
        """
        with semantics.quiet():
            self.scheduler(self, self.chunks(), self.executor).run()

    def report_fault(self, fault: Fault) -> None:
        """Raise a fault as its error."""
        raise error_of(fault)

    def chunks(self) -> Iterator[ProgramBatch]:
        """Yield the programs of the grid, in order, in batches whose tiles fit the cache."""
        size = max(1, min(TUNING.chunk_programs, config.chunk_bytes // self.code.largest_value))
        order = config.interp_order
        if order is not None:
            yield from map(self.start, reordered(self.programs, size, order))
            return
        for first in range(0, self.programs, size):
            yield self.start(np.arange(first, min(first + size, self.programs)))

    def start(self, rows: Rows) -> ProgramBatch:
        """Return a batch at the beginning of the kernel."""
        kernel = self.code.kernel
        activation = Activation(kernel)
        for register, value in zip(kernel.body.args, self.arguments, strict=True):
            activation.registers[register] = value
        return ProgramBatch(self, rows, [Frame(activation, kernel.body)])
