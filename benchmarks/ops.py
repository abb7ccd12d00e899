"""Benchmark `tile.ops` against PyTorch on a GPU, or NumPy on a CPU, in one process.

    python benchmarks/ops.py                       all problems
    python benchmarks/ops.py --case softmax        problems whose name contains `softmax`
    python benchmarks/ops.py --tune softmax        the fastest configuration of each problem
    python benchmarks/ops.py --markdown            tables as Markdown
    python benchmarks/ops.py --record docs/results/ops.json     the figures that docs/ops.md shows

The data is random, and every result is compared with the op's reference on the CPU (of some rows
where that would take minutes: the first problem of each op) or with PyTorch's result. Rates count
the memory that must be read and written, or the operations, not those that an implementation does.
Without a GPU the sizes are small and the backend is that of TILE_BACKEND. The exit status is 1 if
a result is wrong. `--tune` replaces the table of an op's file, one configuration at a time, and
prints the entries to write there.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import ops_cases
import ops_gradient_cases
import ops_image_cases
import ops_loss_cases
import ops_other_cases
import ops_selection_cases
from ops_cases import Problem
from ops_records import Records, machine_of

import tile
import tile.ops
from tile.errors import TileError
from tile.ops.core import reference
from tile.ops.core.tables import ANY, Table
from tile.testing import do_bench

TOLERANCE = 2e-2  # of the norm of the difference to that of the result, in float16

# The file of an op's table, its name there, and the configurations to try.
WARPS = tuple({"num_warps": warps} for warps in (2, 4, 8, 16))
SPACES: dict[str, tuple[str, str, int, tuple[dict[str, Any], ...]]] = {
    "softmax": (
        "tile.ops.rowwise.softmax",
        "TABLE",
        1,
        tuple({"ROWS": rows, **warps} for rows in (1, 2, 4) for warps in WARPS),
    ),
    "layer_norm": ("tile.ops.rowwise.row_norms", "TABLE", 1, WARPS),
    "rms_norm": ("tile.ops.rowwise.row_norms", "TABLE", 1, WARPS),
    "rms_norm_backward": ("tile.ops.rowwise.row_norms", "TABLE", 1, WARPS),
    "attention": (
        "tile.ops.sequence.attention",
        "TABLE",
        2,
        tuple(
            {"BLOCK_M": m, "BLOCK_N": n, "num_warps": warps, "num_stages": stages}
            for m, warps in ((64, 4), (128, 4), (128, 8))
            for n in (32, 64, 128)
            for stages in (2, 3)
        ),
    ),
    "matmul": (
        "tile.ops.linear.configurations",
        "SHORT",
        3,
        tuple(
            {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP": 8, "num_warps": w, "num_stages": s}
            for m, n, w in ((16, 32, 4), (16, 64, 4), (64, 64, 4), (64, 128, 4), (128, 256, 8))
            for k, s in ((64, 3), (64, 4), (128, 3))
        ),
    ),
}


class NumPy:
    """Arrays in host memory."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(0)

    def normal(self, *shape: int, dtype: str = "float16") -> Any:
        kind = getattr(ml_dtypes, dtype) if hasattr(ml_dtypes, dtype) else dtype
        return self._random.standard_normal(shape, np.float32).astype(kind)

    def integers(self, high: int, *shape: int, dtype: str = "int64") -> Any:
        return self._random.integers(0, high, shape).astype(dtype)


class Cuda:
    """Arrays of torch on a GPU."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        torch.manual_seed(0)

    def normal(self, *shape: int, dtype: str = "float16") -> Any:
        kind = getattr(self._torch, dtype)
        if "float8" in dtype:
            return self._torch.randn(*shape, device="cuda").to(kind)
        return self._torch.randn(*shape, device="cuda", dtype=kind)

    def integers(self, high: int, *shape: int, dtype: str = "int64") -> Any:
        kind = getattr(self._torch, dtype)
        return self._torch.randint(0, high, shape, device="cuda", dtype=kind)


CASES = (
    ops_cases,
    ops_image_cases,
    ops_other_cases,
    ops_loss_cases,
    ops_gradient_cases,
    ops_selection_cases,
)


@dataclass(frozen=True)
class Bench:
    """The library of arrays, the module torch or None, and the problems."""

    arrays: NumPy | Cuda
    torch: Any

    @classmethod
    def here(cls) -> Bench:
        try:
            torch = importlib.import_module("torch")
        except ImportError:
            return cls(NumPy(), None)
        return cls(Cuda(torch), torch) if torch.cuda.is_available() else cls(NumPy(), None)

    def problems(self, part: str) -> Iterator[Problem]:
        for cases in CASES:
            for problem in cases.on_cpu() if self.torch is None else cases.on_gpu():
                if part in problem.name:
                    yield problem

    def peer(self, problem: Problem, args: tuple[Any, ...]) -> Callable[[], Any] | None:
        """Return the other implementation: PyTorch's, or on a CPU the reference."""
        if self.torch is None:
            function = reference_of(problem.op)
            return lambda: function(*args, **problem.options)
        if problem.torch is None:
            return None
        function = problem.torch
        return lambda: function(self.torch, *args)


