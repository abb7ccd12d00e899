"""The folder of the compilation cache, and the cache that the settings in force select."""

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
    """Return the folder of all caches: TILE_CACHE_DIR, else the system's folder for caches."""
    return Path(config.cache_dir).expanduser() if config.cache_dir else _default_folder()


@functools.cache
def _default_folder() -> Path:
    return Path(user_cache_dir("tile", appauthor=False))


def current() -> Store | None:
    """Return the cache of compiled kernels; None if TILE_CACHE=0 disables it."""
    return opened(folder(), config.cache_limit) if config.cache else None


@functools.cache
def opened(root: Path, limit: int) -> Store:
    """Return the cache in a folder, whether or not TILE_CACHE enables it."""
    return Store(root / _KERNELS, limit)
