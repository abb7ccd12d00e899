"""Time the interpreter against Triton's interpreter and NumPy, and as grids grow.

    python benchmarks/interp.py                  all cases; installs Triton the first time
    python benchmarks/interp.py --case matmul    cases whose name contains `matmul`
    python benchmarks/interp.py --no-peer        without Triton
    python benchmarks/interp.py --grid           time and memory for grids of up to 2^22 programs
    python benchmarks/interp.py --checks         the cost of checks, each alone and all together
    python benchmarks/interp.py --markdown       the table as Markdown; --json: all numbers

Times are CPU seconds of all threads, since both interpreters compute on one core, and other work
on a machine delays short launches more than long ones. Every result is compared with NumPy's in
float64 in the run that is timed. Bounds are always checked. The exit status is 1 if a result is
wrong, a grid takes 2 GiB, or all checks together take more than `MOST_CHECKED` times as long as
none.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import math
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from peer_cases import CASES
from peer_kernels import Prepared, compiler, jit, tl
from peer_triton import DEFAULT_ROOT, SEED, measure_peer

# A time is the median of at least this many launches after the first, for at least this many
# seconds.
LEAST_REPEATS = 5
REPEAT_SECONDS = 1.0


@dataclass(frozen=True)
class Measurement:
    """One case: CPU seconds of a launch, None if not measured."""

    case: str
    first_s: float
    """The first launch, which compiles."""
    tile_s: float
    max_error: float
    triton_s: float | None
    numpy_s: float | None
    """Plain NumPy that gathers and scatters through the same indices."""

    @property
    def ratio(self) -> float | None:
        """Return the speedup over Triton's interpreter."""
        return None if self.triton_s is None else self.triton_s / self.tile_s

    @property
    def numpy_ratio(self) -> float | None:
        """Return the slowdown compared with NumPy."""
        return None if self.numpy_s is None else self.tile_s / self.numpy_s


def seconds(function: Callable[[], object]) -> float:
    """Return the CPU seconds of one call, to which other processes add little."""
    start = time.process_time()
    function()
    return time.process_time() - start


def median_seconds(function: Callable[[], object]) -> float:
    """Return the median seconds of repeated calls."""
    times: list[float] = []
    while len(times) < LEAST_REPEATS or sum(times) < REPEAT_SECONDS:
        times.append(seconds(function))
    return statistics.median(times)


def checked_error(title: str, prepared: Prepared, tolerance: float) -> float:
    """Return the largest error of the last result; exit if it exceeds the tolerance."""
    error = float(np.abs(prepared.output() - prepared.reference()).max())
    if not error <= tolerance:
        raise SystemExit(f"{title}: off by {error:.1e}, more than {tolerance:.1e}")
    return error


def measure(name: str, triton_s: float | None) -> Measurement:
    """Time the case `name`, and a plain NumPy version if there is one."""
    case = CASES[name]
    prepared = case.prepare(np.random.default_rng(SEED))
    first = seconds(prepared.launch)
    repeated = median_seconds(prepared.launch)
    error = checked_error(name, prepared, case.tolerance)
    numpy_s = None
    family = name.partition(" ")[0]
    if family in PLAIN:
        plain = PLAIN[family](np.random.default_rng(SEED), **case.sizes)
        numpy_s = median_seconds(plain.launch)
        checked_error(f"{name} in NumPy", plain, case.tolerance)
    return Measurement(name, first, repeated, error, triton_s, numpy_s)


# Plain NumPy: a row of indices for each program, a mask, gathers with checked bounds, the same
# arithmetic, and a scatter.


