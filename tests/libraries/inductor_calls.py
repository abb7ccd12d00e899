"""Times of a compiled function's call and its parts, on `tile` and on Triton; a program.

    python -m tests.libraries.inductor_calls --device cuda

Starts a process on `tile` and one on Triton, both on one core, which measure alternately while the
GPU has nothing else to do. Prints medians and ratios: of a call of a compiled function, of the call
of TorchInductor's module in it, of `run` of its kernel in that, and of a launch of another kernel
by `kernel[grid](...)`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl

from tests.libraries.inductor_times import WAYS, wait

N = 1024
REPEATS = 15
CALLS = {"cuda": 500, "cpu": 5}
READY, TIMES = "ready", "times: "

Calls = dict[str, Callable[[], object]]


@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, i < n) + tl.load(y_ptr + i, i < n), i < n)


def calls(device: str) -> Calls:
    """Return what is measured, by name."""
    x, y = torch.randn(2, N, device=device)
    out = torch.empty_like(x)
    compiled = torch.compile(lambda x, y: x.sin() + y)
    torch.testing.assert_close(compiled(x, y), x.sin() + y)
    module, kernel = module_and_kernel()
    stream = torch.cuda.current_stream().cuda_stream if device == "cuda" else 0
    launch = add[(N // 256,)]
    return {
        "a call of a compiled function": lambda: compiled(x, y),
        "the call of its module": lambda: module.call([x, y]),
        "`run` of its kernel": lambda: kernel.run(x, y, out, N, stream=stream),
        "a launch `kernel[grid](...)` of `triton.jit`": lambda: launch(x, y, out, N, BLOCK=256),
    }


def module_and_kernel() -> tuple[Any, Any]:
    """Return the module that TorchInductor has written last, and the kernel in it."""
    codecache = importlib.import_module("torch._inductor.codecache")
    heuristics = importlib.import_module("torch._inductor.runtime.triton_heuristics")
    for module in reversed(codecache.PyCodeCache.modules):
        kernels = [
            one for one in vars(module).values() if isinstance(one, heuristics.CachingAutotuner)
        ]
        if kernels and hasattr(module, "call"):
            return module, kernels[0]
    raise SystemExit("TorchInductor has written no module with a kernel")


def microseconds(call: Callable[[], object], device: str) -> float:
    """Return the mean time of some calls."""
    wait(device)
    start = time.perf_counter()
    for _ in range(CALLS[device]):
        call()
    return (time.perf_counter() - start) / CALLS[device] * 1e6


def serve(device: str) -> None:
    """Measure all calls for each line of the input."""
    with torch._inductor.config.patch(cpu_backend="triton", compile_threads=1):
        functions = calls(device)
    for call in functions.values():
        microseconds(call, device)
    print(READY, flush=True)
    for _ in sys.stdin:
        times = {name: microseconds(call, device) for name, call in functions.items()}
        print(TIMES + json.dumps(times), flush=True)


def started(way: str, device: str) -> subprocess.Popen[str]:
    """Return a process that serves, when it is ready."""
    module = ("-m", "tests.libraries.inductor_calls", "--device", device, "--serve")
    process = subprocess.Popen(
        [sys.executable, *WAYS[way], *module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    answer(process, READY)
    os.sched_setaffinity(process.pid, {max(os.sched_getaffinity(0))})
    return process


def answer(process: subprocess.Popen[str], start: str) -> str:
    """Return the rest of the next line that starts so."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(start):
            return line.removeprefix(start)
    raise SystemExit(f"a process ended with {process.wait()}")


def compare(device: str) -> None:
    """Print a table of the medians of both processes."""
    processes = {way: started(way, device) for way in WAYS}
    runs: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    for _ in range(REPEATS):
        for way, process in processes.items():
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
            runs[way].append(json.loads(answer(process, TIMES)))
    for process in processes.values():
        process.kill()
    print("| us | `tile` | Triton | ratio |\n| --- | --- | --- | --- |")
    for name in runs["tile"][0]:
        ours, peer = (statistics.median(run[name] for run in runs[way]) for way in WAYS)
        print(f"| {name} | {ours:.1f} | {peer:.1f} | {ours / peer:.2f} |")


def main() -> int:
    """Run the program, and return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=tuple(CALLS), default="cuda")
    parser.add_argument("--serve", action="store_true", help="measure for each line of the input")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    (serve if options.serve else compare)(options.device)
    return 0


if __name__ == "__main__":
    sys.exit(main())
