"""Compare two versions of this project on an NVIDIA GPU, case by case.

    python benchmarks/compare_versions.py ../before            all cases of `gpu.py`
    python benchmarks/compare_versions.py ../before --case add --markdown
    python benchmarks/compare_versions.py ../before --tiles docs/results/gpu.md
    TILE_BACKEND=nvptx:sm_80 python benchmarks/compare_versions.py ../before    code for sm_80

Each version runs in a process of its own; only one of them uses the GPU at a time. Their samples
alternate in random order, since the card's clock depends on what ran just before. A sample is a
median of `do_bench`, which clears the L2 cache between calls; calls of less than 20 us are timed by
replaying a CUDA graph of 40 of them, which leaves out the time of launches. Both versions use the
choice of tiles that is fastest for the first one, or the one named in a table of `gpu.py`, and both
results are compared with PyTorch's.

The table has the ratio of speeds, the second version (this tree) to the first, as the geometric
mean of pairs of samples with its 95 % interval (Student's t). The exit status is 1 if a result is
wrong, if the geometric mean over all cases is under 0.995, or if an interval lies wholly under
0.98.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SAMPLES = 16
STUDENT_T = 2.131  # 97.5 % quantile for SAMPLES - 1 degrees of freedom
SHORT = 20e-6  # seconds; shorter calls are timed by CUDA graphs
LEAST_MEAN, LEAST_ROW = 0.995, 0.98


class Worker:
    """A process that runs the cases with one version of the project."""

    def __init__(self, root: Path) -> None:
        self.root = root
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")]),
            "TILE_PEER": "tile",
        }
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--serve", str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def ask(self, **request: Any) -> dict[str, Any]:
        """Return the answer to a request. Raises RuntimeError if the process has ended."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the process of {self.root} ended at {request}")
        return dict(json.loads(answer))


@dataclass(frozen=True)
class Row:
    """The comparison of one case: seconds of both versions, and the ratio of speeds."""

    case: str
    seconds: tuple[float, float]
    low: float
    ratio: float
    high: float
    tiles: str
    how: str

    @classmethod
    def of(cls, case: str, times: Sequence[Sequence[float]], tiles: str, how: str) -> Row:
        """Return the row of a case from pairs of samples."""
        logs = [math.log(first / second) for first, second in zip(*times, strict=True)]
        mean = statistics.fmean(logs)
        margin = STUDENT_T * statistics.stdev(logs) / math.sqrt(len(logs))
        medians = (statistics.median(times[0]), statistics.median(times[1]))
        low, ratio, high = (math.exp(mean + sign * margin) for sign in (-1, 0, 1))
        return cls(case, medians, low, ratio, high, tiles, how)

    def cells(self) -> list[str]:
        return [
            self.case,
            *(f"{seconds * 1e6:.1f}" for seconds in self.seconds),
            f"{self.ratio:.3f}",
            f"{self.low:.3f} to {self.high:.3f}",
            self.tiles,
            self.how,
        ]


HEADER = ["case", "before, us", "after, us", "ratio", "95 % interval", "tiles", "timed by"]


def compare(case: str, workers: Sequence[Worker], tiles: str) -> Row | str:
    """Compare the versions on a case; return what went wrong if a version cannot run it."""
    answers = [workers[0].ask(case=case, tiles=tiles)]
    answers.append(workers[1].ask(case=case, tiles=answers[0].get("tiles", tiles)))
    for worker, answer in zip(workers, answers, strict=True):
        if "error" in answer:
            return f"{case}: {worker.root}: {answer['error']}"
    short = all(answer["seconds"] < SHORT for answer in answers)
    times: list[list[float]] = [[], []]
    for _ in range(SAMPLES):
        for index in random.sample((0, 1), 2):
            times[index].append(workers[index].ask(sample=15, short=short)["seconds"])
    return Row.of(case, times, answers[0]["tiles"], "graph" if short else "events")


