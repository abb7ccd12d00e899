"""Searches random kernels for one that a backend gets wrong; a program.

    python -m tests.fuzz.search interp:mma opencl:@intel --first 1000 --kernels 500
    python -m tests.fuzz.search nvptx --minutes 10 --jobs 4

A kernel is known by its number and its kind: `small`, `large` and so on, which are sizes of tiles, or
`dot-loops`, `row-loops` and `matmuls`, each of which is one kernel with random constants. It is the
same one on each machine. Each runs on all targets, in one of so many processes at a time (--jobs), and
is built anew there, whatever the disk cache has. What was found is told at once, and counted in the
end; the search goes on after a fault, also after one that a process or a device does not survive. It
fails if there was any.

    python -m tests.fuzz.search opencl:@intel --first 1234 --kernels 1 --kinds large --show
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import sys
import time
import warnings
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace

from tests.fuzz.random_kernels import KINDS, Drawn, Verdict, resolved
from tile.config import config
from tile.errors import TileError

BATCH = 20  # kernels of a process
Counts = Counter[tuple[str, Verdict]]  # how many kernels came out how, by target


@dataclass(frozen=True)
class Task:
    """Kernels of successive numbers for some targets."""

    targets: tuple[str, ...]
    kind: str
    numbers: range
    end: float  # no kernel is begun after that, by `time.monotonic`, which all processes share


@dataclass(frozen=True)
class Fault:
    """A kernel that is wrong on a target."""

    target: str
    kind: str
    number: int
    what: str

    def __str__(self) -> str:
        return f"{self.target}: {self.kind} kernel {self.number}: {self.what}"


@dataclass(frozen=True)
class Finding:
    """The outcomes of kernels, and which of them are wrong."""

    counts: Counts
    faults: list[Fault]


def judge(task: Task) -> Finding:
    """Run a task's kernels, one after the other, each on the interpreter and then on all targets."""
    finding = Finding(Counts(), [])
    # Nobody launches them again. What the compiler warns of is no fault.
    with config.scope(cache=False), warnings.catch_warnings(action="ignore"):
        for number in task.numbers:
            if time.monotonic() >= task.end:
                break
            drawn = Drawn.of(number, task.kind)
            wanted = drawn.on("interp")
            for target in task.targets:
                verdict, what = drawn.judge(target, wanted)
                finding.counts[target, verdict] += 1
                if verdict is Verdict.WRONG:
                    finding.faults.append(Fault(target, task.kind, number, what))
    return finding


def tasks(arguments: argparse.Namespace) -> Iterator[Task]:
    """All there is to do; kinds alternate, so that an early end leaves none out."""
    start, end = arguments.first, arguments.first + arguments.kernels
    targets = tuple(arguments.targets)
    until = time.monotonic() + 60 * arguments.minutes
    for first in range(start, end, BATCH):
        for kind in arguments.kinds:
            yield Task(targets, kind, range(first, min(first + BATCH, end)), until)


def blame(task: Task, error: BaseException) -> tuple[Finding, list[Task]]:
    """Describe a task that raised or whose process ended, and how to run it again.

    The kernel to blame is found by bisection, and then its target, so that what it did to its process
    or device is not held against others. That takes the time it takes: no fault is lost in the end. The
    batch is named, too, since its kernels may all be right when they are alone.
    """
    what = f"{type(error).__name__}: {error}"
    if len(task.numbers) > 1:
        half = len(task.numbers) // 2
        numbers = task.numbers[:half], task.numbers[half:]
        parts = [replace(task, numbers=part, end=math.inf) for part in numbers]
    elif len(task.targets) > 1:
        parts = [replace(task, targets=(target,), end=math.inf) for target in task.targets]
    else:
        (target,), (number,) = task.targets, task.numbers
        fault = Fault(target, task.kind, number, what)
        return Finding(Counts({(target, Verdict.WRONG): 1}), [fault]), []
    kernels = f"{task.kind} kernels {task.numbers[0]} to {task.numbers[-1]}"
    print(f"{' '.join(task.targets)}: {kernels} again: {what}", file=sys.stderr, flush=True)
    return Finding(Counts(), []), parts


# Each task's process is a copy of one that has imported these, and opened no device.
PRELOADED = ["tests.fuzz.search", "tile.runtime.compiler", "tile.simt.pass_pipeline"]


def search(arguments: argparse.Namespace) -> Counts:
    """Run what there is time for; how many kernels came out how, by target."""
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(PRELOADED)
    waiting, counts = deque(tasks(arguments)), Counts()
    running: dict[Future[Finding], tuple[Task, ProcessPoolExecutor]] = {}
    while True:
        while waiting and len(running) < arguments.jobs:
            task = waiting.popleft()
            if time.monotonic() >= task.end:
                continue
            process = ProcessPoolExecutor(1, processes)
            running[process.submit(judge, task)] = task, process
        if not running:
            return counts
        for done in wait(running, return_when=FIRST_COMPLETED).done:
            task, process = running.pop(done)
            process.shutdown()
            error = done.exception()
            finding, again = (done.result(), []) if error is None else blame(task, error)
            waiting.extendleft(reversed(again))
            counts.update(finding.counts)
            for fault in finding.faults:
                print(fault, flush=True)
        print(f"{progress(counts)}, {len(waiting)} batches to go", file=sys.stderr, flush=True)


def progress(counts: Counts) -> str:
    """Return how many kernels were tried on some target, and how many times one was wrong."""
    tried, wrong = Counter[str](), 0
    for (target, verdict), count in counts.items():
        tried[target] += count
        wrong += count * (verdict is Verdict.WRONG)
    return f"{max(tried.values(), default=0)} kernels, {wrong} wrong"


def summary(target: str, counts: Counts) -> str:
    """Return a line about a target's kernels."""
    parts = [f"{counts[target, verdict]} {verdict.value}" for verdict in Verdict]
    return f"{target}: {', '.join(parts)}"


def main() -> int:
    """Parse what was asked for, and search."""
    title, _, rest = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz.search",
        description=title,
        epilog=rest,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("targets", nargs="+", help="such as interp:wgmma, nvptx, opencl:pocl")
    parser.add_argument("--first", type=int, default=0, help="the first kernel's number (0)")
    parser.add_argument("--kernels", type=int, default=1000, help="how many numbers (1000)")
    parser.add_argument(
        "--minutes", type=float, default=60, help="begin no kernel after these (60)"
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time (2)")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="of kernels")
    parser.add_argument("--show", action="store_true", help="print the kernels, too")
    arguments = parser.parse_args()
    for target in arguments.targets:
        try:
            resolved(target)
        except TileError as error:
            parser.error(error.message)
    if arguments.show:
        for number in range(arguments.first, arguments.first + arguments.kernels):
            for kind in arguments.kinds:
                drawn = Drawn.of(number, kind)
                print(f"{kind} kernel {number}, {drawn.options}\n{drawn.case!r}", flush=True)
    counts = search(arguments)
    for target in arguments.targets:
        print(summary(target, counts))
    return any(verdict is Verdict.WRONG for _, verdict in counts)


if __name__ == "__main__":
    sys.exit(main())
