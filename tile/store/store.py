"""A folder of cache entries by key, which many processes share.

There are no locks. Entries are whole files (`files.write_whole`), a checksum detects a damaged one,
which counts as a miss, and two processes that miss the same entry both create it. So a cache also
works on file systems of clusters, where locks often do not.

Entries are code that runs with the rights of whoever loads it. A folder or an entry that another
user owns or can write is not used; only the administrator's may be.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tile.store.entries import DamagedEntryError, Entry, digest, pack, title, unpack
from tile.store.files import SUFFIX, exposure, read_regular, write_whole
from tile.warn import warn

_ENDING = ".entry"
_NAME = 40  # digits of a key's digest that make a file's name
_HEAD = 1 << 14  # bytes at the beginning of a file that contain its title
_ABANDONED = 3600.0  # seconds after which an unfinished file is removed
_EVICT_TO = 0.9  # fraction of the limit to which eviction reduces the total size


@dataclass(frozen=True)
class Kept:
    """The file of an entry: its path, size in bytes, and time of last use (as `time.time`)."""

    path: Path
    size: int
    used: float

    @property
    def title(self) -> str:
        """The entry's title; "" if the file cannot be read."""
        try:
            return title(read_regular(self.path, _HEAD))
        except OSError:
            return ""


class Store:
    """A cache of entries in `folder`, which take at most `limit` bytes.

    No method raises for a problem with the folder: an entry that cannot be read is a miss, one that
    cannot be written is not stored, and a `RuntimeWarning` reports each problem once.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder = folder
        self.limit = limit
        self._warned: set[str] = set()

    def path(self, key: str) -> Path:
        """Return the path of a key's file."""
        return self.folder / (digest(key)[:_NAME] + _ENDING)

    def get(self, key: str) -> Entry | None:
        """Return the entry of a key, or None. Removes a damaged one with a warning."""
        path = self.path(key)
        if self._is_exposed(path):
            return None
        try:
            data = read_regular(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self._warn(f"{path} in the cache cannot be read, and is created again: {error}")
            return None
        try:
            entry = unpack(key, data)
        except DamagedEntryError as error:
            self.drop(key)
            self._warn(f"{path} in the cache is damaged ({error}), and is created again")
            return None
        with contextlib.suppress(OSError):  # the folder may be read-only
            os.utime(path)
        return entry

    def put(self, key: str, entry: Entry) -> None:
        """Store an entry, replacing an older one; then evict old ones beyond the limit."""
        path = self.path(key)
        if self._is_exposed():
            return
        try:
            write_whole(path, pack(key, entry))
        except OSError as error:
            self._warn(
                f"{entry.title} is not stored in the cache {self.folder}: {error}; TILE_CACHE_DIR "
                "selects another folder, and TILE_CACHE=0 disables the cache"
            )
            return
        self._evict(path)

    def _is_exposed(self, *entries: Path) -> bool:
        """Return True, and warn, if another user might have written the folder or an entry."""
        try:
            reason = (
                exposure(self.folder.parent, sticky=True)
                or exposure(self.folder)
                or next(filter(None, map(exposure, entries)), "")
            )
        except OSError as error:
            reason = str(error)
        if reason:
            self._warn(
                f"the cache {self.folder} is not used, since its entries run as you: {reason}. "
                "Let only yourself write there (`chmod go-w`), select a folder of your own by "
                "TILE_CACHE_DIR, or disable the cache (TILE_CACHE=0)"
            )
        return bool(reason)

    def drop(self, key: str) -> None:
        """Remove the entry of a key, if there is one."""
        _remove(self.path(key))

    def kept(self) -> list[Kept]:
        """Return the files of all entries, the most recently used first."""
        files = [Kept(*file) for file in self._files(_ENDING)]
        return sorted(files, key=lambda entry: entry.used, reverse=True)

    def clear(self) -> int:
        """Remove all entries and unfinished files, and return the number of entries removed."""
        for path, _, _ in self._files(SUFFIX):
            _remove(path)
        return sum(_remove(entry.path) for entry in self.kept())

    def _evict(self, written: Path) -> None:
        """Evict the least recently used entries, but never `written`."""
        entries = self.kept()
        total = sum(entry.size for entry in entries)
        if total > self.limit:
            for entry in reversed(entries):
                if total <= self.limit * _EVICT_TO:
                    break
                if entry.path != written:
                    total -= entry.size
                    _remove(entry.path)
        for path, _, used in self._files(SUFFIX):
            if time.time() - used > _ABANDONED:
                _remove(path)

    def _files(self, ending: str) -> Iterator[tuple[Path, int, float]]:
        """Yield the files with an ending: path, size, time. Others may remove them meanwhile."""
        try:
            with os.scandir(self.folder) as files:
                for file in files:
                    if file.name.endswith(ending):
                        with contextlib.suppress(OSError):
                            status = file.stat(follow_symlinks=False)
                            yield Path(file.path), status.st_size, status.st_mtime
        except OSError:
            return

    def _warn(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            warn(message)


def _remove(path: Path) -> bool:
    """Remove a file; return True if there was one and it could be removed."""
    try:
        path.unlink()
    except OSError:
        return False
    return True
