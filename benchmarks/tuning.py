"""Compare searches of tuning spaces with measuring all of them: wall times, and the kernels found.

    python benchmarks/tuning.py [--cases matmul softmax ...]

Each case of benchmarks/record_tuning.py is tuned twice on the GPU, each time with empty caches and
new worker processes that compile, which have loaded the modules and opened the device. Both choices
are then timed alternately.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import tile
from benchmarks.record_tuning import Arrays, Case, cuda_cases
from tile.config import config
from tile.runtime.autotuning.do_bench import measure


@dataclass(frozen=True)
class Tuned:
    """A tuner that has run, and the seconds that it took."""

    tuner: Any
    seconds: float

    @property
    def measured(self) -> int:
        """The configurations with times of their own."""
        return len(self.tuner.configs_timings)


@contextmanager
def fresh_workers(count: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that have loaded the modules and share an empty cache with this one."""
    context = multiprocessing.get_context("forkserver")
    with (
        tempfile.TemporaryDirectory() as folder,
        config.scope(cache=True, cache_dir=folder),
        ProcessPoolExecutor(count, context) as pool,
    ):
        wait([pool.submit(open_device) for _ in range(count)])
        yield pool


def open_device() -> None:
    """Do once what a worker that lives on has done, and take long enough that each one does it."""
    import torch

    torch.zeros(1, device="cuda")
    time.sleep(0.5)


def tune(case: Case, search: str, workers: int) -> Tuned:
    case.kernel.cache.clear()
    with fresh_workers(workers) as pool:
        tuner = tile.autotune(space=case.space, search=search, executor=pool)(case.kernel)
        started = time.perf_counter()
        tuner[case.grid](*case.arguments, **case.constants)
        return Tuned(tuner, time.perf_counter() - started)


def ratio(case: Case, one: Tuned, other: Tuned) -> float:
    """Return the time of the second's kernel over that of the first's, timed alternately."""
    launches = [
        functools.partial(
            case.kernel[case.grid], *case.arguments, **case.call.with_config(t.tuner.best_config)
        )
        for t in (one, other)
    ]
    times: list[list[float]] = [[], []]
    for _ in range(7):
        for launch, results in zip(launches, times, strict=True):
            results += measure(launch, warmup=3, rep=20)
    return float(np.median(times[1]) / np.median(times[0]))


def compare(name: str, case: Case, workers: int) -> str:
    some = tune(case, "auto", workers)
    every = tune(case, "exhaustive", workers)
    count = len(every.tuner.configs_timings)
    return (
        f"| {name} | {count} | {some.measured} ({some.measured / count:.0%}) "
        f"| {every.seconds:.1f} | {some.seconds:.1f} | {some.seconds / every.seconds:.2f} "
        f"| {ratio(case, some, every):.3f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", nargs="*")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    modules = ["torch", "tile.backends.nvptx.backend", "benchmarks.record_tuning"]
    multiprocessing.get_context("forkserver").set_forkserver_preload(modules)
    print("| kernel | configurations | measured | all, s | search, s | ratio | of the best |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, make in cuda_cases(Arrays(cuda=True)):
        if not options.cases or name in options.cases:
            print(compare(name, make(), options.workers), flush=True)


if __name__ == "__main__":
    main()
