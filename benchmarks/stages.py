"""Time the stages of compilation for an NVIDIA GPU, also as kernels grow.

    python benchmarks/stages.py                     milliseconds of CPU time for each kernel
    python benchmarks/stages.py --growth            time and code size with 1 to 16 copies of a body
    python benchmarks/stages.py --profile matmul    the slowest functions for one kernel
    python benchmarks/stages.py --markdown          the tables as Markdown

Kernels are compiled from Python source to PTX for sm_90a, and to a cubin if ptxas is installed; no
GPU is needed. Times are CPU time of this process, except for ptxas, a process of its own, whose
time is wall time. Each is the least of several runs without the cache on disk. The first
compilation of a process, which includes imports and fills in-memory caches, has a row of its own.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import platform
import pstats
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import gpu_kernels
from lowering import table

import tile
import tile.language as tl
from tile.backends.nvptx import compiler, ptxas
from tile.runtime.kernel import CompiledKernel

ARCH = "sm_90a"
REPEATS = 7
COPIES = (1, 2, 4, 8, 16)
HALF, COUNT, FLOAT = "*fp16:16", "i32:16", "*fp32:16"

# The functions of `tile.backends.nvptx.compiler` that are stages; the frontend is the rest.
STAGES = {
    "optimize": "passes over tiles",
    "lower": "lowering to threads",
    "print_module": "printing the stages",
    "emit_module": "emitting LLVM IR",
    "to_ptx": "LLVM to PTX",
}


@dataclass(frozen=True)
class Kernel:
    """The arguments of `tile.compile`."""

    function: Any
    signature: dict[str, str]
    constants: dict[str, Any]
    options: dict[str, int]

    def compile(self) -> CompiledKernel:
        target = f"nvptx:{ARCH}"
        return tile.compile(self.function, self.signature, self.constants, self.options, target)


def _kernel(function: Any, signature: str, constants: dict[str, Any], **options: int) -> Kernel:
    """`signature` has a letter for each parameter: h and f are pointers, i and x numbers."""
    kinds = {"h": HALF, "f": FLOAT, "i": COUNT, "x": "fp32"}
    names = [p.name for p in function.parameters if not p.is_constexpr]
    return Kernel(
        function,
        {name: kinds[letter] for name, letter in zip(names, signature, strict=True)},
        constants,
        options,
    )


TILES = {"BM": 128, "BN": 256, "BK": 64, "GROUP": 8}
HEADS = {"BM": 128, "BN": 64, "HEAD": 128}

KERNELS = {
    "softmax 1024": _kernel(gpu_kernels.softmax_kernel, "ffii", {"BLOCK": 1024}, num_warps=4),
    "layer norm 8192": _kernel(
        gpu_kernels.layer_norm_kernel, "hhhhix", {"BLOCK": 8192}, num_warps=8
    ),
    "matmul 128x256x64": _kernel(
        gpu_kernels.matmul_kernel, "hhhiii", TILES, num_warps=8, num_stages=4
    ),
    "attention 128x64": _kernel(
        gpu_kernels.attention_kernel, "hhhhfxi", {**HEADS, "CAUSAL": False}, num_warps=4
    ),
    "attention, causal": _kernel(
        gpu_kernels.attention_kernel, "hhhhfxi", {**HEADS, "CAUSAL": True}, num_warps=4
    ),
}


@tile.jit
def rows(out_ptr, x_ptr, columns, BLOCK: tl.constexpr, COPIES: tl.constexpr):
    """Compute the softmax of `COPIES` rows."""
    column = tl.arange(0, BLOCK)
    inside = column < columns
    for copy in tl.static_range(COPIES):
        row = tl.program_id(0) * COPIES + copy
        x = tl.load(x_ptr + row * columns + column, mask=inside, other=-float("inf"))
        powers = tl.exp(x - tl.max(x, axis=0))
        tl.store(out_ptr + row * columns + column, powers / tl.sum(powers, axis=0), mask=inside)


@tile.jit
def dots(a_ptr, b_ptr, c_ptr, K, N, BM: tl.constexpr, BN: tl.constexpr, COPIES: tl.constexpr):
    """Compute a matmul with `COPIES` dots in the body of the loop."""
    row, column, inner = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, 32)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, 32 * COPIES):
        for copy in tl.static_range(COPIES):
            k = start + copy * 32 + inner
            a = tl.load(a_ptr + row[:, None] * K + k[None, :])
            b = tl.load(b_ptr + k[:, None] * N + column[None, :])
            total = tl.dot(a, b, total)
    tl.store(c_ptr + row[:, None] * N + column[None, :], total.to(tl.float16))


@contextmanager
def timed() -> Iterator[dict[str, float]]:
    """Yield the CPU seconds of each stage, which compilations inside the `with` block add to."""
    spent = dict.fromkeys(STAGES.values(), 0.0)

    def timing(function: Callable[..., Any], stage: str) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            start = time.process_time()
            try:
                return function(*args, **options)
            finally:
                spent[stage] += time.process_time() - start

        return call

    with ExitStack() as stack:
        for name, stage in STAGES.items():
            replaced = timing(getattr(compiler, name), stage)
            stack.enter_context(mock.patch.object(compiler, name, replaced))
        yield spent


def measure(kernel: Kernel) -> tuple[dict[str, float], CompiledKernel]:
    """Compile a kernel; return the seconds by stage, and the compiled kernel."""
    with timed() as spent:
        start = time.process_time()
        compiled = kernel.compile()
        whole = time.process_time() - start
    stages = {"frontend": whole - sum(spent.values()), **spent, "all to PTX": whole}
    return stages, compiled


def least(kernel: Kernel) -> tuple[dict[str, float], CompiledKernel]:
    """Return the fastest of several compilations, with the time of ptxas."""
    stages, compiled = min((measure(kernel) for _ in range(REPEATS)), key=_whole)
    program = ptxas.find()
    if program is not None:
        start = time.perf_counter()
        ptxas.assemble(_text(compiled, "ptx"), ARCH, program)
        stages["ptxas"] = time.perf_counter() - start
    return stages, compiled


def _whole(measured: tuple[dict[str, float], CompiledKernel]) -> float:
    return measured[0]["all to PTX"]


def _text(compiled: CompiledKernel, stage: str) -> str:
    text = compiled.asm[stage]
    assert isinstance(text, str)
    return text


def _lines(compiled: CompiledKernel, stage: str) -> str:
    """Return the number of instructions or operations: lines except labels and directives."""
    lines = map(str.strip, _text(compiled, stage).splitlines())
    return str(sum(1 for line in lines if line and line[0] not in "./#;}!$"))


def times() -> list[list[str]]:
    """Return the table of stages, beginning with its header."""
    firsts = {name: _whole(measure(kernel)) for name, kernel in KERNELS.items()}
    results = {name: least(kernel) for name, kernel in KERNELS.items()}
    stages = list(next(iter(results.values()))[0])
    body = [[s, *(f"{seconds[s] * 1e3:.1f}" for seconds, _ in results.values())] for s in stages]
    body.append(["first in a process", *(f"{first * 1e3:.1f}" for first in firsts.values())])
    for stage in ("thread", "ptx"):
        lines = (_lines(compiled, stage) for _, compiled in results.values())
        body.append([f"lines of {stage}", *lines])
    return [["ms", *KERNELS], *body]


def growth() -> list[list[str]]:
    """Return the table of kernels that grow, beginning with its header."""
    kinds: dict[str, tuple[Any, str, dict[str, Any]]] = {
        "softmax of rows": (rows, "ffi", {"BLOCK": 1024}),
        "dots in a loop": (dots, "hhhii", {"BM": 64, "BN": 64}),
    }
    body = []
    for title, (function, signature, constants) in kinds.items():
        base = 0.0
        for copies in COPIES:
            kernel = _kernel(function, signature, {**constants, "COPIES": copies}, num_warps=4)
            seconds, compiled = least(kernel)
            base = base or seconds["all to PTX"]
            body.append(
                [
                    f"{title}, {copies}",
                    *(_lines(compiled, stage) for stage in ("tile", "thread", "ptx")),
                    f"{seconds['all to PTX'] * 1e3:.1f}",
                    f"{seconds['all to PTX'] / base:.1f}",
                    f"{seconds.get('ptxas', 0) * 1e3:.1f}",
                ]
            )
    return [["copies", "tile", "thread", "ptx", "ms to PTX", "relative to one", "ptxas"], *body]


def profile(name: str) -> None:
    kernel = next(kernel for label, kernel in KERNELS.items() if name in label)
    kernel.compile()
    profiler = cProfile.Profile(time.process_time)
    profiler.enable()
    for _ in range(REPEATS):
        kernel.compile()
    profiler.disable()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(30)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--growth", action="store_true", help="time kernels that grow instead")
    parser.add_argument("--profile", metavar="KERNEL", help="profile the compilation of a kernel")
    parser.add_argument("--markdown", action="store_true", help="tables as Markdown")
    options = parser.parse_args()
    os.environ["TILE_CACHE"] = "0"
    print(f"{ARCH}; Python {platform.python_version()}, {os.cpu_count()} cores, {REPEATS} runs\n")
    if options.profile:
        profile(options.profile)
        return 0
    rows: Sequence[Sequence[str]] = growth() if options.growth else times()
    print(table(rows[0], rows[1:], options.markdown))
    return 0


if __name__ == "__main__":
    sys.exit(main())
