"""Benchmark kernels on an NVIDIA GPU: this project, Triton and PyTorch in one process.

    python benchmarks/gpu.py                     all cases
    python benchmarks/gpu.py --case matmul       cases whose name contains `matmul`
    python benchmarks/gpu.py --markdown          also print the table as Markdown
    python benchmarks/gpu.py --csv gpu.csv       also write it as CSV
    python benchmarks/gpu.py --plot plots        bars of the ratios to both peers

The data is random; every result is compared with PyTorch's in the same run. Both compilers have the
same kernel source (`gpu_kernels.py`) and the same choices of tiles (`gpu_cases.py`), of which each
uses its fastest. Then all peers are timed again. Both measurements interleave the peers in random
order, since a card that one peer has heated is slower for the next. Each sample is a median of
`do_bench`, which clears the L2 cache between calls. The table has the means of samples, since
samples of a few microseconds have two modes, about 7 % apart, like the card's clock. Samples are
short and many: large matmuls reach the card's power limit, and its clock depends on what ran in the
last tenths of a second. The exit status is 1 if a result of this project is wrong.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import importlib.util
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import triton
from compiler_peers import kernels_of
from gpu_cases import Case, cases
from triton.errors import TritonError

from tile.errors import TileError

HERE = Path(__file__).parent
PEERS = ("tile", "triton", "torch")
HEADER = ("case", "unit", *PEERS, "to triton", "to torch", "tiles", "triton's tiles")
SAMPLES = 30
TILE_SAMPLES = 9  # samples for the choice of tiles


KERNELS = {peer: kernels_of(peer) for peer in ("tile", "triton")}
REFUSALS = (TileError, TritonError, torch.OutOfMemoryError)


@dataclass(frozen=True)
class Best:
    """A peer's fastest choice of tiles; `run` is None if no choice ran with a right result."""

    run: Callable[[], Any] | None
    note: str
    wrong: bool = False


NONE = Best(None, "")


@dataclass(frozen=True)
class Row:
    """The measurements of a case: rates in its unit, None if a peer has none."""

    case: str
    unit: str
    rates: dict[str, float | None]
    notes: dict[str, str]

    def ratio(self, peer: str) -> float | None:
        mine, its = self.rates["tile"], self.rates[peer]
        return None if mine is None or its is None else mine / its

    def cells(self) -> list[str]:
        rates = (_cell(self.rates[peer], 1) for peer in PEERS)
        ratios = (_cell(self.ratio(peer), 2) for peer in ("triton", "torch"))
        return [self.case, self.unit, *rates, *ratios, self.notes["tile"], self.notes["triton"]]


def _cell(number: float | None, digits: int) -> str:
    return "" if number is None else f"{number:.{digits}f}"


def bench(function: Callable[[], Any], milliseconds: int = 100) -> float:
    """Return the median seconds of calls, repeated for some milliseconds."""
    median = triton.testing.do_bench(
        function, warmup=milliseconds // 4, rep=milliseconds, return_mode="median"
    )
    return float(median) / 1e3


def best(case: Case, peer: str, expected: list[torch.Tensor]) -> Best:
    """Return a peer's fastest choice of tiles; a wrong result ends the search."""
    choices: list[Best] = []
    for tiles in case.choices:
        try:
            function = case.run(KERNELS[peer], tiles)
            for result in case.results:
                result.zero_()
            function()
            torch.cuda.synchronize()
            error = greatest_error(case, expected)
            if not error <= case.tolerance:
                return Best(None, f"WRONG by {error:.3g} with {tiles}", wrong=True)
        except REFUSALS as error:  # these tiles do not fit; others might
            print(f"  {peer}, {tiles}: {type(error).__name__}: {str(error).splitlines()[0][:90]}")
            continue
        choices.append(Best(function, " ".join(map(str, tiles.values()))))
    if not choices:
        return NONE
    times = interleaved([choice.run for choice in choices if choice.run], TILE_SAMPLES, 8)
    return min(zip(times, choices, strict=True), key=lambda pair: pair[0])[1]


def interleaved(
    functions: Sequence[Callable[[], Any]], samples: int, milliseconds: int
) -> list[float]:
    """Return the mean seconds of each function over interleaved samples in random order.

    milliseconds: the length of a sample.
    """
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(samples):
        for index in random.sample(range(len(functions)), len(functions)):
            times[index].append(bench(functions[index], milliseconds))
    return [statistics.fmean(samples_of) for samples_of in times]


