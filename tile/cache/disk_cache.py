"""A folder of cache entries by key, which many processes share.

There are no locks. Entries are whole files, written atomically (`write_atomically`). A checksum
detects a damaged one, which counts as a miss, and two processes that miss the same entry both
create it. So a cache also works on file systems of clusters, where locks often do not.

Entries are code that runs with the rights of whoever loads it: a program for a CPU runs in this
process. A folder or an entry that another user owns or can write is not used; only the
administrator's may be.

The file of an entry begins with a line that names the format and a checksum of all that follows: a
line of JSON, then the parts, one after the other.

    tile-store-1 <sha256>
    {"key": <sha256>, "title": "add for nvptx:sm_90a", "facts": {...}, "parts": {"ptx": 5120}}
    ...

Facts are data (JSON), never pickled objects, so reading an entry runs no code, whoever wrote it.

`current_cache` is the compilation cache that the settings in force select, in `cache_folder()`.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import json
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tile._lazy import lazy_import
from tile.config import config
from tile.tracebacks import OnceWarner

FORMAT = b"tile-store-1"


class DamagedEntryError(Exception):
    """The bytes are not a whole entry, or are the entry of another key."""


@dataclass(frozen=True)
class CacheEntry:
    """The content of a cache entry.

    title: a description for people.
    facts: metadata, of JSON types (numbers, text, lists, dictionaries by text).
    parts: texts or binaries by name.
    """

    title: str
    facts: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, bytes] = field(default_factory=dict)


def digest(key: str) -> str:
    """Return the SHA-256 of a key, as 64 hexadecimal digits."""
    return hashlib.sha256(key.encode()).hexdigest()


def pack(key: str, entry: CacheEntry) -> bytes:
    """Return the bytes of an entry's file. Raises `TypeError` for facts that are not JSON."""
    head = {
        "key": digest(key),
        "title": entry.title,
        "facts": entry.facts,
        "parts": {name: len(part) for name, part in entry.parts.items()},
    }
    body = b"\n".join([json.dumps(head).encode(), b"".join(entry.parts.values())])
    return b"%s %s\n%s" % (FORMAT, hashlib.sha256(body).hexdigest().encode(), body)


def unpack(key: str, data: bytes) -> CacheEntry:
    """Return the entry of a file's bytes. Raises `DamagedEntryError`."""
    first, _, body = data.partition(b"\n")
    if first != b"%s %s" % (FORMAT, hashlib.sha256(body).hexdigest().encode()):
        raise DamagedEntryError("its checksum is wrong")
    line, _, rest = body.partition(b"\n")
    head = json.loads(line)
    if head["key"] != digest(key):
        raise DamagedEntryError("it is another entry's")
    parts, start = {}, 0
    for name, size in head["parts"].items():
        parts[name] = rest[start : start + size]
        start += size
    return CacheEntry(head["title"], head["facts"], parts)


def title(data: bytes) -> str:
    """Return the title in the first lines of a file; "" if they are not those of an entry.

    For listings: checks no checksum. The beginning of a file is enough if it has both lines.
    """
    first, _, body = data.partition(b"\n")
    if not first.startswith(FORMAT):
        return ""
    try:
        return str(json.loads(body.partition(b"\n")[0])["title"])
    except (ValueError, KeyError, TypeError):
        return ""


SUFFIX = ".tmp"  # of files that are being written
_PRIVATE = 0o700
_READABLE = 0o644  # less what the umask takes
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_ROOT = 0


def read_regular_file(path: Path, limit: int = -1) -> bytes:
    """Read a file, or its first `limit` bytes.

    Raises `OSError`, also for a file that is not regular: reading a FIFO would wait for a writer.
    """
    with open(path, "rb", opener=_open_nonblocking) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        return file.read(limit)


