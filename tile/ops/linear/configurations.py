"""Tiles of matmuls by type and sizes M, N and K."""

from __future__ import annotations

from typing import Any

from tile.ops.core.call import F32, F64
from tile.ops.core.new_arrays import DType
from tile.ops.core.tables import ANY, Bounds, Configuration, Table

# Programs that keep all multiprocessors busy, by backend: an H200 has 132.
PROGRAMS = {"nvptx": 132}


def tiles(m: int, n: int, k: int, warps: int = 4, stages: int = 3) -> dict[str, Any]:
    """Return a configuration with tiles of m x n of the result and a step of k in the loop."""
    blocks = {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP": 8}
    return {**blocks, "num_warps": warps, "num_stages": stages}


def dependent(m: int, n: int, k: int, warps: int = 4, stages: int = 3) -> dict[str, Any]:
    """Return a configuration whose launches are dependent."""
    return {**tiles(m, n, k, warps, stages), "launch_pdl": True}


PORTABLE: dict[Bounds, Configuration] = {
    (16, ANY, ANY): tiles(16, 64, 32),
    (ANY, ANY, ANY): tiles(64, 64, 32),
}
# H200, float16, 2026-11-26: the fastest of 51 tiles, with splits, of 24 shapes (docs/notes/ops.md);
# the sizes between those measured are interpolated.
SHORT = Table(
    PORTABLE,
    {
        "nvptx": {
            (16, 16, ANY): tiles(16, 16, 128),
            (16, 64, ANY): tiles(16, 32, 128),
            (2048, 16, ANY): tiles(16, 16, 128),
            (ANY, 16, ANY): tiles(64, 16, 128),
            (2048, 32, ANY): tiles(16, 32, 128),
            (ANY, 32, ANY): tiles(64, 32, 128),
            (ANY, 128, ANY): tiles(64, 64, 64, stages=4),
            (16, ANY, ANY): tiles(16, 128, 64, stages=4),
            (64, ANY, ANY): tiles(64, 128, 64, stages=4),
            (128, ANY, ANY): tiles(64, 64, 128),
            (512, 512, 1024): tiles(64, 64, 128),
            (512, 512, ANY): tiles(128, 128, 64, stages=4),
            (2048, 256, ANY): tiles(64, 64, 128),
            (2048, 512, ANY): tiles(64, 128, 64, stages=4),
            (1024, 1024, ANY): tiles(64, 128, 64, stages=4),
            (256, ANY, ANY): tiles(128, 128, 64, stages=4),
            (2048, 1024, ANY): tiles(128, 128, 64, stages=4),
            (1536, 1536, ANY): tiles(64, 128, 64),
            (1792, 1792, ANY): tiles(128, 128, 64),
            (2048, 2048, ANY): tiles(128, 256, 64, warps=8),
            (2048, ANY, ANY): tiles(256, 128, 64, warps=8, stages=4),
            (3072, 3072, ANY): tiles(64, 256, 64, stages=4),
            (ANY, ANY, 64): tiles(128, 128, 32, stages=4),
            (ANY, ANY, 512): tiles(128, 128, 64),
            (ANY, ANY, ANY): tiles(128, 256, 64, warps=8, stages=4),
        }
    },
)
# Elements of the inner axis that are worth a program of their own: with fewer, adding up the parts
# takes longer than what they save. Of 512 to 2048, with the tiles above.
LEAST_INNER = 1300
# The same of float32 by fused multiply-adds, and programs on a multiprocessor: 1024 cubed in
# two splits has 1.05 of cuBLAS, where one has .86 (H200, 2026-11-29).
LEAST_FMA_INNER, FMA_RESIDENT = 256, 2
# Shapes whose tiles programs share evenly (stream_k.py), instead of adding up splits: H200,
# float16, 2026-11-26, of 25 shapes.
STREAMED = Table(
    {(ANY, ANY, ANY): {"stream": False}},
    {
        "nvptx": {
            (2559, ANY, ANY): {"stream": False},
            (ANY, ANY, 2047): {"stream": False},
            (4096, 16, 8192): {"stream": True},
            (4096, 32, 4096): {"stream": True},
            (ANY, ANY, ANY): {"stream": False},
        }
    },
)
# float64, of 256 to 4096 cubed: H200, 2026-11-30 (docs/notes/ops.md).
DOUBLE = Table(
    PORTABLE,
    {
        "nvptx": {
            (512, 512, ANY): tiles(32, 32, 64),
            (768, 768, ANY): tiles(32, 32, 32, stages=4),
            (1536, 1536, ANY): tiles(32, 64, 16, warps=2, stages=4),
            (256, ANY, ANY): tiles(32, 64, 16, warps=2, stages=4),
            (ANY, 256, ANY): tiles(32, 64, 16, warps=2, stages=4),
            (ANY, ANY, ANY): tiles(128, 64, 16, stages=4),
        }
    },
)
# float32 by fused multiply-adds, of 1024 to 4096 cubed: H200, 2026-11-29.
SINGLE = Table(
    PORTABLE,
    {
        "nvptx": {
            (256, ANY, ANY): tiles(64, 64, 16, stages=4),
            (ANY, 256, ANY): tiles(64, 64, 16, stages=4),
            (512, 512, ANY): tiles(64, 64, 16, stages=4),
            (1024, 1024, ANY): tiles(64, 128, 16, stages=4),
            (1792, 1792, ANY): tiles(64, 64, 16, stages=4),
            (1024, ANY, ANY): tiles(128, 64, 16, stages=4),
            (ANY, 1024, ANY): tiles(128, 64, 16, stages=4),
            (ANY, ANY, ANY): tiles(128, 128, 32, warps=8, stages=2),
        }
    },
)
# H200, tf32, 2026-11-26 (docs/notes/hopper.md), with B by rows, of 1024 to 8192 cubed. Large tiles
# of a small result keep few multiprocessors busy.
ROUNDED = Table(
    PORTABLE,
    {
        "nvptx": {
            (1024, 1024, ANY): tiles(128, 64, 64, stages=4),
            (ANY, ANY, ANY): tiles(256, 128, 32, warps=8, stages=4),
        }
    },
)


def tiles_of(
    backend: str, dtype: DType, m: int, n: int, k: int, precision: str = "ieee"
) -> Configuration:
    """Return the configuration of a matmul of M x K and K x N elements of `dtype`."""
    single = SINGLE if precision == "ieee" else ROUNDED
    table = {F32: single, F64: DOUBLE}.get(dtype, SHORT)
    return table.select(backend, m, n, k)


def is_streamed(backend: str, dtype: DType, m: int, n: int, k: int) -> bool:
    """Return True if programs should share the tiles of a matmul evenly."""
    return dtype.itemsize == 2 and bool(STREAMED.select(backend, m, n, k)["stream"])
