"""Benchmark kernels on an NVIDIA GPU: this project, Triton and PyTorch in one process.

    python benchmarks/gpu.py                     all cases
    python benchmarks/gpu.py --case matmul       cases whose name contains `matmul`
    python benchmarks/gpu.py --part 1/2          every second case, from the first
    python benchmarks/gpu.py --compile only      compile only, for processes on other cards
    python benchmarks/gpu.py --markdown          also print the table as Markdown
    python benchmarks/gpu.py --csv gpu.csv       also write it as CSV
    python benchmarks/gpu.py --json gpu.json     also write it, with card and versions
    python benchmarks/gpu.py --rest 0.05         a cool card: idle seconds before each sample
    python benchmarks/gpu.py --plot plots        bars of the ratios to both peers

`gpu_cards.py` makes one table of the JSON files of several cards. The data is random; every result
is compared with PyTorch's in the same run. Both compilers have the same kernel source
(`gpu_kernels.py`) and the same choices of tiles (`gpu_cases.py`), of which each uses its fastest.
All are compiled first, in parallel. Then all peers are timed again. Both measurements interleave
the peers in random order, since a card that one peer has heated is slower for the next.

A sample is the median of calls, each after the L2 cache is cleared; where PyTorch takes less than
20 us, it is the mean of 40 calls in a CUDA graph, on copies of the problem that together exceed the
L2 cache, for all peers. Rates are medians of 11 to 31 samples; no more are taken when both ratios
are known within 1 %. A ratio is the median of pairs of samples, with its 95 % interval by order
statistics. The exit status is 1 if a result of this project is wrong.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import importlib
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
import triton
from compiler_peers import kernels_of
from gpu_cases import Case, Maker, makers
from gpu_rows import HEADER, OTHERS, Card, Row, markdown
from gpu_timing import (
    SHORT,
    Events,
    Graph,
    Run,
    Timer,
    bench,
    copies_needed,
    fastest,
    sampled,
)
from gpu_warm import REFUSALS, warm

LEAST_SAMPLES, MOST_SAMPLES = 11, 31
STABLE = 0.01  # width of the interval of a ratio, from which on no more samples are taken
SAMPLE, CHOICE_SAMPLE = 10, 5  # milliseconds

KERNELS = {peer: kernels_of(peer) for peer in ("tile", "triton")}


class Problem:
    """A case, and as many copies of it as timing by graphs needs, if its calls are short."""

    def __init__(self, name: str, make: Maker) -> None:
        before = torch.cuda.memory_allocated()
        self.case = make(name)
        size = torch.cuda.memory_allocated() - before
        self.expected = [result.clone() for result in self.case.torch()]
        self.by_graph = bench(self.case.torch, CHOICE_SAMPLE) < SHORT
        count = copies_needed(size) if self.by_graph else 1
        self.copies = (self.case, *(make(name) for _ in range(count - 1)))

    def timer(self, run: Callable[[Case], Run], milliseconds: float) -> Timer:
        """Return a timer of a function of the case."""
        if self.by_graph:
            return Graph([run(copy) for copy in self.copies], milliseconds)
        return Events(run(self.case), milliseconds)


@dataclass(frozen=True)
class Best:
    """A peer's fastest choice of tiles; `run` is None if no choice ran with a right result."""

    run: Callable[[Case], Run] | None
    note: str
    wrong: bool = False


def running(peer: str, tiles: dict[str, int], case: Case) -> Run:
    return case.run(KERNELS[peer], tiles)


def best(problem: Problem, peer: str) -> Best:
    """Return a peer's fastest choice of tiles; a wrong result ends the search."""
    case = problem.case
    choices: list[Best] = []
    timers: list[Timer] = []
    for tiles in case.choices:
        run = partial(running, peer, tiles)
        try:
            for result in case.results:
                result.zero_()
            run(case)()
            torch.cuda.synchronize()
            error = greatest_error(case, problem.expected)
            if not error <= case.tolerance:
                return Best(None, f"WRONG by {error:.3g} with {tiles}", wrong=True)
            timers.append(problem.timer(run, CHOICE_SAMPLE))
        except REFUSALS as error:  # these tiles do not fit; others might
            print(f"  {peer}, {tiles}: {type(error).__name__}: {str(error).splitlines()[0][:90]}")
            continue
        choices.append(Best(run, " ".join(map(str, tiles.values()))))
    return choices[fastest(timers)] if choices else Best(None, "")


def greatest_error(case: Case, expected: list[torch.Tensor]) -> float:
    """Return the greatest error of all results, relative to the greatest number."""
    errors = [
        ((result.float() - right.float()).abs().max() / right.float().abs().max()).item()
        for result, right in zip(case.results, expected, strict=True)
    ]
    return max(errors) if all(error == error for error in errors) else float("nan")


def measure(name: str, make: Maker, rest: float) -> tuple[Row, bool]:
    """Measure all peers on one case; return False if this project's result was wrong."""
    problem = Problem(name, make)
    chosen = {peer: best(problem, peer) for peer in KERNELS}
    chosen["torch"] = Best(lambda case: case.torch, "")
    timers = {
        peer: problem.timer(choice.run, SAMPLE)
        for peer, choice in chosen.items()
        if choice.run is not None
    }
    samples = sampled([*timers.values()], LEAST_SAMPLES, MOST_SAMPLES, STABLE, rest)
    times = dict(zip(timers, samples, strict=True))
    notes = {peer: choice.note for peer, choice in chosen.items()}
    how = "graph" if problem.by_graph else "events"
    row = Row.of(name, problem.case.unit, times, problem.case.rate(1.0), notes, how)
    return row, not chosen["tile"].wrong


