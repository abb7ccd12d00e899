"""Compare matmuls, convolutions and rows on an H200 with their peers; the goals for each.

    python benchmarks/goals.py                    all cases
    python benchmarks/goals.py --case fp8 f64     cases whose name contains one of these
    python benchmarks/goals.py --part 1/3         every third case, from the first
    python benchmarks/goals.py --compile          compile all kernels, in several processes
    python benchmarks/goals.py --markdown         print a table as Markdown

Here and at the peers the fastest of some tiles is chosen, the same for this project and Triton.
Then both alternate in random order: each sample is a CUDA graph of calls of some milliseconds after
30 ms of rest, so that the card is cool; calls of less than 20 us alternate between copies of the
arrays that exceed the L2 cache. Ratios are of medians, with their quartiles. *Hot* is the median of
samples of 30 ms, each after 80 ms of the same kernel. Every result is compared with PyTorch's.
The exit status is 1 if one is wrong, or if a case cannot be measured.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from goal_cases import Case, Maker, makers
from gpu_timing import SHORT, Run, copies_needed, elapsed, events

REST, SAMPLE = 0.03, 8e-3  # seconds
HEAT, HOT_SAMPLE = 80e-3, 30e-3
CLOSE = 1.05  # of the fastest: choices that are timed again
PROCESSES = 12
Key = tuple[str, str]  # "ours" or "peers", and the name


class Graph:
    """A CUDA graph of calls that take some milliseconds."""

    def __init__(self, runs: Sequence[Run], seconds: float) -> None:
        for run in runs:
            run()
        estimate = self._timed(runs[0]) / 3
        rounds = max(1, round(seconds / max(estimate, 1e-6) / len(runs)))
        self.calls = min(rounds, 1 + 200 // len(runs)) * len(runs)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            # Results are kept until the end, so that no two calls write the same memory.
            results = [runs[number % len(runs)]() for number in range(self.calls)]
        del results
        self._graph.replay()

    def _timed(self, run: Run) -> float:
        start, end = events()
        start.record()
        for _ in range(3):
            run()
        end.record()
        return elapsed([(start, end)])[0]

    def sample(self, rest: float, replays: int = 1) -> float:
        """Return the seconds of a call."""
        torch.cuda.synchronize()
        time.sleep(rest)
        start, end = events()
        start.record()
        for _ in range(replays):
            self._graph.replay()
        end.record()
        return elapsed([(start, end)])[0] / self.calls / replays

    def hot(self, seconds: float) -> float:
        """Return the seconds of a call on a card that these calls have heated."""
        replays = [max(1, round(each / seconds / self.calls)) for each in (HEAT, HOT_SAMPLE)]
        for _ in range(replays[0]):
            self._graph.replay()
        start, end = events()
        start.record()
        for _ in range(replays[1]):
            self._graph.replay()
        end.record()
        return elapsed([(start, end)])[0] / self.calls / replays[1]


@dataclass(frozen=True)
class Result:
    """The fastest function here and that of the peers, with their seconds for a call."""

    case: Case
    ours: tuple[str, float]
    peer: tuple[str, float]
    quartiles: tuple[float, float]
    hot: float | None
    right: bool  # every result, also of functions that are not the fastest

    @property
    def ratio(self) -> float:
        return self.peer[1] / self.ours[1]

    def cells(self) -> list[str]:
        case, (low, high) = self.case, self.quartiles
        hot = "" if self.hot is None else f"{self.hot:.3f}"
        ours, peer = (f"{1e6 * seconds:.2f}" for _, seconds in (self.ours, self.peer))
        rate = f"{case.rate(self.ours[1]):.0f} {case.unit}"
        measured = [f"{self.ratio:.3f}", f"{low:.3f} to {high:.3f}", hot]
        return [case.name, case.goal, *measured, ours, rate, self.ours[0], peer, self.peer[0]]


HEADER = ["work", "goal", "ratio", "quartiles", "hot", "us", "rate", "tiles", "peer, us", "peer"]


def error(case: Case, run: Run) -> float:
    """Return the norm of a result's difference to the expected one, over that of the latter."""
    case.out.zero_()
    value = run()
    result = value if isinstance(value, torch.Tensor) and value is not case.out else case.out
    wanted = case.expected.double()
    return float((result.double() - wanted).norm() / wanted.norm())


