"""The kernels of `gpu_kernels.py` by two compilers, and matmuls of Triton and TileLang.

A peer that is not installed is None, and so is one that has no configuration that runs, by
`if_it_runs`, which says so.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
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


def kernels_of(compiler: str, file: str = "gpu_kernels") -> ModuleType:
    """Load the shared kernels of a file for one of the compilers, "tile" or "triton"."""
    name = f"{file}_of_{compiler}"
    if name in sys.modules:
        return sys.modules[name]
    before = os.environ.get("TILE_PEER")
    os.environ["TILE_PEER"] = compiler
    try:
        spec = importlib.util.spec_from_file_location(name, HERE / f"{file}.py")
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


class PeerError(Exception):
    """A peer is installed, and none of its configurations runs."""


def fastest(runs: Iterable[Run]) -> Run:
    """Return the fastest of some functions, and say which ones raise an error.

    Raises `PeerError` if all do.
    """
    times: list[tuple[float, Run]] = []
    failure: Exception | None = None
    for number, run in enumerate(runs, 1):
        try:
            times.append((do_bench(run, warmup=2, rep=10, return_mode="median"), run))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told
            failure = error
            text = str(error).partition("\n")[0][:90]
            print(f"  configuration {number}: {type(error).__name__}: {text}", flush=True)
    if not times:
        raise PeerError("no configuration runs") from failure
    return min(times, key=lambda item: item[0])[1]


def if_it_runs(name: str, make: Callable[[], Run | None]) -> Run | None:
    """Return what makes a peer; say that it is left out, and return None, if nothing of it runs."""
    try:
        return make()
    except PeerError as error:
        print(f"  {name} is left out: {error}", flush=True)
        return None


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


def tilelang_name() -> str:
    """Return TileLang's name, with its version if it is installed."""
    version = importlib.metadata.version("tilelang") if installed("tilelang") else ""
    return f"TileLang {version}".rstrip()


@functools.cache
def cached_tilelang_matmul() -> Callable[..., Any]:
    """Return the function that compiles TileLang's matmul, once for each of its arguments."""
    return functools.cache(importlib.import_module("tilelang_kernels").matmul)


def tilelang_matmul(a: Any, b: Any) -> Run | None:
    """Return TileLang's matmul of contiguous float16 matrices, with its fastest tiles."""
    if not installed("tilelang"):
        return None
    compiled = cached_tilelang_matmul()
    (m, k), n = a.shape, b.shape[1]

    def run_of(tiles: Tiles) -> Run:
        sizes = m, n, k, tiles["BM"], tiles["BN"], tiles["BK"]

        def run() -> Any:
            return compiled(*sizes, tiles["num_stages"], 32 * tiles["num_warps"])(a, b)

        return run

    return fastest(map(run_of, matmul_tiles(m, n)))
