"""Times of models compiled by TorchInductor, on `tile` and on Triton side by side; a program.

    python -m tests.libraries.model_times --only vit bert --layers 4
    python -m tests.libraries.model_times --only llama --layers 2 --gemm TRITON

Starts a process on `tile` and one on Triton, each on half of the processors. Both compile a model at
the same time, but only one at a time chooses among configurations on the GPU; then they measure a
call and the GPU's kernels in it (`models.py`) alternately. Prints the medians and their ratios, a
table that ends with their geometric means. With `--gemm TRITON` all matmuls are templates, and
`--profile` lists the kernels that take most time in both.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from tests.libraries.models import CASES, COMPILED, MEASURED, PROFILE, PROFILED, READY

WAYS = {"tile": ("-m", "tile", "triton"), "Triton": ()}
FORWARDED = ("device", "size", "dtype", "gemm", "layers")
HEAD = ("model", "call, tile", "Triton", "ratio", "kernels, tile", "Triton", "ratio")


@dataclass(frozen=True)
class Times:
    """Milliseconds of a call, and of the GPU's kernels in it."""

    call: float
    kernels: float


class Server:
    """A process that compiles models, and measures them on request."""

    def __init__(self, prefix: Sequence[str], options: Sequence[str]) -> None:
        command = (sys.executable, *prefix, "-m", "tests.libraries.models", "--serve", *options)
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.communicate()
        self.errors.close()

    def ask(self, line: str) -> None:
        """Send a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def answer(self, start: str) -> str:
        """Return the rest of the next line that starts so."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(start):
                return line.removeprefix(start)
        self.errors.seek(0)
        raise SystemExit(self.errors.read()[-500:])

    def profile(self) -> str:
        """Return the kernels of the model that is compiled."""
        self.ask(PROFILE)
        assert self.process.stdout is not None
        lines = iter(self.process.stdout.readline, "")
        return "".join(itertools.takewhile(lambda line: not line.startswith(PROFILED), lines))

    def measure(self) -> Times:
        """Return the times of the model that is compiled."""
        self.ask("measure")
        return Times(*map(float, self.answer(MEASURED).split()))


def compared(name: str, servers: Sequence[Server], options: argparse.Namespace) -> list[Times]:
    """Return the medians of some measurements of a model by each server."""
    for server in servers:
        server.ask(name)
    for server in servers:
        server.answer(COMPILED)
    measured = [[server.measure() for server in servers] for _ in range(options.count)]
    if options.profile:
        for way, server in zip(WAYS, servers, strict=True):
            sys.stderr.write(f"{name} on {way}\n{server.profile()}")
    for server in servers:
        server.ask("")  # the end of this model
    return [
        Times(
            statistics.median(one.call for one in column),
            statistics.median(one.kernels for one in column),
        )
        for column in zip(*measured, strict=True)
    ]


def ratios(tile: Times, triton: Times) -> tuple[float, float]:
    """Return Triton's times over those of `tile`; NaN where nothing was measured."""
    pairs = ((tile.call, triton.call), (tile.kernels, triton.kernels))
    call, kernels = (peer / ours if ours else math.nan for ours, peer in pairs)
    return call, kernels


def row(*cells: str) -> None:
    """Print a row of a table."""
    print(f"| {' | '.join(cells)} |", flush=True)


def compare(options: argparse.Namespace) -> None:
    """Print a table of models."""
    shared = [f"--{name}={getattr(options, name)}" for name in FORWARDED]
    cores = sorted(os.sched_getaffinity(0))
    halves = (cores[::2], cores[1::2] or cores)
    with ExitStack() as stack:
        lock = stack.enter_context(tempfile.NamedTemporaryFile())
        servers = []
        for prefix, half in zip(WAYS.values(), halves, strict=True):
            server = stack.enter_context(Server(prefix, [*shared, "--lock", lock.name]))
            os.sched_setaffinity(server.process.pid, half)
            servers.append(server)
        for server in servers:
            server.answer(READY)
        row(*HEAD)
        row(*itertools.repeat("---", len(HEAD)))
        speedups = []
        for name in options.only:
            tile, triton = compared(name, servers, options)
            speedups.append(ratios(tile, triton))
            call, kernels = speedups[-1]
            row(
                *(name, f"{tile.call:.3f}", f"{triton.call:.3f}", f"{call:.3f}"),
                *(f"{tile.kernels:.3f}", f"{triton.kernels:.3f}", f"{kernels:.3f}"),
            )
    call, kernels = (
        math.exp(statistics.fmean(map(math.log, column))) for column in zip(*speedups, strict=True)
    )
    row("geometric mean", "", "", f"{call:.3f}", "", "", f"{kernels:.3f}")


def main() -> int:
    """Run the program, and return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--size", default="full")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--gemm", default="", help="backends of matmuls, such as TRITON")
    parser.add_argument("--layers", type=int, default=0, help="of transformers; 0: as of the size")
    parser.add_argument("--only", nargs="*", choices=CASES, default=list(CASES))
    parser.add_argument("--count", type=int, default=5, help="measurements in each process")
    parser.add_argument("--profile", action="store_true", help="list the kernels of each model")
    compare(parser.parse_args())
    return 0


if __name__ == "__main__":
    sys.exit(main())
