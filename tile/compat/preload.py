"""Load the compiler in a process that forks workers, so that each worker need not load it.

TorchInductor's pool of compile workers is forked from a process that imports Triton, and asks for
Triton's key before the first fork. A worker without the compiler takes longer to load it than to
compile ten kernels.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import tile
import tile.language as tl
from tile.config import config
from tile.errors import TileError
from tile.runtime import compile as ahead_of_time

FORKS_WORKERS = ("_inductor", "compile_worker", "__main__.py")
MODULES = (
    "tile.backends.nvptx.driver",  # it opens no device when it is imported
    "tile.backends.nvptx.ptxas",
    "tile.language.extra.libdevice",
)
TARGET = "nvptx:sm_80"  # of no device, which a process that forks must not open


@tile.jit
def kernel(x_ptr, n, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """Use of the compiler what most kernels use."""
    i = tl.arange(0, block)
    x = tl.load(x_ptr + i, i < n, 0.0)
    tl.store(x_ptr + i, tl.sin(x) / tl.sum(x, 0), i < n)


def forks_workers() -> bool:
    """Return True if the main module is that of TorchInductor's pool."""
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    return path is not None and Path(path).parts[-len(FORKS_WORKERS) :] == FORKS_WORKERS


def load_compiler() -> None:
    """Compile a kernel, which loads all that compilations share; without it workers load it."""
    try:
        for name in MODULES:
            importlib.import_module(name)
        with config.scope(cache=False):
            ahead_of_time.compile(
                kernel, {"x_ptr": "*fp32:16", "n": "i32"}, {"block": 512}, target=TARGET
            )
    except (TileError, ImportError):
        return
