"""Cold compile times of TorchInductor, on `tile` and on Triton; a program.

    python -m tests.libraries.inductor_times --device cuda --compare 2
    tile triton -m tests.libraries.inductor_times --device cuda --threads 1

Measures in one process the seconds until each of some functions has compiled and run, with empty
caches. `--compare N` does so N times in processes on `tile` and on Triton alternately, with one
compiling thread and with workers, and prints each run as it ends, then a table of the medians and
their ratios. Workers are ready before the first function, and `tile` has bytecode, as if it was
installed. `inductor_calls.py` measures calls.
"""

from __future__ import annotations

import argparse
import compileall
import contextlib
import importlib
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import triton
from torch.nn import functional

import tile

RESULT = "result: "
WAYS = {"tile": ("-m", "tile", "triton"), "Triton": ()}
WORKERS = 0  # threads: as many processes as TorchInductor chooses

Function = Callable[..., Any]


def backward(function: Function) -> Function:
    """Return a function that also computes gradients."""

    def step(x: Any, *others: Any) -> Any:
        result = function(x, *others)
        result.backward()
        return result

    return step


def cases(device: str) -> dict[str, tuple[Function, tuple[Any, ...]]]:
    """Return functions to compile, with their arguments."""
    rows = 2048 if device == "cuda" else 16
    x = torch.randn(rows, 1024, device=device)
    weight = torch.randn(1024, device=device)
    classes = torch.randint(1024, (rows,), device=device)
    leaf = x.clone().requires_grad_()
    norm = (1024,)
    return {
        "chain": (lambda x: x.sin().exp().tanh(), (x,)),
        "softmax": (lambda x: torch.softmax(x, -1), (x,)),
        "rms norm": (
            lambda x, w: x * torch.rsqrt(x.square().mean(-1, True) + 1e-5) * w,
            (x, weight),
        ),
        "sum of rows": (lambda x: x.sum(0), (x,)),
        "sum of squares": (lambda x: x.square().sum(), (x,)),
        "layer norm, backward": (
            backward(lambda x, w: functional.layer_norm(x, norm, w).square().sum()),
            (leaf, weight),
        ),
        "cross entropy, backward": (backward(functional.cross_entropy), (leaf, classes)),
        "gelu, dropout": (lambda x: functional.dropout(functional.gelu(x), 0.1, True), (x,)),
    }


def wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def compile_times(device: str) -> dict[str, float]:
    """Return the seconds until each function has run."""
    importlib.import_module("torch._inductor.compile_fx")  # which takes as long as all else
    torch.ones(8, device=device).sum().item()  # opens the device
    times = {}
    with kernel_times() as of_kernels:
        for name, (function, arguments) in cases(device).items():
            torch._dynamo.reset()
            start = time.perf_counter()
            torch.compile(function)(*arguments)
            wait(device)
            times[name] = time.perf_counter() - start
    times["all"] = sum(times.values())
    if of_kernels:
        times["of it kernels"] = sum(of_kernels)
    return times


@contextlib.contextmanager
def kernel_times() -> Iterator[list[float]]:
    """Yield a list of the seconds that this process takes to compile each kernel."""
    times: list[float] = []
    compile_kernel = triton.compile

    def timed(*arguments: Any, **options: Any) -> Any:
        start = time.perf_counter()
        try:
            return compile_kernel(*arguments, **options)
        finally:
            times.append(time.perf_counter() - start)

    triton.compile = timed
    try:
        yield times
    finally:
        triton.compile = compile_kernel


def measured(threads: int, device: str) -> dict[str, float]:
    """Return all times of this process."""
    settings: dict[str, Any] = {} if threads == WORKERS else {"compile_threads": threads}
    if device == "cpu":
        settings["cpu_backend"] = "triton"
    with torch._inductor.config.patch(settings):
        if threads == WORKERS:
            pool = importlib.import_module("torch._inductor.async_compile").AsyncCompile
            pool.warm_pool()
            pool.wait_pool_ready()
        return compile_times(device)


def in_a_process(way: str, threads: int, device: str) -> dict[str, float]:
    """Return the times of a new process with empty caches."""
    module = ("-m", "tests.libraries.inductor_times", "--device", device, "--threads", str(threads))
    with tempfile.TemporaryDirectory() as folder:
        caches = {
            name: os.path.join(folder, name)
            for name in (
                "TORCHINDUCTOR_CACHE_DIR",
                "TRITON_CACHE_DIR",
                "TILE_CACHE_DIR",
                "CUDA_CACHE_PATH",
            )
        }
        done = subprocess.run(
            [sys.executable, *WAYS[way], *module],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **caches},
        )
    line = done.stdout.partition(RESULT)[2]
    if done.returncode or not line:
        raise SystemExit(f"{way} failed: {done.stderr[-500:]}")
    times: dict[str, float] = json.loads(line)
    return times


def compare(count: int, device: str) -> None:
    """Print the times of each pair of processes as it ends, then the medians of both and their ratios."""
    compileall.compile_dir(Path(tile.__file__).parent, quiet=1)
    modes = {1: "one thread", WORKERS: "workers"}
    runs: dict[tuple[int, str], list[dict[str, float]]] = defaultdict(list)
    for number in range(1, count + 1):
        for threads, title in modes.items():
            for way in WAYS:
                runs[threads, way].append(in_a_process(way, threads, device))
            for name, ours, peer in medians(runs, threads, slice(-1, None)):
                head = f"run {number}, {title}, {name}"
                print(f"{head}: {ours:.3f} on tile, {peer:.3f} on Triton, {ours / peer:.3f}")
            sys.stdout.flush()
    print("| seconds | `tile` | Triton | ratio |\n| --- | --- | --- | --- |")
    for threads, title in modes.items():
        for name, ours, peer in medians(runs, threads, slice(None)):
            print(f"| {title}, {name} | {ours:.2f} | {peer:.2f} | {ours / peer:.2f} |")


def medians(
    runs: Mapping[tuple[int, str], list[dict[str, float]]], threads: int, chosen: slice
) -> list[tuple[str, float, float]]:
    """Return the name of each time, and its medians over some runs on both compilers."""
    ours, peers = (runs[threads, way][chosen] for way in WAYS)
    return [
        (name, *(statistics.median(run[name] for run in each) for each in (ours, peers)))
        for name in ours[0]
    ]


def main() -> int:
    """Run the program, and return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=1, help=f"{WORKERS} for worker processes")
    parser.add_argument("--compare", type=int, default=0, help="processes of each compiler")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    if options.compare:
        compare(options.compare, options.device)
    else:
        print(f"{RESULT}{json.dumps(measured(options.threads, options.device))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