def launch(peer: str) -> Run:
    """Return a launch with three pointers and two integers, of a kernel that is compiled."""
    x, y, out = (torch.zeros(128, device="cuda") for _ in range(3))
    KERNELS[peer].add_kernel[(1,)](x, y, out, 100, BLOCK=128)
    kernel = KERNELS[peer].add_kernel[(1,)]
    return lambda: kernel(x, y, out, 100, BLOCK=128)


def torch_launch() -> Run:
    """Return one of PyTorch's own launches."""
    x, out = torch.zeros(128, device="cuda"), torch.zeros(128, device="cuda")
    return lambda: torch.add(x, x, out=out)


def host_seconds(run: Run, calls: int = 400) -> float:
    """Return the seconds of a call on the host, in a tight loop on an idle device."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - start) / calls


def launch_row() -> Row:
    """Measure launches per second, in thousands."""
    runs = {**{peer: launch(peer) for peer in KERNELS}, "torch": torch_launch()}
    timers = [partial(host_seconds, run) for run in runs.values()]
    samples = sampled(timers, LEAST_SAMPLES, MOST_SAMPLES, STABLE)
    row = Row.of("launch", "1000/s", dict(zip(runs, samples, strict=True)), 1e-3, {}, "host")
    notes = {peer: f"{1e3 / rate:.1f} us" for peer, rate in row.rates.items() if rate is not None}
    return Row(row.case, row.unit, row.rates, row.ratios, notes, row.how)


def copy_row() -> Row:
    """Measure the device's own copy of a GiB, the reference for the add of 2^27."""
    x = torch.empty(1 << 28, device="cuda")
    y = torch.empty_like(x)
    seconds = {"torch": [bench(lambda: y.copy_(x))]}
    return Row.of("device copy", "GB/s", seconds, 8 * x.numel() / 1e9, {}, "events")


EXTRA = {"launch": launch_row, "device copy": copy_row}


def printed(*command: str) -> str:
    """Return the first line that a command prints, or "unknown" if it cannot."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.partition("\n")[0].strip()


def card_of(rows: Sequence[Row], commit: str) -> Card:
    """Return the rows with the names of this machine's card and versions."""
    return Card(
        torch.cuda.get_device_name(),
        str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid),
        printed("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"),
        torch.__version__,
        triton.__version__,
        commit or printed("git", "rev-parse", "--short", "HEAD"),
        str(datetime.date.today()),
        tuple(rows),
    )


def draw(rows: list[Row], folder: Path) -> Path:
    """Draw bars of this project's speed relative to each peer's."""
    pyplot = importlib.import_module("matplotlib.pyplot")
    rows = [row for row in rows if row.ratios]
    figure, axes = pyplot.subplots(figsize=(9, 1 + 0.3 * len(rows)), layout="constrained")
    for shift, peer in zip((-0.2, 0.2), OTHERS, strict=True):
        positions = [index + shift for index in range(len(rows))]
        axes.barh(positions, [row.ratio(peer) or 0 for row in rows], 0.38, label=f"over {peer}")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_yticks(range(len(rows)), [row.case for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel("speed relative to the peer's")
    axes.legend()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "gpu.png"
    figure.savefig(path, dpi=150)
    return path


def chosen_names(parts: Sequence[str], part: tuple[int, int]) -> list[str]:
    """Return the names that contain one of `parts`, and of those each `part[1]`-th."""
    names = [name for name in (*dict(makers()), *EXTRA) if any(p in name for p in parts or [""])]
    return names[part[0] - 1 :: part[1]]


def fraction(text: str) -> tuple[int, int]:
    """Return the numbers of a text like 1/2. Raises ValueError for others."""
    number, of = map(int, text.split("/"))
    if not 1 <= number <= of:
        raise ValueError(f"{number} of {of} parts")
    return number, of


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--case", action="append", default=[], help="only names that contain this")
    parser.add_argument("--part", type=fraction, default=(1, 1), help="1/2: every second case")
    parser.add_argument(
        "--compile",
        choices=("first", "only", "not"),
        default="first",
        help="compile in parallel and then measure, or do one of these (default: %(default)s)",
    )
    parser.add_argument("--markdown", action="store_true", help="the table as Markdown")
    parser.add_argument("--csv", type=Path, help="a file for the table")
    parser.add_argument("--json", type=Path, help="a file for the table, for gpu_cards.py")
    parser.add_argument("--commit", default="", help="the commit, where Git does not know it")
    parser.add_argument("--rest", type=float, default=0.0, help="idle seconds before a sample")
    parser.add_argument("--plot", type=Path, help="a folder for a plot; needs matplotlib")
    options = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, triton {triton.__version__}")
    start = time.monotonic()
    names = chosen_names(options.case, options.part)
    cases = {name: make for name, make in makers() if name in names}
    if options.compile != "not":
        warm([*cases], [*KERNELS])
        print(f"  compiled after {time.monotonic() - start:.0f} s", flush=True)
    if options.compile == "only":
        return 0
    rows, right = [], True
    for name in names:
        row, is_right = (
            measure(name, cases[name], options.rest) if name in cases else (EXTRA[name](), True)
        )
        rows.append(row)
        right &= is_right
        print("  ".join(row.cells()), flush=True)
        torch.cuda.empty_cache()
        if options.json is not None:  # each time: a run that is cut short leaves what it has
            card_of(rows, options.commit).write(options.json)
    print(f"  measured after {time.monotonic() - start:.0f} s", flush=True)
    table = [list(HEADER), *(row.cells() for row in rows)]
    if options.markdown:
        print(markdown(table))
    if options.csv is not None:
        with options.csv.open("w", newline="") as file:
            csv.writer(file).writerows(table)
    if options.plot is not None:
        print(draw(rows, options.plot))
    return int(not right)


if __name__ == "__main__":
    sys.exit(main())
