"""Compare tile with Triton on an NVIDIA GPU, as the compiler of libraries from PyPI.

    python benchmarks/libraries.py                       all cases of library_cases.py
    python benchmarks/libraries.py --case liger          cases whose name contains `liger`
    python benchmarks/libraries.py --markdown            also print the tables as Markdown
    python benchmarks/libraries.py --json results.json   also write all measurements, case by case
    python benchmarks/libraries.py --show results.json   only print the tables of such a file

The libraries are unmodified: liger-kernel 0.8.5, fla-core 0.6.0 and FlagGems 5.0.2, of which pip
must install none of the requirements, as Triton is there. In one process `import triton` is Triton,
in another it is tile, which reports the same version. Both have empty caches, and run alternately
on one GPU. Each compares an operator's first results with PyTorch's. Then both are sampled once in
each pair, in random order: the GPU's time by CUDA events around the replay of a graph of calls (or
of calls, if the operator cannot be captured), and the host's time until a call returns, the median
of 20 calls after three that are not timed. The table has medians; the ratio is that of pairs, with
its 95 % interval by order statistics. At last, two new processes time first calls with the caches
of the former.

FLA's alternatives to its kernels, in Gluon and TileLang, are turned off. Autotuners with more
configurations than `--configs` try so many of them, the same in both processes. The exit status is
1 if a result of tile is wrong or missing.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from intervals import interval

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from library_cases import CASES, Case, Data  # noqa: E402
from library_worker import Error, First, Sample, Worker, serve  # noqa: E402

from tests.libraries.worker_process import Ended, WorkerProcess  # noqa: E402

PEERS = ("triton", "tile")
HEADER = (
    "library",
    "operator",
    "operands",
    "Triton, us",
    "tile, us",
    "speed (95 %)",
    "host, us: Triton, tile",
    "first call, s",
    "cached, s",
)
MEAN = "geometric mean of the ratios"
PENDING = "the time was over"
CACHED_SHARE = 0.25  # of the time, for new processes with caches


class Failure(Exception):  # noqa: N818 - not an error of this program
    """A request that failed: by an exception in the process, by its end or by the time limit."""


@dataclass
class Peer:
    """A compiler by name, and the process that runs cases with it."""

    name: str
    worker: WorkerProcess

    def send(self, *request: Any) -> None:
        """Send a request to the process, which is started if there is none."""
        if self.worker.process is None:
            self.worker.start()
        self.worker.send(request)

    def receive(self, limit: float) -> Any:
        """Return the answer; raises `Failure` if there is none in `limit` seconds, or an error."""
        try:
            answer = self.worker.receive(limit)
        except Ended as error:
            raise Failure(str(error)) from None
        if isinstance(answer, Error):
            if answer.fatal:
                self.stop()
            raise Failure(answer.text)
        return answer

    def ask(self, limit: float, *request: Any) -> Any:
        """Send a request, and return the answer."""
        self.send(*request)
        return self.receive(limit)

    def stop(self) -> None:
        """End the process."""
        self.worker.stop()


@dataclass
class Row:
    """The measurements of a case, by peer.

    gpu, host: seconds of samples, in pairs; cold, cached: of first calls; errors: what failed.
    """

    key: str
    gpu: dict[str, list[float]] = field(default_factory=dict)
    host: dict[str, list[float]] = field(default_factory=dict)
    cold: dict[str, float] = field(default_factory=dict)
    cached: dict[str, float] = field(default_factory=dict)
    method: dict[str, str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    deviation: dict[str, float] = field(default_factory=dict)

    def speeds(self) -> list[float]:
        """Return Triton's time over tile's of each pair, on the GPU."""
        if not all(self.gpu.get(peer) for peer in PEERS):
            return []
        return [a / b for a, b in zip(*(self.gpu[peer] for peer in PEERS), strict=True)]

    def medians(self, kind: str) -> tuple[float, float] | None:
        """Return the medians of a kind of time, of Triton and of tile; None without both."""
        values = getattr(self, kind)
        if not all(peer in values for peer in PEERS):
            return None
        triton, tile = (
            statistics.median(x) if isinstance(x, list) else x
            for x in (values[peer] for peer in PEERS)
        )
        return triton, tile

    def cells(self, case: Case) -> list[str]:
        """Return the row's cells of the table."""
        gpu = self.medians("gpu")
        times = ["", ""] if gpu is None else [f"{seconds * 1e6:.1f}" for seconds in gpu]
        if gpu is not None and "events" in self.method.values():
            times = [f"{text}\\*" for text in times]
        speed = ""
        if ratios := self.speeds():
            low, high = interval(ratios)
            speed = f"{statistics.median(ratios):.2f} ({low:.2f} to {high:.2f})"
        others = [
            _pair(self.medians(kind), scale, digits)
            for kind, scale, digits in (("host", 1e6, 0), ("cold", 1, 2), ("cached", 1, 2))
        ]
        return [case.library, case.name, case.operands, *times, speed, *others]