def _open_nonblocking(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file atomically, replacing an older one, and create its folder if necessary.

    It is written to a temporary file and renamed, which is atomic on every system. If several
    processes write the same file, each writes a whole one, and the last one stays. Raises
    `OSError`.
    """
    _make_private(path.parent)
    temporary = path.with_name(f"{path.name}.{os.urandom(8).hex()}{SUFFIX}")
    try:
        with open(temporary, "xb", opener=_open_readable) as file:
            file.write(data)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _make_private(folder: Path) -> None:
    """Create a folder and its missing parents, with access for their owner only."""
    for missing in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
        missing.mkdir(mode=_PRIVATE, exist_ok=True)


def _open_readable(path: str, flags: int) -> int:
    return os.open(path, flags, _READABLE)


def exposure(path: Path, *, sticky: bool = False) -> str:
    """Return how another user might have written a file or folder; "" if none might.

    The administrator is trusted, and so is a path that does not exist. With `sticky`, others may
    add to a folder with the sticky bit, since they cannot rename or remove what is in it. Only
    systems with POSIX owners and modes are checked.

    Raises `OSError` where the path cannot be examined.
    """
    if not hasattr(os, "geteuid"):
        return ""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    if status.st_uid not in (os.geteuid(), _ROOT):
        return f"{path} belongs to user {status.st_uid}"
    if status.st_mode & _OTHERS_WRITE and not (sticky and status.st_mode & stat.S_ISVTX):
        mode = stat.S_IMODE(status.st_mode)
        return f"other users can write to {path} (mode {mode:04o})"
    return ""


_ENDING = ".entry"
_NAME = 40  # digits of a key's digest that make a file's name
_HEAD = 1 << 14  # bytes at the beginning of a file that contain its title
_ABANDONED = 3600.0  # seconds after which an unfinished file is removed
_EVICT_TO = 0.9  # fraction of the limit to which eviction reduces the total size


@dataclass(frozen=True)
class CacheFile:
    """The file of an entry: its path, size in bytes, and time of last use (as `time.time`)."""

    path: Path
    size: int
    used: float

    @property
    def title(self) -> str:
        """The entry's title; "" if the file cannot be read."""
        try:
            return title(read_regular_file(self.path, _HEAD))
        except OSError:
            return ""


class DiskCache:
    """A cache of entries in `cache_folder`, which take at most `limit` bytes.

    No method raises for a problem with the folder: an entry that cannot be read is a miss, one that
    cannot be written is not stored, and a `RuntimeWarning` reports each problem once.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder = folder
        self.limit = limit
        self._warner = OnceWarner()

    def path(self, key: str) -> Path:
        """Return the path of a key's file."""
        return self.folder / (digest(key)[:_NAME] + _ENDING)

    def get(self, key: str) -> CacheEntry | None:
        """Return the entry of a key, or None. Removes a damaged one with a warning."""
        path = self.path(key)
        if self._is_exposed(path):
            return None
        try:
            data = read_regular_file(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self._warner.warn(f"{path} in the cache cannot be read, and is created again: {error}")
            return None
        try:
            entry = unpack(key, data)
        except DamagedEntryError as error:
            self.drop(key)
            self._warner.warn(f"{path} in the cache is damaged ({error}), and is created again")
            return None
        with contextlib.suppress(OSError):  # the folder may be read-only
            os.utime(path)
        return entry

    def put(self, key: str, entry: CacheEntry) -> None:
        """Store an entry, replacing an older one; then evict old ones beyond the limit."""
        path = self.path(key)
        if self._is_exposed():
            return
        try:
            write_atomically(path, pack(key, entry))
        except OSError as error:
            self._warner.warn(
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
            self._warner.warn(
                f"the cache {self.folder} is not used, since its entries run as you: {reason}. "
                "Let only yourself write there (`chmod go-w`), select a folder of your own by "
                "TILE_CACHE_DIR, or disable the cache (TILE_CACHE=0)"
            )
        return bool(reason)

    def drop(self, key: str) -> None:
        """Remove the entry of a key, if there is one."""
        _remove(self.path(key))

    def entries(self) -> list[CacheFile]:
        """Return the files of all entries, the most recently used first."""
        files = [CacheFile(*file) for file in self._files(_ENDING)]
        return sorted(files, key=lambda entry: entry.used, reverse=True)

    def clear(self) -> int:
        """Remove all entries and unfinished files, and return the number of entries removed."""
        for path, _, _ in self._files(SUFFIX):
            _remove(path)
        return sum(_remove(entry.path) for entry in self.entries())

    def _evict(self, written: Path) -> None:
        """Evict the least recently used entries, but never `written`."""
        entries = self.entries()
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


def _remove(path: Path) -> bool:
    """Remove a file; return True if there was one and it could be removed."""
    try:
        path.unlink()
    except OSError:
        return False
    return True


if TYPE_CHECKING:
    from platformdirs import user_cache_dir
else:
    user_cache_dir = lazy_import("platformdirs", "user_cache_dir")

_KERNELS = "kernels"


def cache_folder() -> Path:
    """Return the folder of all caches: TILE_CACHE_DIR, else the system's folder for caches."""
    return Path(config.cache_dir).expanduser() if config.cache_dir else _default_folder()


@functools.cache
def _default_folder() -> Path:
    return Path(user_cache_dir("tile", appauthor=False))


def current_cache() -> DiskCache | None:
    """Return the cache of compiled kernels; None if TILE_CACHE=0 disables it."""
    return open_cache(cache_folder(), config.cache_limit) if config.cache else None


@functools.cache
def open_cache(root: Path, limit: int) -> DiskCache:
    """Return the cache in a folder, whether or not TILE_CACHE enables it."""
    return DiskCache(root / _KERNELS, limit)
