"""Kernels on an NVIDIA GPU: this project, Triton and PyTorch side by side in one process.

    python benchmarks/gpu.py                     all cases
    python benchmarks/gpu.py --case matmul       those whose name has `matmul` in it
    python benchmarks/gpu.py --markdown          the table as Markdown, too
    python benchmarks/gpu.py --csv gpu.csv       and as CSV
    python benchmarks/gpu.py --plot plots        bars of the ratios to both peers

Random data; every result is compared with PyTorch's in the same run. The kernels of both compilers
are one text (`gpu_kernels.py`) and, where tiles are a choice, have the same ones (`gpu_cases.py`),
of which each compiler takes its best. Then all peers are timed again. Both are done in turns and in
random order, for a card that has grown warm under one of them is slower for the next. Each turn is
a median of `do_bench`, which clears the L2 cache between calls; the table has the means of turns,
since those of a few microseconds come in two kinds, as the card's clock does, some 7 % apart.
Turns are short and many: large products draw all the power that the card may, and its clock
follows what ran in the last tenths of a second. The exit status is 1 if a result of this project
was wrong.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import importlib.util
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import triton
from gpu_cases import Case, cases
from triton.errors import TritonError

from tile.errors import TileError

HERE = Path(__file__).parent
PEERS = ("tile", "triton", "torch")
HEADER = ("case", "unit", *PEERS, "to triton", "to torch", "tiles", "triton's tiles")
TURNS = 30
TRIALS = 9  # turns in which tiles are chosen


def load(peer: str) -> ModuleType:
    """The kernels for one of the two compilers."""
    os.environ["TILE_PEER"] = peer
    spec = importlib.util.spec_from_file_location(f"kernels_of_{peer}", HERE / "gpu_kernels.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


KERNELS = {peer: load(peer) for peer in ("tile", "triton")}
REFUSALS = (TileError, TritonError, torch.OutOfMemoryError)


@dataclass(frozen=True)
class Best:
    """A peer's fastest choice; `run` is None where none computed the right thing."""

    run: Callable[[], Any] | None
    note: str
    wrong: bool = False


NONE = Best(None, "")


@dataclass(frozen=True)
class Row:
    """What was measured of a case; rates in its unit, None where a peer has none."""

    case: str
    unit: str
    rates: dict[str, float | None]
    notes: dict[str, str]

    def ratio(self, peer: str) -> float | None:
        mine, its = self.rates["tile"], self.rates[peer]
        return None if mine is None or its is None else mine / its

    def cells(self) -> list[str]:
        rates = (_spell(self.rates[peer], 1) for peer in PEERS)
        ratios = (_spell(self.ratio(peer), 2) for peer in ("triton", "torch"))
        return [self.case, self.unit, *rates, *ratios, self.notes["tile"], self.notes["triton"]]


def _spell(number: float | None, digits: int) -> str:
    return "" if number is None else f"{number:.{digits}f}"


def bench(function: Callable[[], Any], milliseconds: int = 100) -> float:
    """The median in seconds of calls for so long."""
    found = triton.testing.do_bench(
        function, warmup=milliseconds // 4, rep=milliseconds, return_mode="median"
    )
    return float(found) / 1e3


def best(case: Case, peer: str, wanted: list[torch.Tensor]) -> Best:
    """A peer's fastest choice of tiles, among those whose results are right."""
    found: list[Best] = []
    for tiles in case.choices:
        try:
            function = case.run(KERNELS[peer], tiles)
            for result in case.results:
                result.zero_()
            function()
            torch.cuda.synchronize()
            error = greatest_error(case, wanted)
            if not error <= case.tolerance:
                return Best(None, f"WRONG by {error:.3g} with {tiles}", wrong=True)
        except REFUSALS as error:  # these tiles do not fit; others may
            print(f"  {peer}, {tiles}: {type(error).__name__}: {str(error).splitlines()[0][:90]}")
            continue
        found.append(Best(function, " ".join(map(str, tiles.values()))))
    times = in_turns([choice.run for choice in found if choice.run is not None], TRIALS, 8)
    return min(zip(times, found, strict=True), key=lambda pair: pair[0])[1] if found else NONE


def in_turns(functions: Sequence[Callable[[], Any]], turns: int, milliseconds: int) -> list[float]:
    """The mean in seconds of each function's turns, of so many milliseconds each."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(turns):
        for index in random.sample(range(len(functions)), len(functions)):
            times[index].append(bench(functions[index], milliseconds))
    return [statistics.fmean(each) for each in times]


def greatest_error(case: Case, wanted: list[torch.Tensor]) -> float:
    """The greatest error of all results, as a part of the greatest number."""
    errors = [
        ((result.float() - right.float()).abs().max() / right.float().abs().max()).item()
        for result, right in zip(case.results, wanted, strict=True)
    ]
    return max(errors) if all(error == error for error in errors) else float("nan")


def measure(case: Case) -> tuple[Row, bool]:
    """All peers on one case, and whether this project's result was right."""
    wanted = [result.clone() for result in case.torch()]
    found = {peer: best(case, peer, wanted) for peer in KERNELS}
    found["torch"] = Best(case.torch, "")
    runs = {peer: one.run for peer, one in found.items() if one.run is not None}
    times = dict(zip(runs, in_turns([*runs.values()], TURNS, 15), strict=True))
    rates = {peer: case.rate(times[peer]) if peer in times else None for peer in PEERS}
    row = Row(case.name, case.unit, rates, {peer: found[peer].note for peer in PEERS})
    return row, not found["tile"].wrong


def launches(peer: str) -> float:
    """Seconds of a launch of three pointers and two integers, in a tight loop."""
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
    """Seconds of one of PyTorch's own launches, in a tight loop."""
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
    """Launches a second, in thousands."""
    seconds = {"tile": launches("tile"), "triton": launches("triton"), "torch": torch_launches()}
    rates: dict[str, float | None] = {peer: 1e-3 / time for peer, time in seconds.items()}
    notes = {peer: f"{time * 1e6:.1f} us" for peer, time in seconds.items()}
    return Row("launch", "1000/s", rates, notes)


def copy_row() -> Row:
    """The device's own copy, of a GiB: what add of 2^27 is held against."""
    x = torch.empty(1 << 28, device="cuda")
    y = torch.empty_like(x)
    rate = 8 * x.numel() / bench(lambda: y.copy_(x)) / 1e9
    return Row("device copy", "GB/s", {"tile": None, "triton": None, "torch": rate}, EMPTY)


EMPTY = dict.fromkeys(PEERS, "")


def draw(rows: list[Row], folder: Path) -> Path:
    """Bars of this project's speed over each peer's."""
    pyplot = importlib.import_module("matplotlib.pyplot")
    rows = [row for row in rows if row.ratio("triton") or row.ratio("torch")]
    figure, axes = pyplot.subplots(figsize=(9, 1 + 0.3 * len(rows)), layout="constrained")
    for shift, peer in ((-0.2, "triton"), (0.2, "torch")):
        places = [index + shift for index in range(len(rows))]
        axes.barh(places, [row.ratio(peer) or 0 for row in rows], 0.38, label=f"over {peer}")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_yticks(range(len(rows)), [row.case for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel("speed over the peer's; 1 is level")
    axes.legend()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "gpu.png"
    figure.savefig(path, dpi=150)
    return path


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--case", default="", help="only cases whose name has this in it")
    parser.add_argument("--markdown", action="store_true", help="the table as Markdown")
    parser.add_argument("--csv", type=Path, help="a file for the table")
    parser.add_argument("--plot", type=Path, help="a folder for a plot; takes matplotlib")
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
