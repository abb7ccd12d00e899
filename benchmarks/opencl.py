"""Benchmark kernels on OpenCL devices against other implementations, in one process.

    python benchmarks/opencl.py                    the cases, on the default device
    python benchmarks/opencl.py --builds           the examples: lines of text, seconds to build
    python benchmarks/opencl.py --builds --whole   the same with every register a variable
    python benchmarks/opencl.py --device pocl      on another device (see `tile info`)
    python benchmarks/opencl.py --unrolled 65536   long fragments as variables, too
    python benchmarks/opencl.py --markdown         tables as Markdown

On a CPU: a matmul against a hand-written one for the same runtime, by the CPU time of this process,
which is independent of other processes. On a GPU: this backend against `nvptx` and PyTorch, if
available, by medians of device times of single kernels. OpenCL measures a kernel's own event, CUDA
an event before and one after each kernel. Many kernels are enqueued at once, so that host time does
not matter. Each peer uses its fastest of the same tiles, which other processes compile in advance.
Results are compared in the same run.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import importlib
import importlib.util
import io
import itertools
import multiprocessing
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array

import tile
import tile.language as tl
from tile.backends.opencl import devices
from tile.backends.opencl.devices import Device
from tile.backends.opencl.launch import EventTimer, LoadedKernel
from tile.config import config
from tile.errors import TileError
from tile.testing import do_bench

ROOT = Path(__file__).parent.parent
REPEATS = 7
LAUNCHES = 40  # of a case on CUDA
EXAMPLES = (
    "vector_add", "sin", "softmax", "matmul", "layer_norm", "dropout", "attention", "matmul_nt",
    "shift_conv",
)  # fmt: skip


# -- kernels


@tile.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside)
    tl.store(out_ptr + at, x + tl.load(y_ptr + at, mask=inside), mask=inside)


@tile.jit
def softmax_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=inside, other=-float("inf"))
    powers = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * columns + column, powers / tl.sum(powers, axis=0), mask=inside)


@tile.jit
def layer_norm_kernel(x_ptr, weight_ptr, bias_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=inside, other=0.0)
    centered = tl.where(inside, x - tl.sum(x, axis=0) / columns, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centered * centered, axis=0) / columns + 1e-5)
    weight = tl.load(weight_ptr + column, mask=inside)
    bias = tl.load(bias_ptr + column, mask=inside)
    tl.store(out_ptr + row * columns + column, centered * scale * weight + bias, mask=inside)


@tile.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(1) * BM + tl.arange(0, BM)
    columns = tl.program_id(0) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    a_ptrs = a_ptr + rows[:, None] * K + inner[None, :]
    b_ptrs = b_ptr + inner[:, None] * N + columns[None, :]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, K, BK):
        total = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), total, input_precision="ieee")
        a_ptrs += BK
        b_ptrs += BK * N
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], total)


# A thread has 4 x 4 sums at a distance of 16, so that adjacent threads access contiguous elements.
BY_HAND = """
__kernel __attribute__((reqd_work_group_size(16, 16, 1)))
void matmul(__global const float *a, __global const float *b, __global float *c, int n, int k) {
  __local float rows[32][64 + 1], columns[32][64];
  const int x = get_local_id(0), y = get_local_id(1), thread = y * 16 + x;
  const int row = get_group_id(1) * 64, column = get_group_id(0) * 64;
  float sum[4][4] = {{0}};
  for (int from = 0; from < k; from += 32) {
    for (int i = thread; i < 64 * 32; i += 256)
      rows[i % 32][i / 32] = a[(row + i / 32) * k + from + i % 32];
    for (int i = thread; i < 32 * 64; i += 256)
      columns[i / 64][i % 64] = b[(from + i / 64) * n + column + i % 64];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int at = 0; at < 32; at++) {
      float left[4], right[4];
      for (int i = 0; i < 4; i++) {
        left[i] = rows[at][y + 16 * i];
        right[i] = columns[at][x + 16 * i];
      }
      for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) sum[i][j] += left[i] * right[j];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++) c[(row + y + 16 * i) * n + column + x + 16 * j] = sum[i][j];
}
"""


# -- a matmul on a CPU, against a hand-written one


def cpu_seconds(call: Callable[[], object]) -> list[float]:
    """Return the CPU seconds of repeated calls, over all threads of this process."""
    call()
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return times


def matmul_rows(device: Device, size: int) -> Iterator[list[str]]:
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((size, size), dtype=np.float32) for _ in "ab")
    wanted = a @ b
    work = 2 * size**3 / 1e9

    def row(name: str, tiles: str, call: Callable[[np.ndarray], object]) -> list[str]:
        out = np.zeros_like(wanted)
        seconds = min(cpu_seconds(lambda: call(out)))
        error = float(np.abs(out - wanted).max())
        verdict = f"{work / seconds:.1f}" if error < 1e-2 else f"WRONG by {error:.2g}"
        return [f"matmul f32 {size}", name, tiles, verdict]

    by_hand = cl.Program(device.context, BY_HAND).build(cache_dir=False).matmul

    def hand(out: np.ndarray) -> None:
        by_hand.set_args(cl.SVM(a), cl.SVM(b), cl.SVM(out), np.int32(size), np.int32(size))
        cl.enqueue_nd_range_kernel(device.queue, by_hand, (size // 4, size // 4), (16, 16))
        device.queue.finish()

    yield row("by hand", "64 64 32", hand)
    for bm, bn, bk, warps, edge in CPU_MATMUL_TILES:
        grid = (size // bn, size // bm)
        sizes = {"BM": bm, "BN": bn, "BK": bk}
        options = {"num_warps": warps, "thread_tile": edge, "num_stages": 1}

        def ours(out: np.ndarray, grid=grid, sizes=sizes, options=options) -> None:
            with tile.backend("opencl"):
                matmul_kernel[grid](a, b, out, size, size, **sizes, **options)

        yield row("tile", f"{bm} {bn} {bk}, {warps} warps, {edge}", ours)
    yield row("NumPy", "", lambda out: np.matmul(a, b, out=out))


CPU_MATMUL_TILES = (
    (64, 64, 32, 2, 4),
    (64, 64, 32, 4, 4),
    (64, 64, 32, 8, 4),
    (128, 64, 32, 4, 8),
    (64, 128, 16, 4, 8),
)


# -- the same kernels through this backend, nvptx and PyTorch on a GPU


@dataclass(frozen=True)
class Case:
    """A kernel's launch, its choices of tiles and its amount of work."""

    name: str
    unit: str
    work: float
    arrays: tuple[np.ndarray, ...]  # the last one is the output
    launch: Callable[..., Any]
    choices: tuple[dict[str, int], ...]
    torch: Callable[..., Any]