def plain_add(rng: np.random.Generator, n: int, block: int) -> Prepared:
    """Vector addition."""
    x, y = rng.standard_normal(n, np.float32), rng.standard_normal(n, np.float32)
    out = np.zeros(n, np.float32)

    def run() -> None:
        index = np.arange(-(-n // block))[:, None] * block + np.arange(block)
        inside = index < n
        safe = np.where(inside, index, 0)
        total = np.take(x, safe) + np.take(y, safe)
        out[index[inside]] = total[inside]

    return Prepared(run, out, lambda: x.astype(np.float64) + y)


def plain_softmax(rng: np.random.Generator, rows: int, columns: int) -> Prepared:
    """Softmax of each row, padded to a power of two."""
    x = rng.standard_normal((rows, columns), np.float32)
    flat, out = x.reshape(-1), np.zeros(rows * columns, np.float32)
    block = 1 << (columns - 1).bit_length()

    def run() -> None:
        column = np.arange(block)
        index = np.arange(rows)[:, None] * columns + column
        inside = np.broadcast_to(column < columns, index.shape)
        gathered = np.take(flat, np.where(inside, index, 0))
        values = np.where(inside, gathered, np.float32(-np.inf))
        powers = np.exp(values - values.max(axis=1, keepdims=True))
        result = powers / powers.sum(axis=1, keepdims=True)
        out[index[inside]] = result[inside]

    def reference() -> np.ndarray:
        powers = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
        return (powers / powers.sum(axis=1, keepdims=True)).reshape(-1)

    return Prepared(run, out, reference)


PLAIN: dict[str, Callable[..., Prepared]] = {"add": plain_add, "softmax": plain_softmax}


# The cost of checks: the same launches, interleaved over the sets of checks.

CHECKS = ("none", "bounds", "race", "undef", "overflow", "assume", "all")
MOST_CHECKED = 6.0


@dataclass(frozen=True)
class Checked:
    """One case: median seconds of a launch under each of `CHECKS`."""

    case: str
    seconds: dict[str, float]

    def ratio(self, checks: str) -> float:
        """Return the time of a launch relative to one without checks."""
        return self.seconds[checks] / self.seconds["none"]


def measure_checks(name: str) -> Checked:
    """Time the case `name` under each set of checks."""
    prepared = CASES[name].prepare(np.random.default_rng(SEED))
    times: dict[str, list[float]] = {checks: [] for checks in CHECKS}
    spent = 0.0
    while len(times["all"]) <= LEAST_REPEATS or spent < REPEAT_SECONDS * len(CHECKS):
        for checks, samples in times.items():
            with compiler.sanitize(checks):
                samples.append(seconds(prepared.launch))
            spent += samples[-1]
            checked_error(f"{name} under {checks}", prepared, CASES[name].tolerance)
    return Checked(name, {checks: statistics.median(s[1:]) for checks, s in times.items()})


def checks_rows(checked: Sequence[Checked]) -> list[list[str]]:
    """Return the header and lines of the table of checks."""
    lines = [
        [c.case, f"{c.seconds['none']:.5f}", *(f"{c.ratio(checks):.2f}" for checks in CHECKS[1:])]
        for c in checked
    ]
    means = [f"{mean_ratio(checked, checks):.2f}" for checks in CHECKS[1:]]
    return [["case", "none s", *CHECKS[1:]], *lines, ["geometric mean", "", *means]]


def mean_ratio(checked: Sequence[Checked], checks: str) -> float:
    """Return the geometric mean of the relative times."""
    return statistics.geometric_mean(c.ratio(checks) for c in checked)


# Growth of time and memory with the grid. On the largest grid, the values of all programs together
# would take 1 GiB for each operation of the kernel; the arrays take 17 MiB.

GRIDS = tuple(1 << exponent for exponent in range(14, 23, 2))
GRID_BLOCK = 64
GRID_TABLE = 1 << 18
GRID_REPEATS = 3
MEMORY_LIMIT = 2 << 30


@jit
def grid_kernel(x_ptr, out_ptr, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    index = (pid * BLOCK + tl.arange(0, BLOCK)) % SIZE
    x = tl.load(x_ptr + index)
    tl.store(out_ptr + pid, tl.sum(x * x, axis=0))


@dataclass(frozen=True)
class Growth:
    """A launch of `grid_kernel`: programs, seconds, and the peak memory of its process in bytes."""

    programs: int
    seconds: float
    peak_bytes: int


def grow_here(programs: int) -> Growth:
    """Launch on a grid of `programs` in this process, which should be new."""
    x = np.random.default_rng(SEED).standard_normal(GRID_TABLE, np.float32)
    out = np.zeros(programs, np.float32)
    sizes = {"SIZE": GRID_TABLE, "BLOCK": GRID_BLOCK}
    grid_kernel[(1,)](x, out, **sizes)
    median = statistics.median(
        seconds(lambda: grid_kernel[(programs,)](x, out, **sizes)) for _ in range(GRID_REPEATS)
    )
    # `ru_maxrss` is in KiB on Linux, in bytes on macOS.
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    blocks = (x.astype(np.float64) ** 2).reshape(-1, GRID_BLOCK).sum(axis=1)
    error = np.abs(out - blocks[np.arange(programs) % len(blocks)]).max()
    if not error <= 1e-4:
        raise SystemExit(f"grid of {programs}: off by {error:.1e}")
    return Growth(programs, median, peak)


def grow(programs: int) -> Growth:
    """Launch on a grid of `programs` in a new process."""
    command = [sys.executable, __file__, "--grid-here", str(programs)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return Growth(**json.loads(done.stdout))


# Tables


def machine() -> str:
    """Return the processor, the versions of the software, and the date."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        line = re.search(r"^model name\s*: (.+)$", info.read_text(encoding="utf-8"), re.MULTILINE)
        model = line[1] if line else model
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}"
    today = datetime.date.today().isoformat()
    return f"{model}, {os.cpu_count()} cores, {platform.system()}, {versions}, {today}"


def number(value: float | None, form: str) -> str:
    """Return a cell of a table."""
    return "" if value is None else format(value, form)


def case_rows(measured: Sequence[Measurement]) -> list[list[str]]:
    """Return the header and lines of the table of cases."""
    header = ["case", "Triton s", "tile s", "ratio", "NumPy s", "to NumPy", "max error"]
    lines = [
        [
            m.case,
            number(m.triton_s, ".3f"),
            number(m.tile_s, ".5f"),
            number(m.ratio, ".0f"),
            number(m.numpy_s, ".5f"),
            number(m.numpy_ratio, ".2f"),
            number(m.max_error, ".1e"),
        ]
        for m in measured
    ]
    return [header, *lines]


def grid_rows(grown: Sequence[Growth]) -> list[list[str]]:
    """Return the header and lines of the table of grids."""
    lines = [
        [
            f"2^{g.programs.bit_length() - 1}",
            f"{g.seconds:.4f}",
            f"{g.seconds / g.programs * 1e6:.3f}",
            f"{g.peak_bytes / 2**20:.0f}",
        ]
        for g in grown
    ]
    return [["programs", "seconds", "µs a program", "peak MiB"], *lines]


def text_table(rows: Sequence[Sequence[str]]) -> str:
    """Format a table; the first column is left-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    aligned = [[cell.rjust(width) for cell, width in zip(row, widths, strict=True)] for row in rows]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *cells[1:]])
        for row, cells in zip(rows, aligned, strict=True)
    )


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """Format a table as Markdown."""
    header, *lines = rows
    alignment = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, alignment, *lines))


