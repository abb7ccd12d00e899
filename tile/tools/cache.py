"""`tile cache`: what is kept on disk between processes."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from tile import store
from tile.config import config
from tile.store.place import opened
from tile.tools.command import Command
from tile.tools.table import table

DESCRIPTION = """\
Kernels that were compiled are kept on disk, and other processes find them there.

  tile cache list     what is there, the one that was used last in front
  tile cache size     the folder, and how much is in it
  tile cache clear    remove all of it (results of autotuning stay)

TILE_CACHE_DIR names another folder, TILE_CACHE_LIMIT how much is kept (1G; what was not used for
longest goes first), and TILE_CACHE=0 keeps and looks up nothing. What is in it runs as you: a
folder that other users own or can write is not used.
"""

_UNITS = ((30, "GiB"), (20, "MiB"), (10, "KiB"))
_TIMES = ((86400, "days"), (3600, "hours"), (60, "minutes"))


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=sorted(_ACTIONS))


def _run(options: argparse.Namespace) -> int:
    print(_ACTIONS[options.action](opened(store.folder(), config.cache_limit)))
    return 0


def _list(place: store.Store) -> str:
    rows = [
        [one.title or "(damaged)", _bytes(one.size), _ago(time.time() - one.used)]
        for one in place.kept()
    ]
    return table(["what", "size", "last used"], rows)


def _size(place: store.Store) -> str:
    kept = place.kept()
    return (
        f"{place.folder}: {len(kept)} entries, {_bytes(sum(one.size for one in kept))} of "
        f"{_bytes(place.limit)}"
    )


def _clear(place: store.Store) -> str:
    return f"{place.folder}: {place.clear()} entries removed"


_ACTIONS: dict[str, Callable[[store.Store], str]] = {
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


COMMAND = Command("cache", "what is kept on disk", DESCRIPTION, _configure, _run)