ADD_TILES = tuple({"BLOCK": block, "num_warps": 4} for block in (512, 1024, 2048))
ROW_TILES = tuple({"BLOCK": 4096, "num_warps": warps} for warps in (4, 8, 16))
MATMUL_TILES = tuple(
    {"BM": bm, "BN": bn, "BK": bk, "num_warps": warps, "thread_tile": edge, "num_stages": stages}
    for (bm, bn), bk, warps, edge, stages in itertools.product(
        ((128, 64), (128, 128)), (16, 32), (4, 8), (4, 8), (2, 3)
    )
)
SMALLEST = 128 * 128
# Kernels, and arguments for one program with the same specialization as the timed launches.
SMALL: dict[str, tuple[Any, int, tuple[int, ...], tuple[dict[str, int], ...]]] = {
    "add": (add_kernel, 3, (SMALLEST,), ADD_TILES),
    "softmax": (softmax_kernel, 2, (4096,), ROW_TILES),
    "layer norm": (layer_norm_kernel, 4, (4096,), ROW_TILES),
    "matmul": (matmul_kernel, 3, (128, 128), MATMUL_TILES),
}


def gpu_cases() -> Iterator[Case]:
    random = np.random.default_rng(0)
    n = 1 << 26
    x, y = (random.standard_normal(n, dtype=np.float32) for _ in "xy")
    yield Case(
        "add 2^26",
        "GB/s",
        12 * n / 1e9,
        (x, y, np.zeros_like(x)),
        lambda arrays, **tiles: add_kernel[(tile.cdiv(n, tiles["BLOCK"]),)](*arrays, n, **tiles),
        ADD_TILES,
        lambda torch, x, y, out: torch.add(x, y, out=out),
    )
    rows, columns = 4096, 4096
    x = random.standard_normal((rows, columns), dtype=np.float32)
    weight, bias = (random.standard_normal(columns, dtype=np.float32) for _ in "wb")
    yield Case(
        "softmax 4096x4096",
        "GB/s",
        8 * x.size / 1e9,
        (x, np.zeros_like(x)),
        lambda arrays, **tiles: softmax_kernel[(rows,)](*arrays, columns, **tiles),
        ROW_TILES,
        lambda torch, x, out: torch.softmax(x, dim=-1, out=out),
    )
    yield Case(
        "layer norm 4096x4096",
        "GB/s",
        8 * x.size / 1e9,
        (x, weight, bias, np.zeros_like(x)),
        lambda arrays, **tiles: layer_norm_kernel[(rows,)](*arrays, columns, **tiles),
        ROW_TILES,
        lambda torch, x, w, b, out: out.copy_(torch.nn.functional.layer_norm(x, (columns,), w, b)),
    )
    size = 4096
    a, b = (random.standard_normal((size, size), dtype=np.float32) for _ in "ab")
    yield Case(
        "matmul f32 4096",
        "TFLOP/s",
        2 * size**3 / 1e12,
        (a, b, np.zeros_like(a)),
        lambda arrays, **tiles: matmul_kernel[(size // tiles["BN"], size // tiles["BM"])](
            *arrays, size, size, **tiles
        ),
        MATMUL_TILES,
        lambda torch, a, b, out: torch.matmul(a, b, out=out),
    )


def gpu_rows(device: Device) -> Iterator[list[str]]:
    torch = importlib.import_module("torch") if importlib.util.find_spec("torch") else None
    for case in gpu_cases():
        queue = device.queue
        mine = [cl_array.to_device(queue, array) for array in case.arrays]
        opencl = best(case, mine, lambda call, queue=queue: queue_seconds(call, queue))
        row = [case.name, case.unit, f"{case.work / opencl[0]:.2f}"]
        if torch is not None and torch.cuda.is_available():
            theirs = [torch.from_numpy(array).cuda() for array in case.arrays]
            seconds = torch_seconds(torch, lambda case=case, x=theirs: case.torch(torch, *x))
            expected = theirs[-1].cpu().numpy().copy()
            error = float(np.abs(mine[-1].get() - expected).max())
            nvptx = best(case, theirs, lambda call: torch_seconds(torch, call))
            row += [f"{case.work / nvptx[0]:.2f}", f"{case.work / seconds:.2f}"]
            row += [f"{nvptx[0] / opencl[0]:.2f}", f"{seconds / opencl[0]:.2f}", opencl[1]]
            row += [f"{error:.1e}", nvptx[1]]
        else:
            row += ["", "", "", "", opencl[1], "", ""]
        yield row


def best(
    case: Case, arrays: Sequence[Any], seconds: Callable[[Callable[[], object]], float]
) -> tuple[float, str]:
    """Return the least time over the choices of tiles, and the tiles.

    The output array has the result of the last choice.
    """
    least, chosen = float("inf"), "none"
    for tiles in case.choices:
        try:
            time_taken = seconds(lambda tiles=tiles: case.launch(arrays, **tiles))
        except TileError as error:
            print(f"  {case.name} {tiles}: {str(error).splitlines()[0]}", file=sys.stderr)
            continue
        if time_taken < least:
            least, chosen = time_taken, " ".join(map(str, tiles.values()))
    return least, chosen


def queue_seconds(call: Callable[[], object], queue: Any) -> float:
    """Return the median seconds by the device's clock."""
    ms = do_bench(call, warmup=30, rep=100, return_mode="median", timer=EventTimer(queue))
    return float(ms) / 1e3


def torch_seconds(torch: Any, call: Callable[[], object]) -> float:
    """Return the median seconds by events of the current stream."""
    call()
    torch.cuda.synchronize()
    pairs = []
    for _ in range(LAUNCHES):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        stop.record()
        pairs.append((start, stop))
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(stop) / 1e3 for start, stop in pairs)


