"""Times of models compiled by TorchInductor, on `tile` and on Triton side by side; a program.

    python -m tests.libraries.model_times --only vit bert --layers 4
    python -m tests.libraries.model_times --only llama --layers 2 --gemm TRITON --at-once 4

Starts a process on `tile` and one on Triton for each model. Some models compile at the same time, on
processors of their own, but only one process at a time chooses among configurations on the GPU. When
all of these are compiled, the two processes of each model measure a call and the GPU's kernels in it
(`models.py`) alternately. Prints the medians and their ratios, a table that ends with their geometric
means. With `--gemm TRITON` all matmuls are templates, of which `--configurations` limits the choice.
`--profile` lists the kernels in which the two compilers differ most.
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
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from tests.libraries.models import CASES, COMPILED, KERNELS, MEASURED, PROFILE, PROFILED

WAYS = {"tile": ("-m", "tile", "triton"), "Triton": ()}
FORWARDED = ("device", "size", "dtype", "gemm", "layers", "configurations")
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
        raise ServerError(self.errors.read()[-500:])

    def profile(self) -> dict[str, float]:
        """Return the microseconds of each kernel of the model that is compiled, by its name."""
        self.ask(PROFILE)
        assert self.process.stdout is not None
        lines = iter(self.process.stdout.readline, "")
        rows = itertools.takewhile(lambda line: not line.startswith(PROFILED), lines)
        return {
            f"{count} of {name.strip()}": float(time)
            for time, count, name in (line.split("\t") for line in rows)
        }

    def measure(self) -> Times:
        """Return the times of the model that is compiled."""
        self.ask("measure")
        return Times(*map(float, self.answer(MEASURED).split()))


class ServerError(RuntimeError):
    """A process ended, with this text."""


def compared(servers: Sequence[Server], options: argparse.Namespace) -> list[Times]:
    """Return the medians of some measurements by each server of the model that it has compiled."""
    measured = [[server.measure() for server in servers] for _ in range(options.count)]
    return [
        Times(
            statistics.median(one.call for one in column),
            statistics.median(one.kernels for one in column),
        )
        for column in zip(*measured, strict=True)
    ]


def print_losses(name: str, servers: Sequence[Server]) -> None:
    """Print the kernels in which the compilers differ most, those that `tile` loses first."""
    ours, peers = (server.profile() for server in servers)
    losses = sorted(
        ((ours.get(key, 0.0) - peers.get(key, 0.0), key) for key in {*ours, *peers}), reverse=True
    )
    chosen = (
        losses if len(losses) <= KERNELS else [*losses[: KERNELS // 2], *losses[-KERNELS // 2 :]]
    )
    print(f"{name}: us on tile, on Triton, and the difference")
    for loss, key in chosen:
        print(f"{ours.get(key, 0):9.1f} {peers.get(key, 0):9.1f} {loss:+9.1f} {key[:90]}")


def ratios(tile: Times, triton: Times) -> tuple[float, float]:
    """Return Triton's times over those of `tile`; NaN where nothing was measured."""
    pairs = ((tile.call, triton.call), (tile.kernels, triton.kernels))
    call, kernels = (peer / ours if ours else math.nan for ours, peer in pairs)
    return call, kernels


def row(*cells: str) -> None:
    """Print a row of a table."""
    print(f"| {' | '.join(cells)} |", flush=True)


def started(
    names: Sequence[str], options: argparse.Namespace, stack: ExitStack
) -> Iterator[list[Server]]:
    """Yield for each model its server of each compiler, which compile at the same time."""
    shared = [f"--{name}={getattr(options, name)}" for name in FORWARDED]
    lock = stack.enter_context(tempfile.NamedTemporaryFile())
    cores = sorted(os.sched_getaffinity(0))
    count = len(WAYS) * len(names)
    for at, name in enumerate(names):
        pair = []
        for index, prefix in enumerate(WAYS.values(), at * len(WAYS)):
            server = stack.enter_context(Server(prefix, [*shared, "--lock", lock.name]))
            own = cores[index::count] or [cores[index % len(cores)]]
            os.sched_setaffinity(server.process.pid, own)
            server.ask(name)
            pair.append(server)
        yield pair


def compare_some(
    names: Sequence[str], options: argparse.Namespace
) -> Iterator[tuple[float, float]]:
    """Yield the ratios of each model, and print its row; the models compile at the same time."""
    with ExitStack() as stack:
        pairs = list(started(names, options, stack))
        failed = {}
        for name, pair in zip(names, pairs, strict=True):
            try:
                for server in pair:
                    server.answer(COMPILED)
            except ServerError as error:
                failed[name] = error
        for name, pair in zip(names, pairs, strict=True):
            if name in failed:
                print(f"{name} failed: {failed[name]}", flush=True)
                continue
            tile, triton = compared(pair, options)
            call, kernels = ratios(tile, triton)
            row(
                *(name, f"{tile.call:.3f}", f"{triton.call:.3f}", f"{call:.3f}"),
                *(f"{tile.kernels:.3f}", f"{triton.kernels:.3f}", f"{kernels:.3f}"),
            )
            if options.profile:
                print_losses(name, pair)
            yield call, kernels


def compare(options: argparse.Namespace) -> None:
    """Print a table of models."""
    row(*HEAD)
    row(*itertools.repeat("---", len(HEAD)))
    speedups = []
    for start in range(0, len(options.only), options.at_once):
        names = options.only[start : start + options.at_once]
        speedups.extend(compare_some(names, options))
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
    parser.add_argument("--configurations", type=int, default=0, help="of a matmul; 0: all")
    parser.add_argument("--layers", type=int, default=0, help="of transformers; 0: as of the size")
    parser.add_argument("--only", nargs="*", choices=CASES, default=list(CASES))
    parser.add_argument("--at-once", type=int, default=1, help="models that compile at a time")
    parser.add_argument("--count", type=int, default=5, help="measurements in each process")
    parser.add_argument("--profile", action="store_true", help="list the kernels that differ most")
    compare(parser.parse_args())
    return 0


if __name__ == "__main__":
    sys.exit(main())
