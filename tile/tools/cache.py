"""`tile cache`: list or clear the compilation cache.

Compiled kernels are cached on disk, where other processes find them.

  tile cache list     the entries, the most recently used one first
  tile cache size     the folder, the number of entries and their size
  tile cache clear    remove all entries (results of autotuning stay)

TILE_CACHE_DIR sets the folder, TILE_CACHE_LIMIT the size limit (1G; the least recently used entries
are removed first), and TILE_CACHE=0 disables the cache. Cached code runs with your permissions:
a folder that other users own or can write is not used.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from tile.cache import DiskCache, cache_folder
from tile.cache.disk_cache import open_cache
from tile.config import config
from tile.tools.command import table

_UNITS = ((30, "GiB"), (20, "MiB"), (10, "KiB"))
_TIMES = ((86400, "days"), (3600, "hours"), (60, "minutes"))


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command to a parser."""
    parser.add_argument("action", choices=sorted(_ACTIONS))


def run(options: argparse.Namespace) -> int:
    """Run the command, and return its exit status."""
    print(_ACTIONS[options.action](open_cache(cache_folder(), config.cache_limit)))
    return 0


def _list(cache: DiskCache) -> str:
    rows = [
        [entry.title or "(damaged)", _bytes(entry.size), _ago(time.time() - entry.used)]
        for entry in cache.entries()
    ]
    return table(["entry", "size", "last used"], rows, left=(0,))


def _size(cache: DiskCache) -> str:
    entries = cache.entries()
    size = sum(entry.size for entry in entries)
    return f"{cache.folder}: {len(entries)} entries, {_bytes(size)} of {_bytes(cache.limit)}"


def _clear(cache: DiskCache) -> str:
    return f"{cache.folder}: {cache.clear()} entries removed"


_ACTIONS: dict[str, Callable[[DiskCache], str]] = {
    "list": _list,
    "size": _size,
    "clear": _clear,
}


def _bytes(number: int) -> str:
    for bits, unit in _UNITS:
        if number >= 1 << bits:
            return f"{number / (1 << bits):.1f} {unit}"
    return f"{number} B"


def _ago(seconds: float) -> str:
    for length, unit in _TIMES:
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit} ago"
    return "just now"
