"""A folder of entries by key, which many processes share.

Nobody locks. Entries are whole files (`files.write_whole`), a damaged one is found by its checksum
and counts as none, and two processes that miss the same entry both make it. So a store works on
file systems of clusters too, where locks often do not.

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
_HEAD = 1 << 14  # bytes of a file in which its title is
_ABANDONED = 3600.0  # seconds after which a file that nobody finished is removed
_ROOM = 0.9  # of the limit, which removals make


@dataclass(frozen=True)
class Kept:
    """An entry in a folder: its file, size in bytes, and when it was last used (as `time.time`)."""

    path: Path
    size: int
    used: float

    @property
    def title(self) -> str:
        """What it is; nothing where the file cannot be read."""
        try:
            return title(read_regular(self.path, _HEAD))
        except OSError:
            return ""


class Store:
    """The entries in `folder`, which take `limit` bytes at most.

    Nothing here raises for what is wrong with the folder: what cannot be read is not there, what
    cannot be written is not kept, and a `RuntimeWarning` says so, once for each trouble.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder = folder
        self.limit = limit
        self._told: set[str] = set()

    def path(self, key: str) -> Path:
        """The file of a key."""
        return self.folder / (digest(key)[:_NAME] + _ENDING)

    def get(self, key: str) -> Entry | None:
        """The entry under a key, or None. A damaged one is removed, and warned of."""
        path = self.path(key)
        if self._is_exposed(path):
            return None
        try:
            data = read_regular(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self._warn(f"{path} in the cache cannot be read, and is made again: {error}")
            return None
        try:
            entry = unpack(key, data)
        except DamagedEntryError as error:
            self.drop(key)
            self._warn(f"{path} in the cache is damaged ({error}), and is made again")
            return None
        with contextlib.suppress(OSError):  # a folder may be there to be read only
            os.utime(path)
        return entry

    def put(self, key: str, entry: Entry) -> None:
        """Keep an entry, in the place of an older one; then remove old ones beyond the limit."""
        path = self.path(key)
        if self._is_exposed():
            return
        try:
            write_whole(path, pack(key, entry))
        except OSError as error:
            self._warn(
                f"{entry.title} is not kept in the cache {self.folder}: {error}; TILE_CACHE_DIR "
                "names another folder, and TILE_CACHE=0 keeps nothing"
            )
            return
        self._make_room(path)

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
                f"the cache {self.folder} is not used, since what is in it runs as you: {reason}. "
                "Let only yourself write there (`chmod go-w`), name a folder of your own by "
                "TILE_CACHE_DIR, or keep nothing (TILE_CACHE=0)"
            )
        return bool(reason)

    def drop(self, key: str) -> None:
        """Remove an entry, if it is there."""
        _remove(self.path(key))

    def kept(self) -> list[Kept]:
        """The entries that are there, the one that was used last in front."""
        found = [Kept(*facts) for facts in self._files(_ENDING)]
        return sorted(found, key=lambda one: one.used, reverse=True)

    def clear(self) -> int:
        """Remove all entries, and what was left half-written; how many entries there were."""
        for path, _, _ in self._files(SUFFIX):
            _remove(path)
        return sum(_remove(one.path) for one in self.kept())

    def _make_room(self, written: Path) -> None:
        """Remove what was not used for longest, never what was just written."""
        kept = self.kept()
        total = sum(one.size for one in kept)
        if total > self.limit:
            for one in reversed(kept):
                if total <= self.limit * _ROOM:
                    break
                if one.path != written:
                    total -= one.size
                    _remove(one.path)
        for path, _, used in self._files(SUFFIX):
            if time.time() - used > _ABANDONED:
                _remove(path)

    def _files(self, ending: str) -> Iterator[tuple[Path, int, float]]:
        """The files with that ending: path, size, time. Others may remove them meanwhile."""
        try:
            with os.scandir(self.folder) as found:
                for file in found:
                    if file.name.endswith(ending):
                        with contextlib.suppress(OSError):
                            facts = file.stat(follow_symlinks=False)
                            yield Path(file.path), facts.st_size, facts.st_mtime
        except OSError:
            return

    def _warn(self, message: str) -> None:
        if message not in self._told:
            self._told.add(message)
            warn(message)


def _remove(path: Path) -> bool:
    """Remove a file; whether it was there and could be."""
    try:
        path.unlink()
    except OSError:
        return False
    return True