def _pair(times: tuple[float, float] | None, scale: float, digits: int) -> str:
    return "" if times is None else ", ".join(f"{scale * x:.{digits}f}" for x in times)


@dataclass(frozen=True)
class Limits:
    """Limits of a first call and of another request in seconds, and the time of the end."""

    first: float
    other: float
    end: float

    def over(self) -> bool:
        """Return True if no other case should begin."""
        return time.monotonic() > self.end


def measure(case: Case, peers: Sequence[Peer], pairs: int, limits: Limits) -> Row:
    """Compare the peers on one case, each in its process."""
    row = Row(case.key)
    for peer in peers:
        try:
            first: First = peer.ask(limits.first, "first", case.key, True)
            row.deviation[peer.name] = first.error
            if not first.right:
                raise Failure(f"WRONG: off by {first.error:.3g}, tolerance {first.tolerance:g}")
            row.cold[peer.name] = first.seconds
            row.method[peer.name] = peer.ask(limits.other, "prepare")
        except Failure as failure:
            row.errors[peer.name] = str(failure)
    if not row.errors:
        try:
            sample_pairs(row, peers, pairs, limits)
        except Failure as failure:
            row.errors["samples"] = str(failure)
    for peer in peers:
        if peer.worker.process is not None:
            with suppress(Failure):
                peer.ask(limits.other, "close")
    return row


def sample_pairs(row: Row, peers: Sequence[Peer], pairs: int, limits: Limits) -> None:
    """Sample each peer once in each pair, in random order."""
    times: dict[str, list[Sample]] = {peer.name: [] for peer in peers}
    for _ in range(pairs):
        for peer in random.sample(peers, len(peers)):
            times[peer.name].append(peer.ask(limits.other, "sample"))
    for name, samples in times.items():
        row.gpu[name] = [sample.gpu for sample in samples]
        row.host[name] = [sample.host for sample in samples]


def time_cached(rows: Sequence[Row], peers: Sequence[Peer], limits: Limits) -> None:
    """Time first calls of what ran well in new processes, with caches on disk."""
    for row in rows:
        if row.errors or limits.over():
            continue
        for peer in peers:
            with suppress(Failure):
                first: First = peer.ask(limits.first, "first", row.key, False)
                row.cached[peer.name] = first.seconds


@contextmanager
def started(peers: Sequence[Peer], limits: Limits) -> Iterator[dict[str, dict[str, Any]]]:
    """Start the peers' processes, at the same time, and give what they say; end them.

    Raises `Failure` if one does not start, or has the wrong compiler.
    """
    try:
        for peer in peers:
            peer.send("hello")
        hellos = {peer.name: peer.receive(limits.first) for peer in peers}
        for peer in peers:
            if hellos[peer.name]["compiler"] != peer.name:
                raise Failure(f"the process of {peer.name} has {hellos[peer.name]['compiler']}")
            hellos[peer.name]["first kernel"] = peer.ask(limits.first, "warm_up")
        yield hellos
    finally:
        for peer in peers:
            peer.stop()


def make_peers(options: argparse.Namespace, folder: Path) -> list[Peer]:
    """Return the peers, whose caches and logs are in a folder."""
    arguments = [
        str(Path(__file__).resolve()),
        *("--device", options.device, "--divisor", str(options.divisor)),
        *("--configs", str(options.configs)),
    ]
    programs = {
        "triton": [sys.executable, *arguments],
        "tile": [sys.executable, "-m", "tile", "triton", "--version", options.version, *arguments],
    }
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return [
        Peer(
            name,
            WorkerProcess(
                programs[name],
                {
                    "PYTHONPATH": path,
                    "FLA_DISABLE_BACKEND_DISPATCH": "1",
                    "GEMS_VENDOR": "nvidia",  # or it starts the tools of other vendors to find out
                    "FLAGGEMS_CACHE_DIR": f"{folder}/{name}/flag_gems",
                    "TILE_CACHE_DIR": f"{folder}/{name}/tile",
                    "TRITON_CACHE_DIR": f"{folder}/{name}/triton",
                    "CUDA_CACHE_PATH": f"{folder}/{name}/cuda",
                },
                folder / f"{name}.log",
                keep_log=True,
            ),
        )
        for name in options.peers
    ]


def compare(options: argparse.Namespace) -> dict[str, Any]:
    """Run the comparison, and return all measurements, as JSON data."""
    now = time.monotonic()
    limits = Limits(options.limit, 60.0, now + 60 * options.minutes)
    before = replace(limits, end=now + 60 * options.minutes * (1 - CACHED_SHARE))
    chosen = [case for case in CASES if options.case in case.key]
    results: dict[str, Any] = {"rows": [], "peers": {}}
    rows: list[Row] = []

    def write() -> None:
        results["rows"] = [asdict(row) for row in rows]
        if options.json is not None:
            options.json.write_text(json.dumps(results), "utf-8")

    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        peers = make_peers(options, folder)
        with started(peers, limits) as hellos:
            results["peers"] = hellos
            print(*hellos.values(), sep="\n", file=sys.stderr, flush=True)
            for case in chosen:
                if before.over():
                    rows.append(Row(case.key, errors={"both": PENDING}))
                    continue
                rows.append(measure(case, peers, options.pairs, before))
                write()
                seconds = time.monotonic() - now
                print(f"{seconds:4.0f} s", progress(rows[-1]), file=sys.stderr, flush=True)
        if not limits.over():
            with started(peers, limits) as hellos:
                results["cached"] = hellos
                time_cached(rows, peers, limits)
        write()
    return results


