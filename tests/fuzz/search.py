"""Searches random kernels for one that a backend gets wrong; a program.

    python -m tests.fuzz.search interp:mma opencl:@intel --first 1000 --kernels 500
    python -m tests.fuzz.search nvptx --minutes 10 --jobs 4

A kernel is known by its number and by `small` or `large`, the sizes of its tiles: it is the same one
on each machine. What was found is told at once, and counted in the end; the search goes on after a
fault, also after one that a process or a device does not survive. It fails if there was any.

    python -m tests.fuzz.search opencl:@intel --first 1234 --kernels 1 --sizes large --show
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace

from tests.fuzz.random_kernels import SIZES, Drawn, Verdict, resolved
from tile.errors import TileError

BATCH = 20  # kernels of a process


@dataclass(frozen=True)
class Task:
    """Kernels of successive numbers for a target."""

    target: str
    sizes: str
    numbers: range


@dataclass(frozen=True)
class Finding:
    """The outcomes of kernels, and which of them are wrong."""

    verdicts: Counter[Verdict]
    faults: list[tuple[int, str]]


def judge(task: Task) -> Finding:
    """Run a task's kernels, one after the other."""
    finding = Finding(Counter(), [])
    for number in task.numbers:
        verdict, what = Drawn.of(number, task.sizes).judge(task.target)
        finding.verdicts[verdict] += 1
        if verdict is Verdict.WRONG:
            finding.faults.append((number, what))
    return finding


def tasks(arguments: argparse.Namespace) -> Iterator[Task]:
    """All there is to do; targets and sizes alternate, so that an early end leaves none out."""
    end = arguments.first + arguments.kernels
    for first in range(arguments.first, end, BATCH):
        for target in arguments.targets:
            for sizes in arguments.sizes:
                yield Task(target, sizes, range(first, min(first + BATCH, end)))


def blame(task: Task, error: BaseException) -> tuple[Finding, list[Task]]:
    """Describe a task that raised or whose process ended, and how to run it again.

    The kernel to blame is found by bisection, so that what it did to its process or device is not held
    against others.
    """
    count = len(task.numbers)
    if count == 1:
        fault = (task.numbers[0], f"{type(error).__name__}: {error}")
        return Finding(Counter({Verdict.WRONG: 1}), [fault]), []
    parts = task.numbers[: count // 2], task.numbers[count // 2 :]
    return Finding(Counter(), []), [replace(task, numbers=part) for part in parts]


def search(arguments: argparse.Namespace) -> Counter[tuple[str, Verdict]]:
    """Run what there is time for; how many kernels came out how, by target."""
    end = time.monotonic() + 60 * arguments.minutes
    waiting, counts = deque(tasks(arguments)), Counter[tuple[str, Verdict]]()
    running: dict[Future[Finding], tuple[Task, ProcessPoolExecutor]] = {}
    while True:
        while waiting and len(running) < arguments.jobs and time.monotonic() < end:
            task = waiting.popleft()
            process = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
            running[process.submit(judge, task)] = task, process
        if not running:
            return counts
        for done in wait(running, return_when=FIRST_COMPLETED).done:
            task, process = running.pop(done)
            process.shutdown()
            error = done.exception()
            finding, again = (done.result(), []) if error is None else blame(task, error)
            waiting.extendleft(reversed(again))
            for verdict, count in finding.verdicts.items():
                counts[task.target, verdict] += count
            for number, what in finding.faults:
                print(f"{task.target}: {task.sizes} kernel {number}: {what}", flush=True)
        total = sum(counts.values())
        print(f"{total} kernels, {len(waiting)} batches to go", file=sys.stderr, flush=True)


def main() -> int:
    """Parse what was asked for, and search."""
    summary, _, rest = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz.search",
        description=summary,
        epilog=rest,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("targets", nargs="+", help="such as interp:wgmma, nvptx, opencl:pocl")
    parser.add_argument("--first", type=int, default=0, help="the first kernel's number (0)")
    parser.add_argument("--kernels", type=int, default=1000, help="how many numbers (1000)")
    parser.add_argument("--minutes", type=float, default=60, help="begin nothing after these (60)")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time (2)")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES), help="of tiles")
    parser.add_argument("--show", action="store_true", help="print the kernels, too")
    arguments = parser.parse_args()
    for target in arguments.targets:
        try:
            resolved(target)
        except TileError as error:
            parser.error(error.message)
    if arguments.show:
        for number in range(arguments.first, arguments.first + arguments.kernels):
            for sizes in arguments.sizes:
                drawn = Drawn.of(number, sizes)
                print(f"{sizes} kernel {number}, {drawn.options}\n{drawn.case!r}", flush=True)
    counts = search(arguments)
    for target in arguments.targets:
        parts = [f"{counts[target, verdict]} {verdict.value}" for verdict in Verdict]
        print(f"{target}: {', '.join(parts)}")
    return any(verdict is Verdict.WRONG for _, verdict in counts)


if __name__ == "__main__":
    sys.exit(main())
