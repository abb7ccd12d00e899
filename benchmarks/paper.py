"""The experiments of the paper that introduced Triton, with the kernels of `tile.ops`.

    python benchmarks/paper.py                       figures 1, 8, 10 and 11 as tables
    python benchmarks/paper.py --figure figure-8     one of them (or figures whose name begins so)
    python benchmarks/paper.py --plots docs/pictures also as plots
    python benchmarks/paper.py --cpu                 small sizes through OpenCL, against NumPy

On a GPU the peers are cuBLAS and cuDNN (through PyTorch, with `cudnn.benchmark`), in one process,
on random data, interleaved. Each result is compared with a peer's. Times are medians of replays of
CUDA graphs, so that launches do not count. Without a GPU `--cpu` is implied. The exit status is 1
if a result is wrong.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ops import Bench, NumPy, error, milliseconds
from paper_figures import FIGURES, Figure, Problem

import tile
from tile.testing import do_bench

REPEATS = 3  # of each peer, interleaved
REPLAYS = 20  # calls in a graph
TOLERANCE = {"float32": 2e-3}  # tf32 keeps 10 bits
HALF_TOLERANCE = 2e-2


def graph_timer(torch: Any, function: Callable[[], Any]) -> Callable[[], float]:
    """Return a function that measures the milliseconds of a call, captured in a CUDA graph."""
    function()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(REPLAYS):
            function()

    def measure() -> float:
        times = []
        for _ in range(7):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end) / REPLAYS)
        return statistics.median(times)

    return measure


def timer(bench: Bench, function: Callable[[], Any]) -> Callable[[], float]:
    """Return a function that measures a call; by events where a graph cannot be captured."""
    if bench.torch is not None:
        try:
            return graph_timer(bench.torch, function)
        except (RuntimeError, tile.TileError):
            bench.torch.cuda.synchronize()
    return lambda: milliseconds(function, rep=20)


def measure(bench: Bench, problem: Problem) -> tuple[dict[str, float], str]:
    """Return the TFLOP/s of each peer, and the error of the first (after WRONG if large)."""
    note = ""
    if problem.expected is not None:
        result = problem.peers["tile"]()
        apart = error(result, problem.peers[problem.expected]())
        kind = str(result.dtype).removeprefix("torch.")
        wrong = not apart <= TOLERANCE.get(kind, HALF_TOLERANCE)
        note = f"{'WRONG ' if wrong else ''}{apart:.0e}"
    timers = {name: timer(bench, run) for name, run in problem.peers.items()}
    times: dict[str, list[float]] = {name: [] for name in timers}
    for _ in range(REPEATS if bench.torch is not None else 1):
        for name, time in timers.items():
            times[name].append(time())
    return {n: problem.work / statistics.median(ts) / 1e9 for n, ts in times.items()}, note


def peaks(bench: Bench) -> tuple[float, float]:
    """Return the bytes per second of a copy and the operations per second of a large matmul."""
    assert bench.torch is not None
    source = bench.torch.empty(1 << 28, device="cuda")
    target = bench.torch.empty_like(source)
    copy = do_bench(lambda: target.copy_(source), rep=50, return_mode="median")
    a = bench.arrays.normal(8192, 8192)
    matmul = do_bench(lambda: a @ a, rep=50, return_mode="median")
    return 2 * source.nbytes / copy * 1e3, 2.0 * 8192**3 / matmul * 1e3


def rows(bench: Bench, figure: Figure) -> Iterator[tuple[Problem, dict[str, float], str]]:
    """Yield the measured points of a figure, with the roofline's limit where memory counts."""
    limits = peaks(bench) if bench.torch is not None and figure.name == "figure-1" else None
    for problem in figure.problems(bench):
        rates, note = measure(bench, problem)
        if limits is not None:
            bandwidth, operations = limits
            rates["roofline"] = min(operations, problem.work / problem.bytes * bandwidth) / 1e12
        yield problem, rates, note


def run(bench: Bench, figure: Figure, plots: Path | None) -> bool:
    """Print the table of a figure and save its plot; return True if all results are right."""
    print(f"\n{figure.title}, TFLOP/s\n", flush=True)
    points = []
    for problem, rates, note in rows(bench, figure):
        if not points:
            header = ["problem", *rates, "to the last", "error"]
            print(f"| {' | '.join(header)} |\n|{' --- |' * len(header)}")
        peers = list(problem.peers)
        ratio = rates["tile"] / rates[peers[-1]]
        cells = [problem.label, *(f"{rate:.4g}" for rate in rates.values()), f"{ratio:.2f}", note]
        print(f"| {' | '.join(cells)} |", flush=True)
        points.append((problem.x, rates, note))
    if plots is not None:
        draw(figure, points, plots)
    return not any(note.startswith("WRONG") for _, _, note in points)


def draw(figure: Figure, points: list[tuple[float, dict[str, float], str]], folder: Path) -> None:
    """Save the plot of a figure as SVG."""
    import matplotlib.pyplot as plt

    axes = plt.figure(figsize=(6, 4)).gca()
    for name in points[0][1]:
        axes.plot(
            [str(x) for x, _, _ in points], [rates[name] for _, rates, _ in points], label=name
        )
    axes.set(title=figure.title, xlabel=figure.xlabel, ylabel="TFLOP/s", ylim=(0, None))
    axes.legend()
    folder.mkdir(parents=True, exist_ok=True)
    plt.savefig(folder / f"{figure.name}.svg")
    plt.close()


@contextmanager
def target(bench: Bench) -> Iterator[None]:
    """Run kernels by OpenCL on a CPU, where pyopencl is installed."""
    if bench.torch is not None or importlib.util.find_spec("pyopencl") is None:
        yield
        return
    with tile.backend("opencl"):
        yield


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--figure", default="", help="how the names of the figures begin")
    parser.add_argument("--plots", type=Path, help="a folder for plots, as SVG")
    parser.add_argument("--cpu", action="store_true", help="run small sizes on the CPU")
    options = parser.parse_args()
    bench = Bench(NumPy(), None) if options.cpu else Bench.here()
    if bench.torch is not None:
        bench.torch.backends.cudnn.benchmark = True
    right = True
    with target(bench):
        for figure in FIGURES:
            if figure.name.startswith(options.figure):
                if bench.torch is not None:
                    allowed = figure.name.endswith("tf32")
                    bench.torch.backends.cudnn.allow_tf32 = allowed
                    bench.torch.backends.cuda.matmul.allow_tf32 = allowed
                right &= run(bench, figure, options.plots)
    return int(not right)


if __name__ == "__main__":
    sys.exit(main())
