"""How long a kernel's first call takes on an NVIDIA GPU, in processes that have seen nothing yet.

    python benchmarks/first_call.py              this project and Triton, softmax, matmul, attention
    python benchmarks/first_call.py --rounds 5   medians of as many

Cold: with an empty cache on disk. Warm: a new process with what a cold one left there. A call is
timed from before the compiler is imported to when its result is there, in a process in which
PyTorch has been imported and has used the device.
"""

from __future__ import annotations

import argparse
import importlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).parent
PEERS = ("tile", "triton")


def softmax(kernels: ModuleType, torch: Any) -> Callable[[], Any]:
    x = torch.randn(4096, 1024, device="cuda")
    out = torch.empty_like(x)
    return lambda: kernels.softmax_kernel[(4096,)](out, x, 1024, 1024, BLOCK=1024, num_warps=4)


def matmul(kernels: ModuleType, torch: Any) -> Callable[[], Any]:
    a, b = (torch.randn(1024, 1024, device="cuda", dtype=torch.float16) for _ in "ab")
    out = torch.empty_like(a)
    tiles = {"BM": 128, "BN": 128, "BK": 64, "GROUP": 8, "num_warps": 8, "num_stages": 3}
    return lambda: kernels.matmul_kernel[(64,)](a, b, out, 1024, 1024, 1024, **tiles)


def attention(kernels: ModuleType, torch: Any) -> Callable[[], Any]:
    q, k, v = (torch.randn(8, 1024, 64, device="cuda", dtype=torch.float16) for _ in "qkv")
    out, log_sum = torch.empty_like(q), torch.empty(8, 1024, device="cuda")
    tiles = {"BM": 128, "BN": 64, "HEAD": 64, "CAUSAL": False, "num_warps": 4, "num_stages": 3}
    inputs = (q, k, v, out, log_sum, 0.125, 1024)
    return lambda: kernels.attention_kernel[(8, 8)](*inputs, **tiles)


KERNELS = {"softmax": softmax, "matmul": matmul, "attention": attention}


def first_call(kernel: str) -> float:
    """Seconds from importing the compiler, which the environment names, to the result."""
    torch = importlib.import_module("torch")
    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    start = time.perf_counter()
    call = KERNELS[kernel](importlib.import_module("gpu_kernels"), torch)
    call()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def in_new_process(peer: str, kernel: str, folder: Path) -> float:
    """The same in a process of its own, whose compiler keeps its files in a folder."""
    folders = {"TILE_CACHE_DIR": f"{folder}/tile", "TRITON_CACHE_DIR": f"{folder}/triton"}
    done = subprocess.run(
        [sys.executable, __file__, "--inside", kernel],
        env={**os.environ, **folders, "TILE_PEER": peer},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout.split()[-1])


def measure(peer: str, kernel: str, rounds: int) -> tuple[float, float]:
    """Medians, cold and warm."""
    cold, warm = [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            cold.append(in_new_process(peer, kernel, Path(folder)))
            warm.append(in_new_process(peer, kernel, Path(folder)))
    return statistics.median(cold), statistics.median(warm)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3, help="of which the medians are printed")
    parser.add_argument("--inside", choices=KERNELS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        print(first_call(options.inside))
        return 0
    print("| first call | " + " | ".join(f"{p}, cold | {p}, warm" for p in PEERS) + " |")
    print("| --- |" + " --- |" * 2 * len(PEERS))
    for kernel in KERNELS:
        times = [time for peer in PEERS for time in measure(peer, kernel, options.rounds)]
        print(f"| {kernel} | " + " | ".join(f"{time:.2f} s" for time in times) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
