"""Record the times of all configurations of kernels, as tables for tests of the search.

    python benchmarks/record_tuning.py cuda FOLDER --prefix h200- [--cases NAME ...] [--minutes 2]
    python benchmarks/record_tuning.py opencl:pocl FOLDER
    python benchmarks/record_tuning.py update FOLDER    # what the model says in an H200's

Each table is a JSON file with the points of a kernel's space, and for each of them the estimate of
the cost model, a number for its code (equal for configurations of equal thread IR) and ten times in
ms; no times for one that cannot run. Configurations are compiled by as many processes as there are
cores, and then timed one by one. A table is left unfinished, and says so, where its minutes end or
its process does; the same command goes on with it. The tables of softmax and layer norm in CI are

    python benchmarks/record_tuning.py cuda FOLDER --prefix h200- --cases softmax layer-norm
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import multiprocessing
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import contextlib

import tile
import tile.language as tl
from benchmarks import gpu_kernels
from tile.backends.base import Target
from tile.errors import TileError
from tile.runtime.autotuning.configs import Call, Config
from tile.runtime.autotuning.cost_model import estimate, features, misfit
from tile.runtime.autotuning.do_bench import measure
from tile.runtime.autotuning.kernel_space import Profile, kernel_space, profiled
from tile.runtime.autotuning.space import Space, config_of, point_of
from tile.runtime.autotuning.tuning_run import spilled_registers

SAMPLES = 10
SAVED_EACH = 5.0  # seconds
H200 = Target.parse("nvptx:sm_90a")
SPAWN = multiprocessing.get_context("spawn")  # a process that has used CUDA cannot fork
COMPILED_ALIKE = ("num_ctas", "maxnreg")  # options that the thread IR does not show


@dataclass(frozen=True)
class Case:
    """A kernel on arguments; `grid` is a function of a configuration, `space` the constants."""

    kernel: Any
    arguments: tuple[Any, ...]
    constants: Mapping[str, Any]
    grid: Callable[[Mapping[str, Any]], tuple[int, ...]]
    space: Space

    @property
    def on_device(self) -> bool:
        """True for arrays in a device's memory."""
        return not isinstance(self.arguments[0], np.ndarray)

    @property
    def call(self) -> Call:
        """A call of the kernel without a configuration."""
        names = dict(zip(self.kernel.arg_names, self.arguments, strict=False))
        return Call(self.arguments, dict(self.constants), self.grid, names)


