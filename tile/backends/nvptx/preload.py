"""Load LLVM and libdevice in a thread, while the first kernel of a process is lowered.

The dynamic linker and LLVM release the GIL for nearly all of that time.
"""

from __future__ import annotations

import functools
import importlib
import os
import threading

from tile.errors import TileError


@functools.cache
def start() -> threading.Thread:
    """Start the thread, once a process."""
    thread = threading.Thread(target=_load, name="tile-llvm")
    thread.start()
    if hasattr(os, "register_at_fork"):
        # A child would not have the thread, and wait for its lock forever.
        os.register_at_fork(before=thread.join)
    return thread


def _load() -> None:
    """Load them; what fails is reported where a kernel needs it."""
    try:
        importlib.import_module("tile.backends.nvptx.libdevice").load()
    except (ImportError, OSError, TileError):
        return