def reference_of(op: str) -> Callable[..., Any]:
    return reference.reference_of(getattr(tile.ops, op))


def on_host(value: Any) -> Any:
    """Return an array as NumPy's, in float64."""
    return np.asarray(value.double().cpu() if hasattr(value, "cpu") else value, np.float64)


def first(results: Any) -> Any:
    return results[0] if isinstance(results, tuple) else results


def error(actual: Any, expected: Any) -> float:
    """Return the norm of the difference over that of the expected."""
    actual, expected = on_host(first(actual)), on_host(first(expected))
    return float(np.linalg.norm(actual - expected) / max(np.linalg.norm(expected), 1e-30))


def milliseconds(function: Callable[[], Any], rep: float = 50) -> float:
    return float(do_bench(function, warmup=10, rep=rep, return_mode="median"))


def rate(problem: Problem, time: float) -> float:
    return problem.work / time / (1e6 if problem.unit == "GB/s" else 1e9)


def measure(bench: Bench, problem: Problem, records: Records | None) -> tuple[list[str], bool]:
    """Return the row of a problem, and whether its result is right; record it if it is."""
    args = problem.make(bench.arrays)

    def run() -> Any:
        return getattr(tile.ops, problem.op)(*args, **problem.options)

    other = bench.peer(problem, args)
    right, note = True, ""
    if other is not None and problem.op not in ("adamw",):
        apart = error(run(), other())
        right, note = apart <= TOLERANCE, f"{apart:.1e}"
    rates = [rate(problem, milliseconds(run))]
    if other is not None:
        rates.append(rate(problem, milliseconds(other)))
    if records is not None and right:
        records.add(problem.op, problem.label, problem.unit, problem.work, rates)
    cells = [f"{value:.1f}" for value in rates] + [""] * (2 - len(rates))
    ratio = f"{rates[0] / rates[1]:.2f}" if len(rates) == 2 else ""
    return [problem.name, problem.unit, *cells, ratio, note if right else f"WRONG {note}"], right


def tune(bench: Bench, problem: Problem) -> str:
    """Return the fastest configuration of a problem, as an entry of its table."""
    module_name, name, rank, space = SPACES[problem.op]
    module = importlib.import_module(module_name)
    table = getattr(module, name)
    args = problem.make(bench.arrays)
    times: list[tuple[float, dict[str, Any]]] = []
    try:
        for config in space:
            setattr(module, name, Table({(ANY,) * rank: config}, {}))
            getattr(tile.ops, problem.op).plans.clear()
            try:
                time = milliseconds(lambda: getattr(tile.ops, problem.op)(*args, **problem.options))
            except TileError:  # too many registers, or too much shared memory
                continue
            times.append((time, config))
    finally:
        setattr(module, name, table)
        getattr(tile.ops, problem.op).plans.clear()
    time, config = min(times, key=lambda item: item[0])
    return f"{problem.name}: {config}  # {rate(problem, time):.0f} {problem.unit}"


HEADER = ["problem", "unit", "tile", "peer", "to peer", "error"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--case", default="", help="part of the names of problems")
    parser.add_argument("--tune", metavar="OP", choices=SPACES, help="measure configurations")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write the figures to a file")
    options = parser.parse_args()
    bench = Bench.here()
    records = Records(options.record, machine_of(bench.torch)) if options.record else None
    if options.tune:
        for problem in bench.problems(""):
            if problem.op == options.tune:
                print(tune(bench, problem), flush=True)
        return 0
    wrong = 0
    if options.markdown:
        print(f"| {' | '.join(HEADER)} |\n|{' --- |' * len(HEADER)}")
    for problem in bench.problems(options.case):
        try:
            cells, right = measure(bench, problem, records)
        except Exception as failure:  # noqa: BLE001 - the other problems are measured all the same
            text = f"{type(failure).__name__}: {str(failure).splitlines()[0][:80]}"
            cells, right = [problem.name, problem.unit, "", "", "", text], False
        wrong += not right
        if options.markdown:
            print(f"| {' | '.join(cells)} |", flush=True)
        else:
            print(
                f"{cells[0]:<36}{cells[1]:<9}" + "".join(f"{c:>10}" for c in cells[2:]), flush=True
            )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