def progress(row: Row) -> str:
    """Return a line about a row."""
    ratios = row.speeds()
    speed = f"{statistics.median(ratios):.2f}" if ratios else "no ratio"
    cold = "".join(f" {name} {seconds:.1f}" for name, seconds in row.cold.items())
    errors = "".join(f"; {name}: {text}" for name, text in row.errors.items())
    return f"{row.key}: {speed}; first{cold}{errors}"


def mean_row(rows: Sequence[Row], library: str) -> list[str]:
    """Return the geometric means of the ratios, of tile's speed to Triton's for each kind."""
    cells = ["", "", ""]
    for kind in ("gpu", "host", "cold", "cached"):
        pairs = [pair for row in rows if (pair := row.medians(kind)) is not None]
        if kind == "gpu":
            ratios = [statistics.median(row.speeds()) for row in rows if row.speeds()]
        else:
            ratios = [triton / tile for triton, tile in pairs]
        if ratios:
            mean = math.exp(statistics.fmean(map(math.log, ratios)))
            cells.append(f"{mean:.2f}" + f" of {len(ratios)}" * (kind == "gpu"))
        else:
            cells.append("")
    return [library, MEAN, *cells[1:3], cells[0], *cells[3:]]


def tables(results: Mapping[str, Any]) -> list[list[list[str]]]:
    """Return the tables: of the measurements, of the processes, and of what failed, if any."""
    cases = {case.key: case for case in CASES}
    rows = [Row(**row) for row in results["rows"]]
    body = [row.cells(cases[row.key]) for row in rows if not row.errors]
    libraries = dict.fromkeys(case.library for case in CASES)
    for library in libraries:
        if own := [row for row in rows if row.key.startswith(f"{library}.") and row.speeds()]:
            body.append(mean_row(own, library))
    body.append(mean_row([row for row in rows if row.speeds()], "all"))
    peers = [
        [
            name,
            hello["triton"],
            hello["torch"],
            hello["device"],
            f"{hello['first kernel']:.2f}",
            f"{results.get('cached', {}).get(name, {}).get('first kernel', math.nan):.2f}",
        ]
        for name, hello in results["peers"].items()
    ]
    failed = [[row.key, name, text] for row in rows for name, text in row.errors.items()]
    return [
        [list(HEADER), *body],
        [["compiler", "as Triton", "torch", "device", "first kernel, s", "cached, s"], *peers],
        *([[["operator", "compiler", "failure"], *failed]] if failed else []),
    ]


def show(table: Sequence[Sequence[str]], markdown: bool) -> str:
    """Return a table as text."""
    if not markdown:
        return "\n".join("  ".join(row) for row in table)
    lines = [table[0], ["---"] * len(table[0]), *table[1:]]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
    )


def parse() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--markdown", action="store_true", help="the tables as Markdown")
    parser.add_argument("--configs", type=int, default=12, help="of an autotuner; 0: all (12)")
    option = parser.add_argument
    option("--case", default="", help="only cases whose name contains this")
    option("--pairs", type=int, default=21, help="of samples (%(default)s)")
    option("--minutes", type=float, default=60.0, help="no case begins after these (%(default)s)")
    option("--limit", type=float, default=120.0, help="seconds of a first call (%(default)s)")
    option("--version", default="3.6.0", help="of Triton that tile reports (%(default)s)")
    option("--json", type=Path, help="a file for all measurements")
    option("--show", type=Path, help="a file of measurements, whose tables are printed")
    option("--folder", type=Path, help="for caches and logs of the processes")
    option("--worker", type=int, help=argparse.SUPPRESS)
    trial = parser.add_argument_group("a trial of this program without a GPU").add_argument
    trial("--device", default="cuda", help="cuda or cpu")
    trial("--divisor", type=int, default=1, help="of the numbers of rows")
    trial("--peers", nargs="+", default=PEERS, help="compilers")
    return parser.parse_args()


def main() -> int:
    """Run the program, and return its exit status."""
    options = parse()
    if options.worker is not None:
        worker = Worker(Data(options.device, options.divisor), options.configs)
        serve(Connection(options.worker), worker)
        return 0
    if options.show is not None:
        results = json.loads(options.show.read_text("utf-8"))
    else:
        results = compare(options)
    print("\n\n".join(show(table, options.markdown) for table in tables(results)))
    failures = [name for row in results["rows"] for name in row["errors"] if name != "triton"]
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