def checked(case: Case, functions: dict[str, Run]) -> tuple[dict[str, Run], bool]:
    """Return the functions that run and have the right result, and if none has a wrong one.

    Say which ones do not run, or have a wrong result.
    """
    good, right = {}, True
    for name, run in functions.items():
        try:
            apart = error(case, run)
        except Exception as failure:  # noqa: BLE001 - the others are measured all the same
            text = str(failure).partition("\n")[0][:120]
            print(f"  {case.name}, {name}: {type(failure).__name__}: {text}", flush=True)
            continue
        if apart <= case.tolerance:
            good[name] = run
        else:
            right = False
            print(f"  WRONG {case.name}, {name}: {apart:.1e}", flush=True)
    return good, right


def measure(make: Callable[[], Case], samples: int) -> Result:
    torch.manual_seed(0)
    before = torch.cuda.memory_allocated()
    case = make()
    size = torch.cuda.memory_allocated() - before
    (case.ours, right), (case.peers, peers_right) = (
        checked(case, functions) for functions in (case.ours, case.peers)
    )
    first = Graph([next(iter(case.ours.values()))], 1e-3).sample(0)
    copies = [case, *(make() for _ in range(copies_needed(size) - 1 if first < SHORT else 0))]
    graphs: dict[Key, Graph] = {}
    for side in ("ours", "peers"):
        for name in getattr(case, side):
            graphs[side, name] = Graph([getattr(copy, side)[name] for copy in copies], SAMPLE)
    once = {key: min(graph.sample(REST / 3) for _ in range(2)) for key, graph in graphs.items()}
    least = {
        side: min(t for key, t in once.items() if key[0] == side) for side in ("ours", "peers")
    }
    keys = [key for key, seconds in once.items() if seconds <= CLOSE * least[key[0]]]
    times: dict[Key, list[float]] = {key: [] for key in keys}
    for _ in range(samples):
        for key in random.sample(keys, len(keys)):
            times[key].append(graphs[key].sample(REST))
    ours, peer = (
        min((key for key in keys if key[0] == side), key=lambda key: statistics.median(times[key]))
        for side in ("ours", "peers")
    )
    ratios = [b / a for a, b in zip(times[ours], times[peer], strict=True)]
    low, _, high = statistics.quantiles(ratios, n=4)
    medians = [statistics.median(times[key]) for key in (ours, peer)]
    hot = None
    if case.hot:
        pairs = [
            [graphs[key].hot(t) for key, t in zip((ours, peer), medians, strict=True)]
            for _ in range(4)
        ]
        hot = statistics.median(b / a for a, b in pairs)
    measured = (ours[1], medians[0]), (peer[1], medians[1]), (low, high)
    return Result(case, *measured, hot, right and peers_right)


def compile_all(names: Sequence[str]) -> int:
    """Compile the kernels of some cases, in processes of their own; return the exit status."""
    running: list[subprocess.Popen[bytes]] = []
    codes = []
    for name in names:
        if len(running) == PROCESSES:
            codes.append(running.pop(0).wait())
        running.append(subprocess.Popen([sys.executable, __file__, "--once", "--case", name]))
    codes += [each.wait() for each in running]
    return int(any(codes))


def chosen(parts: Sequence[str], part: str) -> Iterable[tuple[str, str, Maker]]:
    number, count = map(int, part.split("/"))
    cases = [case for case in makers() if not parts or any(text in case[0] for text in parts)]
    return cases[number - 1 :: count]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--case", nargs="*", default=[], help="parts of names")
    parser.add_argument("--part", default="1/1", help="every second case, from the first: 1/2")
    parser.add_argument("--samples", type=int, default=9)
    parser.add_argument("--compile", action="store_true", help="compile only")
    parser.add_argument("--once", action="store_true", help="run everything once, without timing")
    parser.add_argument("--markdown", action="store_true", help="print a table as Markdown")
    options = parser.parse_args()
    cases = list(chosen(options.case, options.part))
    if options.compile:
        return compile_all([name for name, *_ in cases])
    if options.markdown:
        print(f"| {' | '.join(HEADER)} |\n|{' --- |' * len(HEADER)}")
    wrong = 0
    for name, goal, maker in cases:
        make = partial(maker, name, goal)
        if options.once:
            case = make()
            _, right = checked(case, case.ours | case.peers)
            wrong += not right
            continue
        try:
            result = measure(make, options.samples)
        except Exception as failure:  # noqa: BLE001 - the other cases are measured all the same
            text = str(failure).partition("\n")[0][:120]
            print(f"  {name}: {type(failure).__name__}: {text}", flush=True)
            wrong += 1
            continue
        finally:
            torch.cuda.empty_cache()
        wrong += not result.right
        cells = result.cells()
        print(f"| {' | '.join(cells)} |" if options.markdown else "  ".join(cells), flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