def greatest_error(case: Case, expected: list[torch.Tensor]) -> float:
    """Return the greatest error of all results, relative to the greatest number."""
    errors = [
        ((result.float() - right.float()).abs().max() / right.float().abs().max()).item()
        for result, right in zip(case.results, expected, strict=True)
    ]
    return max(errors) if all(error == error for error in errors) else float("nan")


def measure(case: Case) -> tuple[Row, bool]:
    """Measure all peers on one case; return False if this project's result was wrong."""
    expected = [result.clone() for result in case.torch()]
    chosen = {peer: best(case, peer, expected) for peer in KERNELS}
    chosen["torch"] = Best(case.torch, "")
    runs = {peer: choice.run for peer, choice in chosen.items() if choice.run is not None}
    times = dict(zip(runs, interleaved([*runs.values()], SAMPLES, 15), strict=True))
    rates = {peer: case.rate(times[peer]) if peer in times else None for peer in PEERS}
    row = Row(case.name, case.unit, rates, {peer: chosen[peer].note for peer in PEERS})
    return row, not chosen["tile"].wrong


def launches(peer: str) -> float:
    """Return the seconds of a launch with three pointers and two integers, in a tight loop."""
    x, y, out = (torch.zeros(128, device="cuda") for _ in range(3))
    KERNELS[peer].add_kernel[(1,)](x, y, out, 100, BLOCK=128)
    kernel = KERNELS[peer].add_kernel[(1,)]
    times = []
    for _ in range(7):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(500):
            kernel(x, y, out, 100, BLOCK=128)
        times.append((time.perf_counter() - start) / 500)
    torch.cuda.synchronize()
    return statistics.median(times)


def torch_launches() -> float:
    """Return the seconds of one of PyTorch's own launches, in a tight loop."""
    x, out = torch.zeros(128, device="cuda"), torch.zeros(128, device="cuda")
    times = []
    for _ in range(7):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(500):
            torch.add(x, x, out=out)
        times.append((time.perf_counter() - start) / 500)
    return statistics.median(times)


def launch_row() -> Row:
    """Measure launches per second, in thousands."""
    seconds = {"tile": launches("tile"), "triton": launches("triton"), "torch": torch_launches()}
    rates: dict[str, float | None] = {peer: 1e-3 / time for peer, time in seconds.items()}
    notes = {peer: f"{time * 1e6:.1f} us" for peer, time in seconds.items()}
    return Row("launch", "1000/s", rates, notes)


def copy_row() -> Row:
    """Measure the device's own copy of a GiB, the reference for the add of 2^27."""
    x = torch.empty(1 << 28, device="cuda")
    y = torch.empty_like(x)
    rate = 8 * x.numel() / bench(lambda: y.copy_(x)) / 1e9
    return Row("device copy", "GB/s", {"tile": None, "triton": None, "torch": rate}, EMPTY)


EMPTY = dict.fromkeys(PEERS, "")


def draw(rows: list[Row], folder: Path) -> Path:
    """Draw bars of this project's speed relative to each peer's."""
    pyplot = importlib.import_module("matplotlib.pyplot")
    rows = [row for row in rows if row.ratio("triton") or row.ratio("torch")]
    figure, axes = pyplot.subplots(figsize=(9, 1 + 0.3 * len(rows)), layout="constrained")
    for shift, peer in ((-0.2, "triton"), (0.2, "torch")):
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


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--case", default="", help="only cases whose name contains this")
    parser.add_argument("--markdown", action="store_true", help="the table as Markdown")
    parser.add_argument("--csv", type=Path, help="a file for the table")
    parser.add_argument("--plot", type=Path, help="a folder for a plot; needs matplotlib")
    options = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, triton {triton.__version__}")
    rows, right = [], True
    for case in cases(options.case):
        row, is_right = measure(case)
        rows.append(row)
        right &= is_right
        print("  ".join(row.cells()), flush=True)
    for name, make in (("launch", launch_row), ("device copy", copy_row)):
        if options.case in name:
            rows.append(make())
            print("  ".join(rows[-1].cells()), flush=True)
    table = [list(HEADER), *(row.cells() for row in rows)]
    if options.markdown:
        print(
            "\n".join(f"| {' | '.join(r)} |" for r in [table[0], ["---"] * len(HEADER), *table[1:]])
        )
    if options.csv is not None:
        with options.csv.open("w", newline="") as file:
            csv.writer(file).writerows(table)
    if options.plot is not None:
        print(draw(rows, options.plot))
    return int(not right)


if __name__ == "__main__":
    sys.exit(main())