def read_tiles(path: Path) -> dict[str, str]:
    """Return the tiles of each case in a table that `gpu.py --markdown` printed."""
    rows = [
        [cell.strip() for cell in line.strip().strip("|").split("|")]
        for line in path.read_text().splitlines()
        if line.startswith("|")
    ]
    header = next(row for row in rows if "tiles" in row)
    column = header.index("tiles")
    return {row[0]: row[column] for row in rows if len(row) == len(header)}


# -- the process of one version


def serve(root: Path) -> None:
    """Answer requests from standard input until it ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what kernels and compilers print is no answer
    import torch
    from gpu import KERNELS, greatest_error
    from gpu_cases import makers
    from gpu_timing import Graph, bench

    import tile
    from tile.errors import TileError

    assert Path(tile.__file__).is_relative_to(root), tile.__file__
    cases = dict(makers())
    current: dict[bool, Callable[[], float]] = {}

    def checked(case: Any, tiles: dict[str, int], expected: Sequence[Any]) -> Callable[[], Any]:
        function = case.run(KERNELS["tile"], tiles)
        for result in case.results:
            result.zero_()
        function()
        torch.cuda.synchronize()
        error = greatest_error(case, expected)
        if not error <= case.tolerance:
            raise ArithmeticError(f"wrong by {error:.3g}")
        return function

    def prepare(name: str, wanted: str) -> dict[str, Any]:
        torch.cuda.empty_cache()
        case = cases[name](name)
        expected = [result.clone() for result in case.torch()]
        named = {" ".join(map(str, tiles.values())): tiles for tiles in case.choices}
        if wanted in named:
            named = {wanted: named[wanted]}
        runs: dict[str, Callable[[], Any]] = {}
        errors: list[str] = []
        for text, tiles in named.items():
            try:
                runs[text] = checked(case, tiles, expected)
            except (TileError, ArithmeticError) as error:
                errors.append(str(error).splitlines()[0])
        if not runs:
            return {"error": "; ".join(errors)}
        seconds = {text: bench(run, 10) for text, run in runs.items()}
        fastest = min(seconds, key=seconds.__getitem__)
        run = runs[fastest]
        current[False] = lambda: bench(run, 15)
        current[True] = Graph([run], 15) if seconds[fastest] < 2 * SHORT else current[False]
        return {"tiles": fastest, "seconds": current[True]()}

    for line in sys.stdin:
        request = json.loads(line)
        if "case" in request:
            answer = prepare(request["case"], request["tiles"])
        else:
            answer = {"seconds": current[request["short"]]()}
        torch.cuda.synchronize()
        print(json.dumps(answer), file=answers, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path, nargs="?", help="the root of the other version's tree")
    parser.add_argument("--case", default="", help="only cases whose name contains this")
    parser.add_argument("--tiles", type=Path, help="a table of gpu.py that names the tiles")
    parser.add_argument("--markdown", action="store_true", help="also print a table as Markdown")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return 0
    if options.before is None:
        parser.error("the root of the other version's tree is missing")
    from gpu_cases import makers

    workers = [Worker(options.before.resolve()), Worker(HERE.parent)]
    tiles = read_tiles(options.tiles) if options.tiles else {}
    rows: list[Row] = []
    failures: list[str] = []
    for name in (name for name, _ in makers() if options.case in name):
        outcome = compare(name, workers, tiles.get(name, ""))
        if isinstance(outcome, Row):
            rows.append(outcome)
            print("  ".join(outcome.cells()), flush=True)
        else:
            failures.append(outcome)
            print(outcome, flush=True)
    if options.markdown:
        table = [HEADER, ["---"] * len(HEADER), *(row.cells() for row in rows)]
        print("\n".join(f"| {' | '.join(cells)} |" for cells in table))
    mean = statistics.geometric_mean([row.ratio for row in rows])
    slower = [row.case for row in rows if row.high < LEAST_ROW]
    print(f"geometric mean of {len(rows)} cases: {mean:.4f}; slower: {', '.join(slower) or 'none'}")
    return int(bool(failures) or bool(slower) or mean < LEAST_MEAN)


if __name__ == "__main__":
    sys.exit(main())
