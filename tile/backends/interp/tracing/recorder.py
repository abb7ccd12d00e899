"""The recorder of a launch: counts of accesses, and slices of its timeline.

`instrument` makes each instruction of new code call the recorder of its launch. `launch_traced`
runs such code, with or without checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from tile.backends.base import Grid, LaunchArgument
from tile.backends.host_memory import allocation, span
from tile.backends.interp.bytecode import Code, Run
from tile.backends.interp.fault_report import verb_of, view_of
from tile.backends.interp.launch import Launch
from tile.backends.interp.program_batch import LaunchContext, ProgramBatch
from tile.backends.interp.resolved_access import Buffer
from tile.backends.interp.sanitizer.launch import CheckedCode, CheckedLaunch, translate_checked
from tile.backends.interp.translate import Rules, translate
from tile.backends.interp.values import Array, RegisterValue, array_of
from tile.backends.interp.virtual_memory import lazy_zeros
from tile.checks import Checks
from tile.instrumentation import active_report
from tile.ir.core import Operation
from tile.ir.module import Module
from tile.ir.ops import memory
from tile.ir.ops.memory import pointee
from tile.location import Loc
from tile.trace_data import (
    LINE,
    REUSE_BUCKETS,
    SECTOR,
    TRACKS,
    AccessSite,
    ArrayUse,
    Counts,
    KernelUse,
    Timeline,
    TraceData,
)
from tile.transforms.descriptors_to_pointers import descriptors_to_pointers

PER_LINE = LINE // SECTOR
# Alignment of allocations on devices, in bytes.
ALIGNED = 256


@dataclass(eq=False)
class RecordedArray:
    """An array of the launch: the last program that touched each line, and the touched sectors.

    `last` holds the program's number plus 1, or 0 for a line that was never touched. `lead` is the
    number of bytes between the start of the first line, which is aligned as lines of the
    allocation are, and the array's lowest element.
    """

    use: ArrayUse
    buffer: Buffer
    lead: int
    last: Array
    sectors: Array

    def touch(self, rows: Array, programs: Array, addresses: Array) -> tuple[Array, Array]:
        """Record an access, one program a row; return the sectors and lines touched by each row."""
        sector = (addresses - self.buffer.start + self.lead) // SECTOR
        span = len(self.sectors)
        row, sector = _distinct(rows * span + sector, span)
        self.use.sectors += len(np.unique(sector[~self.sectors[sector]]))
        self.sectors[sector] = True
        line_row, line = _distinct(row * span + sector // PER_LINE, span)
        self._share(line, programs[line_row])
        return np.bincount(row, minlength=len(programs)), np.bincount(
            line_row, minlength=len(programs)
        )

    def _share(self, line: Array, program: Array) -> None:
        """Count, for each access to a line, the distance to the program that touched it before."""
        order = np.lexsort((program, line))
        line, program = line[order], program[order]
        previous = self.last[line] - 1
        repeated = np.flatnonzero(line[1:] == line[:-1]) + 1
        previous[repeated] = program[repeated - 1]
        self.last[line] = program + 1
        cached = previous >= 0
        distance = np.abs(program[cached] - previous[cached])
        new = len(line) - int(cached.sum())
        self.use.first += new
        self.use.lines += new
        # The exponent of an integer is its number of bits.
        self.use.reuse += np.bincount(np.frexp(distance)[1], minlength=REUSE_BUCKETS)


def _distinct(keys: Array, span: int) -> tuple[Array, Array]:
    """Return (row, position) of the distinct keys `row * span + position`, which mostly ascend."""
    if keys.size and (keys[1:] < keys[:-1]).any():
        keys = np.unique(keys)
    else:
        keys = keys[np.append(True, keys[1:] != keys[:-1])[: keys.size]]
    row, position = np.divmod(keys, span)
    return row, position


def recorded_array(buffer: Buffer, use: ArrayUse) -> RecordedArray:
    """Return the record of an array that no program has touched."""
    lead = _lead(buffer)
    sectors = -(-(lead + buffer.end - buffer.start) // SECTOR) + 1
    lines = -(-sectors // PER_LINE)
    return RecordedArray(
        use, buffer, lead, lazy_zeros(lines, np.int64), lazy_zeros(lines * PER_LINE, np.bool_)
    )


def _lead(buffer: Buffer) -> int:
    """Return the offset of an array's lowest element from a multiple of `ALIGNED`, in bytes.

    Its allocation, the array of which it is a view, is assumed to begin at such a multiple.
    """
    array = buffer.array
    return (span(array)[0] - span(allocation(array))[0]) % ALIGNED


class Recorder:
    """Counts the accesses of one launch; `use` is what it adds to."""

    def __init__(self, use: KernelUse, buffers: Sequence[Buffer], timeline: Timeline) -> None:
        self.use = use
        self.timeline = timeline
        self.number = timeline.begin(use.kernel, use.grid)
        pairs = zip(buffers, use.arrays, strict=True)
        self.arrays = {id(buffer): recorded_array(buffer, array) for buffer, array in pairs}
        self._tracks: dict[int, tuple[Array, tuple[int, ...]]] = {}

    def step(self, batch: ProgramBatch, loc: Loc | None, kind: str) -> None:
        """Record an instruction that does not access memory."""
        self.timeline.step(self.number, self.tracks(batch), loc, kind)

    def access(
        self,
        batch: ProgramBatch,
        site: AccessSite,
        kind: str,
        address: RegisterValue,
        mask: RegisterValue | None,
        shape: tuple[int, ...],
        size: int,
    ) -> None:
        """Record an access to elements of `size` bytes by a tile of this shape."""
        programs = batch.rows
        extents = (len(programs), *shape)
        addresses = np.broadcast_to(array_of(address), extents).reshape(len(programs), -1)
        if mask is None:
            row = np.repeat(np.arange(len(programs)), addresses.shape[1])
            chosen = addresses.ravel()
        else:
            lanes = np.broadcast_to(array_of(mask), extents).reshape(addresses.shape)
            row, chosen = np.nonzero(lanes)[0], addresses[lanes]
        masked = addresses.size - chosen.size
        counts = Counts(len(programs), addresses.size, masked)
        sectors = np.zeros(len(programs), np.int64)
        for buffer, own in batch.launch.memory.by_buffer(chosen):
            array, rows, reached = self.arrays[id(buffer)], row[own], chosen[own]
            inside = (reached >= buffer.start) & (reached < buffer.end)
            if not inside.all():  # checks reported and dropped the others
                rows, reached = rows[inside], reached[inside]
            of_rows, lines = array.touch(rows, programs, reached)
            sectors += of_rows
            counts.lines += int(lines.sum())
            counts.bytes += reached.size * size
            self._draw(array.use, site, (reached - buffer.start) // buffer.array.itemsize, size)
            self.use.names.setdefault(site, set()).add(buffer.name)
        counts.sectors = int(sectors.sum())
        self.use.sites.setdefault(site, Counts()).add(counts)
        self.use.names.setdefault(site, set())
        shown = self.tracks(batch)
        active = np.bincount(row[: np.searchsorted(row, len(shown))], minlength=len(shown))
        numbers = [
            {"elements": int(n), "bytes": int(n) * size, "sectors": int(m)}
            for n, m in zip(active[: len(shown)], sectors[: len(shown)], strict=True)
        ]
        self.timeline.step(self.number, shown, site.loc, kind, numbers)

    def _draw(self, use: ArrayUse, site: AccessSite, points: Array, size: int) -> None:
        if site.verb != "writes":
            use.reads.add(points)
            use.bytes_read += points.size * size
        if site.verb != "reads":
            use.writes.add(points)
            use.bytes_written += points.size * size

    def tracks(self, batch: ProgramBatch) -> tuple[int, ...]:
        """Return the programs of a batch that have a track in the timeline."""
        cached = self._tracks.get(id(batch))
        if cached is None or cached[0] is not batch.rows:
            shown = batch.rows[: np.searchsorted(batch.rows, TRACKS)]
            cached = self._tracks[id(batch)] = batch.rows, tuple(shown.tolist())
        return cached[1]


# The memory operations, with the kind of their timeline slices.
ACCESSES = {
    memory.load: "load",
    memory.store: "store",
    memory.atomic_rmw: "atomic",
    memory.atomic_cas: "atomic",
}


def instrument(code: Code) -> Code:
    """Instrument all instructions of new code, in place; return the code."""
    for instruction in code.instructions():
        run, op = instruction.run, instruction.op
        if run is not None:
            instruction.run = _access(op, run) if op.defn in ACCESSES else _step(op, run)
    return code


def _step(op: Operation, run: Run) -> Run:
    def step(batch: ProgramBatch, *values: Any) -> Any:
        recorder_of(batch).step(batch, op.loc, "compute")
        return run(batch, *values)

    return step


def _access(op: Operation, run: Run) -> Run:
    kind, masked = ACCESSES[op.defn], op.defn.positions["mask"]
    site = AccessSite(op.loc, verb_of(op))
    ptr = op.inputs[0].type
    size, shape = pointee(op.name, ptr).itemsize, ptr.shape

    def access(batch: ProgramBatch, address: RegisterValue, *values: Any) -> Any:
        result = run(batch, address, *values)  # an access that fails is not recorded
        mask: RegisterValue | None = values[masked - 1]
        recorder_of(batch).access(batch, site, kind, address, mask, shape, size)
        return result

    return access


class TracedContext(LaunchContext):
    """The launch of a batch that is recorded, as instrumented code sees it."""

    recorder: Recorder

    def record(self, trace: TraceData) -> None:
        """Begin a record of this launch in a trace."""
        use = trace.begin(self.name, self.grid, tuple(map(view_of, self.memory.buffers)))
        self.recorder = Recorder(use, self.memory.buffers, trace.timeline)


class TracedLaunch(TracedContext, Launch):
    """A run that is recorded."""


class CheckedTracedLaunch(TracedContext, CheckedLaunch):
    """A run with checks that is recorded."""


def recorder_of(batch: ProgramBatch) -> Recorder:
    """Return the recorder of the launch that a batch belongs to."""
    return cast("TracedContext", batch.launch).recorder


def translate_traced(module: Module, rules: Rules, checks: Checks | None) -> Code | CheckedCode:
    """Translate a module to instrumented code, with `checks` (None: without).

    Descriptor accesses are expanded to pointer accesses first.
    """
    if checks is not None:
        checked = translate_checked(module, rules, checks)
        instrument(checked.code)
        return checked
    module = module.clone()
    descriptors_to_pointers(module, simplify=False)
    return instrument(translate(module, rules))


def launch_traced(
    code: Code | CheckedCode, grid: Grid, arguments: Sequence[LaunchArgument], trace: TraceData
) -> None:
    """Run code of `translate_traced` over a grid; if it fails, what ran before is recorded."""
    launch: TracedLaunch | CheckedTracedLaunch
    if isinstance(code, CheckedCode):
        launch = CheckedTracedLaunch(code, grid, arguments, active_report())
    else:
        launch = TracedLaunch(code, grid, arguments)
    launch.record(trace)
    launch.run()