@tile.jit
def convolution_kernel(
    x_ptr, w_ptr, y_ptr, H, W, C, K, R: tl.constexpr, BP: tl.constexpr, BK: tl.constexpr,
    BC: tl.constexpr,
):  # fmt: skip
    """A 2D convolution of one image, NHWC, without padding: pixels by rows, channels by columns."""
    pixel = tl.program_id(0) * BP + tl.arange(0, BP)
    k = tl.program_id(1) * BK + tl.arange(0, BK)
    c = tl.arange(0, BC)
    width = W - R + 1
    row, column = pixel // width, pixel % width
    inside = row < H - R + 1
    total = tl.zeros((BP, BK), dtype=tl.float32)
    for tap in range(R * R):
        at = (row + tap // R) * W + column + tap % R
        for first in range(0, C, BC):
            x = tl.load(
                x_ptr + at[:, None] * C + first + c[None, :], mask=inside[:, None], other=0.0
            )
            w = tl.load(w_ptr + (tap * C + first + c[:, None]) * K + k[None, :])
            total = tl.dot(x, w, total)
    y = total.to(y_ptr.dtype.element_ty)
    tl.store(y_ptr + pixel[:, None] * K + k[None, :], y, mask=inside[:, None])


@tile.jit
def w4a16_kernel(
    a_ptr, b_ptr, scale_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """f16 by weights of 4 bits, two in a byte along K, with a scale for each column."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = tl.load(a_ptr + rows[:, None] * K + k + inner[None, :], mask=rows[:, None] < M, other=0)
        packed = tl.load(b_ptr + (k + inner[:, None]) // 2 * N + columns[None, :])
        shift = (inner[:, None] % 2 * 4).to(tl.uint8)
        b = ((packed >> shift) & 15).to(a.dtype) - 8.0
        total = tl.dot(a, b, total)
    scale = tl.load(scale_ptr + columns)
    c = (total * scale[None, :]).to(c_ptr.dtype.element_ty)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], c, mask=rows[:, None] < M)


@tile.jit
def softmax_kernel(
    out_ptr, x_ptr, rows, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr, LOOPED: tl.constexpr
):
    """Softmax of rows: in registers, or in two loops over blocks of columns."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    first = row[:, None] * columns
    mask = (row < rows)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    if LOOPED:
        most = tl.full((ROWS, BLOCK), -1e30, tl.float32)
        total = tl.zeros((ROWS, BLOCK), tl.float32)
        for start in range(0, columns, BLOCK):
            at = start + column
            x = tl.load(x_ptr + first + at, mask=mask & (at < columns), other=-float("inf"))
            larger = tl.maximum(most, x)
            total = total * tl.exp(most - larger) + tl.exp(x - larger)
            most = larger
        peak = tl.max(most, axis=1)[:, None]
        scale = 1.0 / tl.sum(total * tl.exp(most - peak), axis=1)[:, None]
        for start in range(0, columns, BLOCK):
            at = start + column
            inside = mask & (at < columns)
            x = tl.load(x_ptr + first + at, mask=inside, other=-float("inf"))
            tl.store(out_ptr + first + at, tl.exp(x - peak) * scale, mask=inside)
    else:
        inside = mask & (column < columns)
        x = tl.load(x_ptr + first + column, mask=inside, other=-float("inf"))
        powers = tl.exp(x - tl.max(x, axis=1)[:, None])
        out = powers / tl.sum(powers, axis=1)[:, None]
        tl.store(out_ptr + first + column, out, mask=inside)


@tile.jit
def layer_norm_kernel(
    x_ptr, out_ptr, weight_ptr, bias_ptr, rows, columns, eps,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, LOOPED: tl.constexpr,
):  # fmt: skip
    """Layer norm of rows: in registers, or in two loops over blocks of columns."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    first = row[:, None] * columns
    mask = (row < rows)[:, None]
    column = tl.arange(0, BLOCK)
    if LOOPED:
        total = tl.zeros((ROWS, BLOCK), tl.float32)
        squares = tl.zeros((ROWS, BLOCK), tl.float32)
        for start in range(0, columns, BLOCK):
            at = start + column[None, :]
            x = tl.load(x_ptr + first + at, mask=mask & (at < columns), other=0.0).to(tl.float32)
            total += x
            squares += x * x
        mean = tl.sum(total, axis=1)[:, None] / columns
        variance = tl.sum(squares, axis=1)[:, None] / columns - mean * mean
        scale = 1 / tl.sqrt(variance + eps)
        for start in range(0, columns, BLOCK):
            at = start + column
            inside = mask & (at < columns)[None, :]
            x = tl.load(x_ptr + first + at[None, :], mask=inside, other=0.0).to(tl.float32)
            weight = tl.load(weight_ptr + at, mask=at < columns)[None, :]
            bias = tl.load(bias_ptr + at, mask=at < columns)[None, :]
            y = (x - mean) * scale * weight + bias
            tl.store(out_ptr + first + at[None, :], y.to(out_ptr.dtype.element_ty), mask=inside)
    else:
        inside = mask & (column < columns)[None, :]
        x = tl.load(x_ptr + first + column[None, :], mask=inside, other=0.0).to(tl.float32)
        mean = tl.sum(x, axis=1)[:, None] / columns
        centered = tl.where(inside, x - mean, 0.0)
        scale = 1 / tl.sqrt(tl.sum(centered * centered, axis=1)[:, None] / columns + eps)
        weight = tl.load(weight_ptr + column, mask=column < columns)[None, :]
        bias = tl.load(bias_ptr + column, mask=column < columns)[None, :]
        y = centered * scale * weight + bias
        tl.store(out_ptr + first + column[None, :], y.to(out_ptr.dtype.element_ty), mask=inside)


class CpuTimer:
    """The CPU time of a call by all threads, which other programs on the machine change little."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def start(self) -> None:
        self.started = time.process_time()

    def stop(self) -> None:
        self.times.append(1e3 * (time.process_time() - self.started))

    def elapsed(self) -> list[float]:
        times, self.times = self.times, []
        return times


class Arrays:
    """Makes the arrays of a device: torch's on CUDA, else NumPy's."""

    def __init__(self, cuda: bool, *, filled: bool = True) -> None:
        self.cuda = cuda
        self.filled = filled
        self.random = np.random.default_rng(0)

    def __call__(self, *shape: int, dtype: str = "float16") -> Any:
        if not self.filled:
            return np.empty(shape, dtype)
        values = self.random.standard_normal(shape, np.float32)
        if np.dtype(dtype).kind in "iu":
            values = self.random.integers(0, 255, shape).astype(dtype)
        if not self.cuda:
            return values.astype(dtype)
        import torch

        return torch.from_numpy(values).to("cuda", getattr(torch, dtype))


def matmul(new: Arrays, m: int, n: int, k: int, dtype: str, space: Space) -> Case:
    a, b, c = new(m, k, dtype=dtype), new(k, n, dtype=dtype), new(m, n, dtype=dtype)
    return Case(
        gpu_kernels.matmul_kernel,
        (a, b, c, m, n, k),
        {"GROUP": 8},
        lambda meta: (tile.cdiv(m, meta["BM"]) * tile.cdiv(n, meta["BN"]),),
        space,
    )


def rowwise(columns: int, blocks: Sequence[Any], rows: Sequence[Any], most: int) -> Space:
    """Return the space of a kernel of rows: whole rows, or loops over blocks of their columns.

    A program holds at most `most` elements of a tile.
    """
    whole = 1 << (columns - 1).bit_length()
    space = Space(ROWS=rows, BLOCK=(*blocks, whole), LOOPED=(False, True))
    space = space.where(lambda ROWS, BLOCK: most >= ROWS * BLOCK)
    return space.where(lambda BLOCK, LOOPED: LOOPED is (whole > BLOCK))


def softmax(new: Arrays, count: int, columns: int, space: Space) -> Case:
    x, out = new(count, columns, dtype="float32"), new(count, columns, dtype="float32")
    return Case(
        softmax_kernel,
        (out, x, count, columns),
        {},
        lambda meta: (tile.cdiv(count, meta["ROWS"]),),
        space,
    )


def layer_norm(new: Arrays, count: int, columns: int, dtype: str, space: Space) -> Case:
    x, out = new(count, columns, dtype=dtype), new(count, columns, dtype=dtype)
    weight, bias = new(columns, dtype=dtype), new(columns, dtype=dtype)
    return Case(
        layer_norm_kernel,
        (x, out, weight, bias, count, columns, 1e-5),
        {},
        lambda meta: (tile.cdiv(count, meta["ROWS"]),),
        space,
    )


def attention(new: Arrays, heads: int, context: int, head: int) -> Case:
    q, k, v, out = (new(heads, context, head) for _ in range(4))
    log_sum = new(heads, context, dtype="float32")
    return Case(
        gpu_kernels.attention_kernel,
        (q, k, v, out, log_sum, 0.18, context),
        {"HEAD": head, "CAUSAL": False},
        lambda meta: (context // meta["BM"], heads),
        Space(BM=(64, 128), BN=(32, 64, 128), num_warps=(4, 8), warp_rows=(0,)),
    )


def backward(new: Arrays, heads: int, context: int, head: int) -> Case:
    q, k, v, dout, dk, dv = (new(heads, context, head) for _ in range(6))
    log_sum, delta = (new(heads, context, dtype="float32") for _ in range(2))
    return Case(
        gpu_kernels.backward_kv_kernel,
        (q, k, v, dout, log_sum, delta, dk, dv, 0.125, 0.18, context),
        {"HEAD": head, "CAUSAL": False},
        lambda meta: (context // meta["BN"], heads),
        Space(BM=(32, 64, 128), BN=(64, 128), num_warps=(4, 8), warp_rows=(0,)),
    )


def convolution(
    new: Arrays, size: int, channels: int, filters: int, dtype: str, space: Space
) -> Case:
    x, w = new(size, size, channels, dtype=dtype), new(3, 3, channels, filters, dtype=dtype)
    y = new(size - 2, size - 2, filters, dtype=dtype)
    return Case(
        convolution_kernel,
        (x, w, y, size, size, channels, filters),
        {"R": 3},
        lambda meta: (tile.cdiv((size - 2) ** 2, meta["BP"]), filters // meta["BK"]),
        space,
    )


def w4a16(new: Arrays, m: int, n: int, k: int) -> Case:
    a, b = new(m, k), new(k // 2, n, dtype="uint8")
    scale, c = new(n), new(m, n)
    return Case(
        w4a16_kernel,
        (a, b, scale, c, m, n, k),
        {},
        lambda meta: (tile.cdiv(m, meta["BM"]), n // meta["BN"]),
        Space(BM=(16,), BN=(32, ..., 256), BK=(32, ..., 256), num_warps=(4, 8), warp_rows=(0,)),
    )


def cuda_cases(new: Arrays) -> Iterator[tuple[str, Callable[[], Case]]]:
    options = {"num_warps": (4, 8), "warp_rows": (0,)}
    tiles = Space(BM=(64, 128, 256), BN=(64, 128, 256), BK=(32, 64), **options)
    tiles = tiles.where(lambda BM, BN: BM * BN <= 128 * 256)
    pixels = Space(BP=(32, ..., 128), BK=(32, ..., 128), BC=(32, 64), **options)
    yield "matmul", lambda: matmul(new, 4096, 4096, 4096, "float16", tiles)
    yield "matmul-long-k", lambda: matmul(new, 512, 512, 16384, "float16", tiles)
    yield "convolution", lambda: convolution(new, 56, 256, 256, "float16", pixels)
    short = rowwise(1000, (128, 256, 512), (1, ..., 16), 1 << 14)
    yield "softmax", lambda: softmax(new, 8192, 1000, short)
    long = rowwise(8192, (512, ..., 4096), (1, 2, 4), 1 << 14)
    yield "layer-norm", lambda: layer_norm(new, 4096, 8192, "float16", long)
    yield "attention", lambda: attention(new, 32, 2048, 64)
    yield "attention-backward", lambda: backward(new, 32, 2048, 64)
    yield "w4a16", lambda: w4a16(new, 16, 8192, 8192)


def opencl_cases(new: Arrays) -> Iterator[tuple[str, Callable[[], Case]]]:
    tiles = Space(BM=(8, ..., 32), BN=(16, ..., 64), BK=(8, ..., 32), num_stages=(1,))
    pixels = Space(BP=(8, ..., 64), BK=(8, ..., 32), BC=(8, 16), num_stages=(1,))
    yield "matmul", lambda: matmul(new, 192, 192, 192, "float32", tiles.fixed(warp_rows=0))
    short = rowwise(200, (32, 64, 128), (1, ..., 16), 1 << 11)
    yield "softmax", lambda: softmax(new, 512, 200, short)
    long = rowwise(1024, (64, ..., 512), (1, ..., 8), 1 << 11)
    yield "layer-norm", lambda: layer_norm(new, 128, 1024, "float32", long)
    yield (
        "convolution",
        lambda: convolution(new, 18, 32, 32, "float32", pixels.fixed(warp_rows=0)),
    )


def code_of(kernel: Any) -> str:
    """Return what is equal for configurations of equal code."""
    text = kernel.asm.get("thread") or kernel.asm["tile-optimized"]
    options = [getattr(kernel.options, name) for name in ("num_warps", *COMPILED_ALIKE)]
    return f"{options}\n{text}"


@functools.cache
def case_of(device: str, name: str) -> tuple[Case, list[Config]]:
    """Return a case and its configurations, once in each process."""
    case = dict(cases_of(device))[name]()
    return case, config_list(case)


def compile_one(device: str, name: str, at: int) -> None:
    """Compile a configuration for the cache on disk, in a process of its own."""
    case, configs = case_of(device, name)
    arguments = case.call.with_config(configs[at])
    with contextlib.suppress(TileError):
        kernel = case.kernel.run(*case.arguments, grid=(1,), warmup=True, **arguments)
        if device == "cuda":  # what loading the kernel would assemble
            from tile.backends.nvptx import driver, ptxas

            loaded = kernel.executable
            arch = driver.current_device().architecture
            ptxas.cubin(loaded.ptx, loaded.metadata.kernel, arch, driver.version())


def cases_of(device: str) -> Iterator[tuple[str, Callable[[], Case]]]:
    new = Arrays(device == "cuda")
    return cuda_cases(new) if device == "cuda" else opencl_cases(new)


def config_list(case: Case) -> list[Config]:
    return kernel_space(case.kernel, case.call, case.space).configs


def modeled(profile: Profile, point: Mapping[str, Any], registers: int = 0) -> dict[str, Any]:
    """Return what the cost model says of a configuration, as a table has it.

    registers: those of a thread, if the assembler spilled some.
    """
    numbers = [round(number, 3) for number in features(profile, point)]
    said = {"estimate": rounded(estimate(profile, point)), "features": numbers}
    if registers:
        said["revised"] = rounded(estimate(profile, point, registers=registers))
    return said


def rounded(number: float) -> float:
    return float(f"{number:.5g}")


def update(path: Path, case: Case) -> None:
    """Let the model as it is now estimate the configurations of a recorded table of an H200."""
    table = json.loads(path.read_text())
    points = [point_of(config) for config in config_list(case)]
    if [row["point"] for row in table["rows"]] != points:
        print(f"{path} is of another space; record it anew")
        return
    registers: dict[int, int] = {}
    for row in table["rows"]:
        if "estimate" in row:
            config = config_of(row["point"])
            if row["times"] and row["code"] not in registers:
                registers[row["code"]] = assembled(case, config)
            profile = profiled(case.kernel, case.call, config, H200)
            row.pop("revised", None)
            row |= modeled(profile, row["point"], registers.get(row.get("code", -1), 0))
    write(path, table)


def assembled(case: Case, config: Config) -> int:
    """Return the registers of a thread on an H200 if ptxas spills some, else 0."""
    from tile.backends.nvptx import ptxas

    arguments = case.call.with_config(config)
    kernel = case.kernel.run(*case.arguments, grid=(1,), warmup=True, **arguments)
    program = ptxas.find()
    if program is None:
        raise SystemExit("there is no ptxas; pip install nvidia-cuda-nvcc")
    _, report = ptxas.assemble(kernel.asm["ptx"], "sm_90a", program)
    local = max(map(int, re.findall(r"(\d+) bytes stack frame", report)), default=0)
    used = max(map(int, re.findall(r"Used (\d+) registers", report)))
    return used + local // 4 if local // 4 else 0


def write(path: Path, table: Mapping[str, Any]) -> None:
    aside = path.with_suffix(".part")
    aside.write_text(json.dumps(table).replace('}, {"point"', '},\n{"point"') + "\n")
    aside.replace(path)


def record(case: Case, table: dict[str, Any], until: float, save: Callable[[], object]) -> None:
    """Add the configurations that a table lacks, and save it every few seconds."""
    configs = config_list(case)
    rows: list[dict[str, Any]] = table["rows"]
    profiles: dict[Any, Profile] = {}
    saved = time.monotonic()
    for config in configs[len(rows) :]:
        if time.monotonic() > until:
            break
        rows.append(recorded(case, config, table, profiles))
        if time.monotonic() > saved + SAVED_EACH:
            save()
            saved = time.monotonic()
    table["finished"] = len(rows) == len(configs)
    table["configurations"] = len(configs)
    save()


def recorded(
    case: Case, config: Config, table: Mapping[str, Any], profiles: dict[Any, Profile]
) -> dict[str, Any]:
    """Return the row of a configuration; times of equal code in the table are taken from there."""
    point = point_of(config)
    row: dict[str, Any] = {"point": point, "times": []}
    try:
        key = tuple((n, v) for n, v in point.items() if n in case.kernel.arg_names)
        if key not in profiles:
            profiles[key] = profiled(case.kernel, case.call, config)
        reason = misfit(profiles[key], point)
        if reason is not None:
            return row | {"reason": reason}
        row |= modeled(profiles[key], point)
        started = time.perf_counter()
        arguments = case.call.with_config(config)
        kernel = case.kernel.run(*case.arguments, grid=(1,), warmup=True, **arguments)
        row["compile"] = round(time.perf_counter() - started, 3)
        row |= modeled(profiles[key], point, spilled_registers(kernel))
        digest = hashlib.sha256(code_of(kernel).encode()).hexdigest()[:16]
        if digest not in table["codes"]:
            table["codes"].append(digest)
        row["code"] = table["codes"].index(digest)
        same = [r for r in table["rows"] if r.get("code") == row["code"] and r["times"]]
        row["times"] = same[0]["times"] if same else times_of(case, config)
    except TileError as error:
        row["reason"] = str(error).splitlines()[0][:160]
    return row


def times_of(case: Case, config: Config) -> list[float]:
    """Return `SAMPLES` times of a configuration in ms."""
    arguments = case.call.with_config(config)
    launch = functools.partial(case.kernel[case.grid], *case.arguments, **arguments)
    timer = None if case.on_device else CpuTimer()
    times = measure(launch, warmup=2, rep=10 if timer is None else 80, timer=timer)
    if timer is not None:  # other programs only make it slower
        times = sorted(times)[: max(SAMPLES, len(times) // 4)]
    times = times if len(times) >= SAMPLES else times * SAMPLES
    picked = np.linspace(0, len(times) - 1, SAMPLES).astype(int)
    return [float(f"{times[i]:.5g}") for i in picked]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("device")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cases", nargs="*")
    parser.add_argument("--prefix", default="", help="of the names of files")
    parser.add_argument("--minutes", type=float, default=60.0, help="for each case")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    options = parser.parse_args()
    if options.device == "update":
        os.environ["TILE_BACKEND"] = str(H200)
        for name, make in cuda_cases(Arrays(cuda=False, filled=False)):
            update(options.folder / f"h200-{name}.json", make())
        return
    if options.device != "cuda":
        os.environ["TILE_BACKEND"] = options.device
    with ProcessPoolExecutor(options.processes, SPAWN) as pool:
        for name, make in cases_of(options.device):
            if not options.cases or name in options.cases:
                write_table(options, name, make(), pool)


def write_table(
    options: argparse.Namespace, name: str, case: Case, pool: ProcessPoolExecutor
) -> None:
    """Record a case in its file, or what an earlier run left of it."""
    until = time.monotonic() + 60 * options.minutes
    options.folder.mkdir(parents=True, exist_ok=True)
    path = options.folder / f"{options.prefix}{name}.json"
    configs = config_list(case)
    table = unfinished(path, configs)
    if table is None:
        made = f"benchmarks/record_tuning.py {options.device}, {time.strftime('%Y-%m-%d')}"
        device = device_name(options.device)
        table = {"case": name, "made": made, "device": device, "finished": False}
        table |= {"configurations": len(configs), "codes": [], "rows": []}
    missing = range(len(table["rows"]), len(configs))
    jobs = [pool.submit(compile_one, options.device, name, at) for at in missing]
    wait(jobs, timeout=max(0.0, until - time.monotonic()))
    for job in jobs:
        job.cancel()
    record(case, table, until, lambda: write(path, table))
    ran = [row for row in table["rows"] if row["times"]]
    print(
        f"{name}: {len(table['rows'])} of {len(configs)} configurations, {len(ran)} ran, ", end=""
    )
    print(
        f"{len({row['code'] for row in ran})} distinct, finished {table['finished']}",
        flush=True,
    )


def unfinished(path: Path, configs: Sequence[Config]) -> dict[str, Any] | None:
    """Return a table of these configurations that an earlier run has begun and not finished."""
    if not path.exists():
        return None
    table: dict[str, Any] = json.loads(path.read_text())
    points = [row["point"] for row in table["rows"]]
    begun = points == [point_of(config) for config in configs[: len(points)]]
    return table if begun and not table["finished"] and "codes" in table else None


def device_name(device: str) -> str:
    if device == "cuda":
        import torch

        return str(torch.cuda.get_device_name())
    return device


if __name__ == "__main__":
    main()
