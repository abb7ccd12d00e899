"""Time a kernel's first call on an NVIDIA GPU, in new processes.

    python benchmarks/first_call.py              this project and Triton, softmax, matmul, attention
    python benchmarks/first_call.py --repeats 5  the number of runs, of which medians are printed
    python benchmarks/first_call.py --compile    only this project, for sm_90a, without a GPU: until
                                                 the launcher has the code that it loads

Cold: with empty caches on disk, including the driver's own. Warm: a new process with the caches of
a cold one. The time includes importing the compiler and its kernels, and the call until its result
is available, in a process in which PyTorch was imported and has used the device, and which has the
arrays. Modules have their bytecode on disk. The time of the import alone is in parentheses.
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


# Types, constants and options of the kernels that are compiled without a GPU.
ROW, FP16, COUNT = "*fp32:16", "*fp16:16", "i32:16"
SIGNATURES: dict[str, tuple[str, dict[str, str], dict[str, Any], dict[str, int]]] = {
    "softmax": (
        "softmax_kernel",
        {"out_ptr": ROW, "x_ptr": ROW, "row_step": COUNT, "columns": COUNT},
        {"BLOCK": 1024},
        {},
    ),
    "matmul": (
        "matmul_kernel",
        {**dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), FP16), **dict.fromkeys("MNK", COUNT)},
        {"BM": 128, "BN": 128, "BK": 64, "GROUP": 8},
        {"num_warps": 8},
    ),
    "attention": (
        "attention_kernel",
        {
            **dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "out_ptr"), FP16),
            "log_sum_ptr": ROW,
            "scale": "fp32",
            "context": COUNT,
        },
        {"BM": 128, "BN": 64, "HEAD": 64, "CAUSAL": False},
        {},
    ),
}

KERNELS = {"softmax": softmax, "matmul": matmul, "attention": attention}


def first_call(kernel: str) -> tuple[float, float]:
    """Return the seconds of importing the compiler that TILE_PEER names, and of the call."""
    torch = importlib.import_module("torch")
    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    start = time.perf_counter()
    kernels = importlib.import_module("gpu_kernels")
    imported = time.perf_counter() - start
    call = KERNELS[kernel](kernels, torch)
    torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return imported, time.perf_counter() - start


def compiled(kernel: str) -> tuple[float, float]:
    """Return the seconds of the import and of compiling for sm_90a, without PyTorch."""
    importlib.import_module("ml_dtypes")
    name, signature, constants, options = SIGNATURES[kernel]
    start = time.perf_counter()
    kernels = importlib.import_module("gpu_kernels")
    imported = time.perf_counter() - start
    start = time.perf_counter()
    kernel = kernels.compiler.compile(
        getattr(kernels, name), signature, constants, options, "nvptx:sm_90a"
    )
    assert kernel.executable is not None  # loaded, except for the steps that need a device
    return imported, time.perf_counter() - start


def in_new_process(peer: str, kernel: str, folder: Path, flags: list[str]) -> list[float]:
    """Return the times in a new process, with the compiler's caches in `folder`."""
    folders = {
        "TILE_CACHE_DIR": f"{folder}/tile",
        "TRITON_CACHE_DIR": f"{folder}/triton",
        "CUDA_CACHE_PATH": f"{folder}/cuda",
        "PYTHONPYCACHEPREFIX": f"{tempfile.gettempdir()}/tile-first-call-bytecode",
    }
    environment = {**os.environ, **folders, "TILE_PEER": peer}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [sys.executable, __file__, "--inside", kernel, *flags],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return [float(word) for word in done.stdout.split()[-2:]]


def measure(peer: str, kernel: str, repeats: int, flags: list[str]) -> list[str]:
    """Return the medians, cold and warm, as table cells."""
    with tempfile.TemporaryDirectory() as folder:  # to compile the bytecode
        in_new_process(peer, kernel, Path(folder), flags)
    cold, warm = [], []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            cold.append(in_new_process(peer, kernel, Path(folder), flags))
            warm.append(in_new_process(peer, kernel, Path(folder), flags))
    cells = []
    for runs in (cold, warm):
        imported = statistics.median(run[0] for run in runs)
        cells.append(f"{statistics.median(map(sum, runs)):.3f} s ({imported:.3f})")
    return cells


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3, help="runs, whose medians are printed")
    parser.add_argument("--compile", action="store_true", help="compile for sm_90a without a GPU")
    parser.add_argument("--inside", choices=KERNELS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        print(*(compiled if options.compile else first_call)(options.inside))
        return 0
    peers, flags = (PEERS[:1], ["--compile"]) if options.compile else (PEERS, [])
    print("| first call | " + " | ".join(f"{p}, cold | {p}, warm" for p in peers) + " |")
    print("| --- |" + " --- |" * 2 * len(peers))
    for kernel in KERNELS:
        cells = [cell for peer in peers for cell in measure(peer, kernel, options.repeats, flags)]
        print(f"| {kernel} | " + " | ".join(cells) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
