"""The figures of the paper that introduced Triton, and the plots of introductions to it.

    python benchmarks/paper.py                     what is not measured yet; then the page and plots
    python benchmarks/paper.py --figure figure-8   only this figure, or those whose name begins so
    python benchmarks/paper.py --again             measure again what there is
    python benchmarks/paper.py --limit 30          stop a figure after so many seconds
    python benchmarks/paper.py --cpu               small sizes through OpenCL, against NumPy
    python benchmarks/paper.py --page              only write the page and the plots

Each point is stored in `docs/results/paper` (or `--out`) when it is measured; a later run goes on
with the rest. The page is `docs/results/paper.md`. The limit makes the whole take less than ten
minutes on a GPU.

On a GPU the peers are cuBLAS and cuDNN (through PyTorch, with `cudnn.benchmark`), and Triton and
TileLang where they are installed, in one process, on random data, interleaved. Calls are in CUDA
graphs, in turn on several copies of the operands, which do not fit in the L2 cache together; the
ratio with a warm cache is that of calls on one copy. Each result is compared with a peer's. Without
a GPU `--cpu` is implied. The exit status is 1 if a result is wrong.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import importlib.util
import json
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import paper_page
from ops import Bench, NumPy, error, milliseconds
from paper_figures import FIGURES, Figure, Problem
from paper_plots import PLOTS

import tile
from tile.testing import do_bench

SAMPLES = 5  # of each peer
SAMPLE = 5.0  # milliseconds, of graphs
LIMIT = 40.0  # seconds of a figure
TOLERANCE = {"float32": 2e-3}  # tf32 keeps 10 bits
HALF_TOLERANCE = 2e-2
UNITS = {"TFLOP/s": 1e9, "GFLOP/s": 1e6, "GB/s": 1e6}  # times a millisecond
OUT = Path(__file__).parents[1] / "docs" / "results"
Timer = Callable[[], float]  # takes a sample, in milliseconds


@dataclass(frozen=True)
class Measured:
    """The rate of each peer for a problem.

    warm: the first rate over the reference's with a warm L2 cache, where `rates` are those with a
    cold one. work: as the problem's. bytes: those that each peer must access. reference: the peer
    whose result the first one must have. note: the error, after WRONG if it is large.
    """

    rates: dict[str, float]
    warm: float | None
    work: float
    bytes: int
    reference: str
    note: str

    def stored(self) -> dict[str, Any]:
        """Return what is stored of it."""
        warm = {} if self.warm is None else {"warm": round(self.warm, 3)}
        return {"rates": self.rates, **warm, "reference": self.reference, "note": self.note}

    def shown(self) -> str:
        """Return a line of text."""
        parts = [", ".join(f"{peer} {rate:.4g}" for peer, rate in self.rates.items())]
        if self.warm is not None:
            parts.append(f"with a warm cache {self.warm:.3f} of {self.reference}")
        return f"{'; '.join(parts)} ({self.note})"


def measure(bench: Bench, make: Callable[[], Problem], unit: str) -> Measured:
    """Measure the problem that `make` makes; each call makes new arrays."""
    problem = make()
    result = problem.peers["tile"]()
    apart = error(result, problem.peers[problem.expected]())
    kind = str(result.dtype).removeprefix("torch.")
    wrong = not apart <= TOLERANCE.get(kind, HALF_TOLERANCE)
    size = sum(array.nbytes for array in (*problem.inputs, result))
    warm = None
    if bench.torch is not None and problem.inputs:
        gpu_timing = importlib.import_module("gpu_timing")
        copies = [problem] + [make() for _ in range(1, gpu_timing.copies_needed(size))]
        if len(copies) > 1:
            once = rates(problem, graphs([problem]), unit)
            warm = once["tile"] / once[problem.expected]
        cold = rates(problem, graphs(copies), unit)
    else:
        calls = {name: partial(milliseconds, run, rep=20) for name, run in problem.peers.items()}
        cold = rates(problem, calls, unit)
    note = f"{'WRONG ' if wrong else ''}{apart:.0e}"
    return Measured(cold, warm, problem.work, size, problem.expected, note)


def graphs(copies: list[Problem]) -> dict[str, Timer]:
    """Return what times a call of each peer, in a CUDA graph of calls on copies of a problem.

    Events time calls that cannot be captured as a graph.
    """
    gpu_timing = importlib.import_module("gpu_timing")

    def timer(peer: str) -> Timer:
        try:
            timed = gpu_timing.Graph([copy.peers[peer] for copy in copies], SAMPLE)
        except (RuntimeError, tile.TileError):
            gpu_timing.torch.cuda.synchronize()
            timed = gpu_timing.Events(copies[0].peers[peer], SAMPLE)
        return lambda: timed() * 1e3

    return {peer: timer(peer) for peer in copies[0].peers}


def rates(problem: Problem, timers: Mapping[str, Timer], unit: str) -> dict[str, float]:
    """Return the rate of each peer: medians of samples, which alternate in random order."""
    times: dict[str, list[float]] = {peer: [] for peer in timers}
    for _ in range(SAMPLES):
        for peer in random.sample(list(timers), len(timers)):
            times[peer].append(timers[peer]())
    return {
        peer: problem.work / statistics.median(its) / UNITS[unit] for peer, its in times.items()
    }


def peaks(bench: Bench) -> tuple[float, float]:
    """Return the bytes per second of a copy and the operations per second of a large matmul."""
    assert bench.torch is not None
    source = bench.torch.empty(1 << 28, device="cuda")
    target = bench.torch.empty_like(source)
    copy = do_bench(lambda: target.copy_(source), rep=50, return_mode="median")
    a = bench.arrays.normal(8192, 8192)
    matmul = do_bench(lambda: a @ a, rep=50, return_mode="median")
    return 2 * source.nbytes / copy * 1e3, 2.0 * 8192**3 / matmul * 1e3


class Results:
    """The results of one kind of machine in a JSON file, which is written after each point."""

    def __init__(self, path: Path, machine: str) -> None:
        self._path = path
        self._stored: dict[str, Any] = {"machine": machine, "figures": {}}
        if path.exists():
            stored = json.loads(path.read_text("utf-8"))
            if stored["machine"] != machine:
                raise SystemExit(
                    f"{path} has results of another machine, {stored['machine']!r}; this one is "
                    f"{machine!r}: remove the file, or name another folder by --out"
                )
            self._stored = stored

    def labels(self, figure: Figure) -> set[str]:
        """Return the points of a figure that are measured."""
        stored = self._stored["figures"].get(figure.name, {"points": []})
        return {point["label"] for point in stored["points"]}

    def drop(self, figure: Figure) -> None:
        """Forget the points of a figure, which keeps its place."""
        if figure.name in self._stored["figures"]:
            self._stored["figures"][figure.name] |= {"points": [], "note": ""}

    def add(self, figure: Figure, point: dict[str, Any], order: list[str]) -> None:
        """Store a point; those of a figure stay in the given order of labels."""
        head = {"title": figure.title, "unit": figure.unit, "xlabel": figure.xlabel}
        stored = self._stored["figures"].setdefault(figure.name, {**head, "points": []})
        stored.update(head, date=str(datetime.date.today()))
        stored["points"].append(point)
        stored["points"].sort(key=lambda each: order.index(each["label"]))
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps(self._stored, indent=1) + "\n", "utf-8")


def run(bench: Bench, figure: Figure, results: Results, limit: float) -> bool:
    """Measure the points of a figure that are missing; return True if all of them are right."""
    points = dict(figure.points(bench))
    missing = [label for label in points if label not in results.labels(figure)]
    print(f"\n{figure.title}, {figure.unit}: {len(missing)} of {len(points)} points", flush=True)
    limits = peaks(bench) if missing and bench.torch and figure.name == "figure-1" else None
    right, end = True, time.monotonic() + limit
    for index, label in enumerate(missing):
        if index and time.monotonic() > end:
            print(f"  the time limit leaves {len(missing) - index}: run this again", flush=True)
            break
        try:
            measured = measure(bench, points[label], figure.unit)
        except Exception as failure:  # noqa: BLE001 - the other points are measured all the same
            text = str(failure).partition("\n")[0][:90]
            print(f"  {label}: FAILED {type(failure).__name__}: {text}", flush=True)
            right = False
            continue
        if limits is not None:
            roof = min(limits[1], measured.work / measured.bytes * limits[0])
            measured.rates["roofline"] = roof / 1e12
        results.add(figure, {"label": label, **measured.stored()}, list(points))
        print(f"  {label}: {measured.shown()}", flush=True)
        right &= not measured.note.startswith("WRONG")
    return right


def machine(bench: Bench) -> str:
    """Return the machine and the versions of the peers of most figures."""
    if bench.torch is None:
        kind = "OpenCL" if importlib.util.find_spec("pyopencl") else "the interpreter"
        return f"{platform.processor() or platform.machine()}, {kind}"
    peers = [f"torch {bench.torch.__version__}"]
    if importlib.util.find_spec("triton") is not None:
        peers.append(f"triton {importlib.metadata.version('triton')}")
    return ", ".join([bench.torch.cuda.get_device_name(), *peers])


@contextmanager
def target(bench: Bench) -> Iterator[None]:
    """Run kernels by OpenCL on a CPU, where pyopencl is installed."""
    if bench.torch is not None or importlib.util.find_spec("pyopencl") is None:
        yield
        return
    with tile.backend("opencl"):
        yield


def selected(name: str) -> list[Figure]:
    """Return the figure of this name, or those whose names begin so."""
    figures = [*FIGURES, *PLOTS]
    return [figure for figure in figures if figure.name == name] or [
        figure for figure in figures if figure.name.startswith(name)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--figure", default="", help="how the names of the figures begin")
    parser.add_argument("--again", action="store_true", help="measure again what there is")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds of a figure")
    parser.add_argument("--out", type=Path, default=OUT, help="the folder of the page")
    parser.add_argument("--cpu", action="store_true", help="run small sizes on the CPU")
    parser.add_argument("--page", action="store_true", help="only write the page and the plots")
    options = parser.parse_args()
    right = True
    if not options.page:
        bench = Bench(NumPy(), None) if options.cpu else Bench.here()
        kind = "cpu" if bench.torch is None else "gpu"
        results = Results(options.out / "paper" / f"{kind}.json", machine(bench))
        if bench.torch is not None:
            bench.torch.backends.cudnn.benchmark = True
        with target(bench):
            for figure in selected(options.figure):
                if bench.torch is None:
                    figure = replace(figure, unit=figure.unit.replace("TFLOP", "GFLOP"))
                if options.again:
                    results.drop(figure)
                if bench.torch is not None:
                    allowed = figure.name.endswith("tf32")
                    bench.torch.backends.cudnn.allow_tf32 = allowed
                    bench.torch.backends.cuda.matmul.allow_tf32 = allowed
                right &= run(bench, figure, results, options.limit)
    print(f"\nwrote {paper_page.write(options.out)}")
    return int(not right)


if __name__ == "__main__":
    sys.exit(main())