def compile_case(case: str, backend: str, tiles: dict[str, int]) -> None:
    """Compile a case into the cache on disk by launching one program of it.

    Errors are ignored here; the timed launch reports them.
    """
    kernel, count, numbers, _ = SMALL[case]
    arrays = [np.ones(SMALLEST, np.float32) for _ in range(count)]
    with suppress(TileError), tile.backend(backend), config.scope(cache=True):
        kernel[(1,)](*arrays, *numbers, **tiles)


def compile_cases(device: str, jobs: int) -> None:
    """Compile all cases for both backends in `jobs` processes."""
    with concurrent.futures.ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        futures = [
            pool.submit(compile_case, name, backend, tiles)
            for name, (*_, choices) in SMALL.items()
            for backend in (f"opencl:@{device}" if device else "opencl", "nvptx")
            for tiles in choices
        ]
        for future in futures:
            future.result()


# -- building the examples


def build_rows() -> Iterator[list[str]]:
    """Yield the lines of each program of the examples, and the seconds of its first launch."""
    sys.path.insert(0, str(ROOT / "examples"))
    seen: dict[Any, tuple[str, int, float, float]] = {}
    launch = LoadedKernel.launch

    def timed(self: LoadedKernel, grid: Any, arguments: Any) -> None:
        start, cpu = time.perf_counter(), time.process_time()
        launch(self, grid, arguments)
        taken = time.perf_counter() - start, time.process_time() - cpu
        # Runtimes defer different work to the first launch: PoCL compiles only then.
        lines = re.sub(r"(?m)^#line.*\n", "", self.metadata.numbered).count("\n")
        seen.setdefault(self, (self.name, lines, *taken))

    for name in EXAMPLES:
        sys.argv = [name]
        seen.clear()
        with (
            mock.patch.object(LoadedKernel, "launch", timed),
            tile.backend("opencl"),
            redirect_stdout(io.StringIO()) as out,
        ):
            failed = importlib.import_module(name).main()
        for kernel, lines, wall, cpu in _greatest(list(seen.values())):
            yield [name, kernel, f"{lines:,}", f"{cpu:.2f}", f"{wall:.2f}", "WRONG" * failed]
        if failed:
            print(out.getvalue(), file=sys.stderr)


