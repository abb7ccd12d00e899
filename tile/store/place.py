"""Where compiled kernels are kept, and the store that the settings in force ask for."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

from tile.config import config
from tile.late import late
from tile.store.store import Store

if TYPE_CHECKING:
    from platformdirs import user_cache_dir
else:
    user_cache_dir = late("platformdirs", "user_cache_dir")

_KERNELS = "kernels"


def folder() -> Path:
    """The folder of all that is kept: TILE_CACHE_DIR, else the system's place for caches."""
    return Path(config.cache_dir).expanduser() if config.cache_dir else _usual()


@functools.cache
def _usual() -> Path:
    return Path(user_cache_dir("tile", appauthor=False))


def current() -> Store | None:
    """The store of compiled kernels; None where TILE_CACHE=0 forbids one."""
    return opened(folder(), config.cache_limit) if config.cache else None


@functools.cache
def opened(place: Path, limit: int) -> Store:
    """The store in a folder, whether or not TILE_CACHE allows it to be used."""
    return Store(place / _KERNELS, limit)
