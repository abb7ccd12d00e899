"""Load the compiler before TorchInductor compiles a kernel, which takes less time than loading it.

TorchInductor's pool of compile workers is forked from a process that imports Triton, and asks for
Triton's key before the first fork. That process imports the compiler and compiles a kernel, so that
no worker does what is done once a process. Without workers a thread imports the compiler while
TorchInductor itself is imported. It compiles no kernel: the main thread, which runs Python in turn
with it, would wait for longer than the first kernel gains.
"""

from __future__ import annotations

import functools
import gc
import importlib
import os
import sys
import threading
from pathlib import Path

import tile
import tile.language as tl
from tile.config import config
from tile.errors import TileError
from tile.runtime import compile as ahead_of_time

FORKS_WORKERS = ("_inductor", "compile_worker", "__main__.py")
MODULES = (
    "tile.runtime.compiler",
    "tile.frontend.python.code_generator",
    "tile.backends.nvptx.compiler",
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


@functools.cache
def start_loading() -> threading.Thread:
    """Start a thread that imports the compiler, once a process."""
    thread = threading.Thread(target=import_compiler, name="tile-compiler")
    thread.start()
    if hasattr(os, "register_at_fork"):
        # A child would not have the thread, and wait for its locks forever.
        os.register_at_fork(before=thread.join)
    return thread


def import_compiler() -> None:
    """Import the compiler; without what it needs there is an error when a kernel is compiled."""
    try:
        for name in MODULES:
            importlib.import_module(name)
    except ImportError:
        return
    _promote_objects()


def _promote_objects() -> None:
    """Move all objects to the oldest generation of Python's collector, without their being counted.

    What imports create lives as long as the process. A quarter as many new objects in that
    generation as old ones let the collector visit all of them, which takes 0.2 s in a process with
    PyTorch. Objects that the program has frozen itself would thaw, so then there is nothing to do.
    """
    if gc.get_freeze_count() == 0:
        gc.freeze()
        gc.unfreeze()


def load_compiler() -> None:
    """Compile a kernel, which loads all that compilations share; without it workers load it."""
    import_compiler()
    try:
        with config.scope(cache=False):
            ahead_of_time.compile(
                kernel, {"x_ptr": "*fp32:16", "n": "i32"}, {"block": 512}, target=TARGET
            )
    except (TileError, ImportError):
        return