def ratios_line(measured: Sequence[Measurement]) -> str:
    """Return the ratios in one line; "" if Triton was not measured."""
    ratios = [m.ratio for m in measured if m.ratio is not None]
    if not ratios:
        return ""
    mean = statistics.geometric_mean(ratios)
    return (
        f"{mean:.0f} times as fast as Triton's interpreter (geometric mean), "
        f"at least {min(ratios):.0f} times."
    )


def linearity_line(grown: Sequence[Growth]) -> str:
    """Return a line on the growth of time from the smallest to the largest grid."""
    first, last = grown[0], grown[-1]
    exponent = math.log(last.seconds / first.seconds) / math.log(last.programs / first.programs)
    return (
        f"Time grows as programs^{exponent:.2f}; peak memory is {last.peak_bytes / 2**20:.0f} MiB."
    )


def report(
    measured: Sequence[Measurement],
    grown: Sequence[Growth],
    checked: Sequence[Checked],
    table: Callable[..., str],
) -> str:
    """Return all measurements as text."""
    parts = [machine()]
    if checked:
        parts += [table(checks_rows(checked))]
    if measured:
        parts += [table(case_rows(measured)), ratios_line(measured)]
    if grown:
        parts += [table(grid_rows(grown)), linearity_line(grown)]
    return "\n\n".join(filter(None, parts))


def as_json(
    measured: Sequence[Measurement], grown: Sequence[Growth], checked: Sequence[Checked]
) -> dict[str, Any]:
    """Return all measurements as JSON data."""
    return {
        "machine": machine(),
        "cases": [
            {**dataclasses.asdict(m), "ratio": m.ratio, "numpy_ratio": m.numpy_ratio}
            for m in measured
        ],
        "grids": [dataclasses.asdict(g) for g in grown],
        "checks": [dataclasses.asdict(c) for c in checked],
    }


def chosen_cases(parts: Sequence[str]) -> list[str]:
    """Return the cases whose names contain one of `parts`; all cases if `parts` is empty."""
    for part in parts:
        if not any(part in name for name in CASES):
            raise SystemExit(f"no case has {part!r} in its name; there are {', '.join(CASES)}")
    return [name for name in CASES if not parts or any(part in name for part in parts)]


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="time the interpreter on real kernels")
    parser.add_argument("--case", action="append", default=[], help="part of a case's name")
    parser.add_argument("--no-peer", action="store_true", help="leave Triton out")
    parser.add_argument(
        "--peer-root", type=Path, default=DEFAULT_ROOT, help="folder to install Triton in"
    )
    parser.add_argument("--grid", action="store_true", help="measure growing grids instead")
    parser.add_argument("--checks", action="store_true", help="measure the cost of checks instead")
    parser.add_argument("--grid-here", type=int, metavar="PROGRAMS", help=argparse.SUPPRESS)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--markdown", action="store_true", help="print Markdown")
    options = parser.parse_args()
    if options.grid_here:
        print(json.dumps(dataclasses.asdict(grow_here(options.grid_here))))
        return 0

    measured: list[Measurement] = []
    grown: list[Growth] = []
    checked: list[Checked] = []
    if options.checks:
        checked = [measure_checks(name) for name in chosen_cases(options.case)]
    elif options.grid:
        grown = [grow(programs) for programs in GRIDS]
    else:
        for name in chosen_cases(options.case):
            # Measure both case by case, so that the machine is in about the same state for both.
            peer = {} if options.no_peer else measure_peer([name], options.peer_root)
            measured.append(measure(name, peer.get(name, {}).get("seconds")))

    if options.json:
        print(json.dumps(as_json(measured, grown, checked), indent=2))
    else:
        table = markdown_table if options.markdown else text_table
        print(report(measured, grown, checked, table))
    too_much = [g for g in grown if g.peak_bytes >= MEMORY_LIMIT]
    for g in too_much:
        print(f"a grid of {g.programs} took {g.peak_bytes / 2**30:.1f} GiB", file=sys.stderr)
    slow = bool(checked) and mean_ratio(checked, "all") > MOST_CHECKED
    return int(bool(too_much) or slow)


if __name__ == "__main__":
    sys.exit(main())
