"""The kernels of `gpu_kernels.py` by two compilers, and matmuls of Triton and TileLang.

A peer that is not installed, or has no configuration that runs, is None.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from tile.testing import do_bench

HERE = Path(__file__).parent
Run = Callable[[], Any]
Tiles = dict[str, int]


def kernels_of(compiler: str) -> ModuleType:
    """Load the shared kernels for one of the compilers, "tile" or "triton"."""
    name = f"kernels_of_{compiler}"
    if name in sys.modules:
        return sys.modules[name]
    before = os.environ.get("TILE_PEER")
    os.environ["TILE_PEER"] = compiler
    try:
        spec = importlib.util.spec_from_file_location(name, HERE / "gpu_kernels.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    finally:
        if before is None:
            del os.environ["TILE_PEER"]
        else:
            os.environ["TILE_PEER"] = before
    return module


def installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def fastest(runs: Iterable[Run]) -> Run | None:
    """Return the fastest of some functions, without those that raise an error."""
    times: list[tuple[float, Run]] = []
    for run in runs:
        try:
            times.append((do_bench(run, warmup=2, rep=10, return_mode="median"), run))
        except Exception:  # noqa: BLE001 - compilers have many errors for tiles that do not fit
            continue
    return min(times, key=lambda item: item[0])[1] if times else None


def matmul_tiles(m: int, n: int) -> tuple[Tiles, ...]:
    """Return the tiles to try for a result of M x N: those that won in docs/results/gpu.md."""
    skinny = {"BN": max(16, min(128, n)), "BK": 128, "GROUP": 8, "num_warps": 4, "num_stages": 3}
    choices = [{"BM": 16, **skinny}, {"BM": 64, **skinny}]
    if n >= 256:
        square = {"BK": 64, "GROUP": 8, "num_stages": 3}
        choices = [
            {"BM": 64, "BN": 128, "num_warps": 4, **square},
            {"BM": 128, "BN": 128, "num_warps": 8, **square},
            {"BM": 128, "BN": 256, "num_warps": 8, **square},
        ]
    return tuple(choices)


def triton_matmul(torch: Any, a: Any, b: Any) -> Run | None:
    """Return Triton's matmul of contiguous float16 matrices, with its fastest tiles."""
    if not installed("triton"):
        return None
    kernel = kernels_of("triton").matmul_kernel
    (m, k), n = a.shape, b.shape[1]
    out = torch.empty(m, n, device=a.device, dtype=a.dtype)

    def run_of(tiles: Tiles) -> Run:
        def run() -> Any:
            grid = (math.ceil(m / tiles["BM"]) * math.ceil(n / tiles["BN"]),)
            kernel[grid](a, b, out, m, n, k, **tiles)
            return out

        return run

    return fastest(map(run_of, matmul_tiles(m, n)))


def tilelang_matmul(a: Any, b: Any) -> Run | None:
    """Return TileLang's matmul of contiguous float16 matrices, with its fastest tiles."""
    if not installed("tilelang"):
        return None
    make = importlib.import_module("tilelang_kernels").matmul
    (m, k), n = a.shape, b.shape[1]

    def runs() -> Iterable[Run]:
        for tiles in matmul_tiles(m, n):
            try:
                kernel = make(
                    *(m, n, k, tiles["BM"], tiles["BN"], tiles["BK"]),
                    *(tiles["num_stages"], 32 * tiles["num_warps"]),
                )
            except Exception:  # noqa: BLE001 - as in `fastest`
                continue
            yield lambda kernel=kernel: kernel(a, b)

    return fastest(runs())
