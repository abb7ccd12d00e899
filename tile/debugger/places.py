"""The positions of all programs of a launch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tile.backends.interp.launch import Launch
from tile.backends.interp.stepped.launch import SteppedLaunch
from tile.backends.interp.values import Rows
from tile.backends.interp.wave import Wave
from tile.debugger.frames import kernel_frames
from tile.debugger.source import display_path

MAX_RANGES = 4  # ranges of programs that a list names


@dataclass(frozen=True, eq=False)
class ProgramGroup:
    """Programs at the same position. `batch` holds their variables, None if they have none."""

    rows: Rows
    batch: Wave | None
    status: str


def groups(launch: SteppedLaunch) -> Iterator[ProgramGroup]:
    """Yield the programs of a launch by position, those of the running batch first."""
    scheduler = launch.scheduling
    running = scheduler.running
    active: list[Rows] = []
    batches = [] if running is None else [running]
    batches += [batch for batch in scheduler.queue if batch is not running]
    for batch in batches:
        active.append(batch.rows)
        yield ProgramGroup(batch.rows, batch, f"at {line_of(batch)}")
    for batch in scheduler.parked:
        if batch is not running:
            active.append(batch.rows)
            yield ProgramGroup(
                batch.rows, batch, f"wait for a change of memory, at {line_of(batch)}"
            )
    for join in scheduler.joins:
        if join.arrivals:
            rows = join.wave.rows[join.arrived()]
            active.append(rows)
            yield ProgramGroup(
                rows, join.wave, f"wait for the others, at the end of {line_of(join.wave)}"
            )
    begun = np.flatnonzero(scheduler.started)
    ended = np.setdiff1d(begun, np.concatenate(active)) if active else begun
    if len(ended):
        yield ProgramGroup(ended, None, "ended")
    rest = np.flatnonzero(~scheduler.started)
    if len(rest):
        yield ProgramGroup(rest, None, "not started")


def line_of(batch: Wave) -> str:
    """Return the line at which a batch stands."""
    frames = kernel_frames(batch, int(batch.rows[0]))
    return f"{display_path(frames[-1].file)}:{frames[-1].line}" if frames else "the beginning"


def group_of(launch: SteppedLaunch, row: int) -> ProgramGroup:
    """Return the group of a program."""
    return next(group for group in groups(launch) if row in group.rows)


def describe_programs(launch: Launch, rows: Rows) -> str:
    """Return a description of some programs of a launch."""
    if len(rows) == 1:
        return f"program {launch.coordinates(int(rows[0]))}"
    if len(rows) == launch.programs:
        return f"all {len(rows)} programs"
    return f"{len(rows)} programs: {', '.join(_ranges(launch, rows))}"


def _ranges(launch: Launch, rows: Rows) -> Sequence[str]:
    starts = np.flatnonzero(np.diff(rows) != 1) + 1
    ranges = []
    for run in np.split(rows, starts)[: MAX_RANGES + 1]:
        first, last = (launch.coordinates(int(row)) for row in (run[0], run[-1]))
        ranges.append(str(first) if len(run) == 1 else f"{first} to {last}")
    return ranges if len(ranges) <= MAX_RANGES else [*ranges[:MAX_RANGES], "..."]