def _greatest(
    seen: Sequence[tuple[str, int, float, float]],
) -> list[tuple[str, int, float, float]]:
    """Return the costliest program of each kernel."""
    worst: dict[str, tuple[str, int, float, float]] = {}
    for entry in seen:
        if entry[3] >= worst.get(entry[0], entry)[3]:
            worst[entry[0]] = entry
    return list(worst.values())


# -- tables


def table(header: Sequence[str], rows: Iterator[list[str]], markdown: bool) -> None:
    """Print a table, each row as soon as it is measured."""
    between, edge = (" | ", "|") if markdown else ("  ", "")
    for row in [list(header), *([["---"] * len(header)] if markdown else [])]:
        print(f"{edge} {between.join(row)} {edge}".strip())
    for row in rows:
        print(f"{edge} {between.join(row)} {edge}".strip(), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="", help="by index or part of its name")
    parser.add_argument("--builds", action="store_true", help="time builds of the examples instead")
    parser.add_argument("--whole", action="store_true", help="every register a variable")
    parser.add_argument("--unrolled", type=int, help="most registers that are variables")
    parser.add_argument("--jobs", type=int, default=0, help="processes that compile for GPUs")
    parser.add_argument("--size", type=int, default=1024, help="of the matmul on CPUs")
    parser.add_argument("--markdown", action="store_true", help="tables as Markdown")
    options = parser.parse_args()
    # The compiling processes leave their kernels in the cache on disk.
    with config.scope(opencl_device=options.device, cache=options.jobs > 0):
        device = devices.chosen()
        unrolled = 1 << 16 if options.whole else options.unrolled
        if unrolled is not None:
            can = device.capabilities
            can = replace(can, tuning=replace(can.tuning, unrolled=unrolled))
            object.__setattr__(device, "capabilities", can)
        print(f"{device.name}, {device.raw.version}\n")
        if options.builds:
            header = ("example", "kernel", "lines", "CPU s", "s", "")
            table(header, build_rows(), options.markdown)
        elif device.raw.type & cl.device_type.CPU:
            header = ("case", "by", "tiles", "GFLOP per CPU s")
            table(header, matmul_rows(device, options.size), options.markdown)
        else:
            if options.jobs:
                compile_cases(options.device, options.jobs)
            header = ("case", "unit", "opencl", "nvptx", "torch", "to nvptx", "to torch", "tiles",
                      "error", "tiles of nvptx")  # fmt: skip
            table(header, gpu_rows(device), options.markdown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
