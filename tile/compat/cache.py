"""Folders of files by key, for libraries that store their own files with those of kernels."""

from __future__ import annotations

import base64
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tile
from tile.cache.disk_cache import write_atomically
from tile.compat import knobs
from tile.compat.preload import forks_workers, load_compiler
from tile.runtime.kernel_cache import compiler_identity

GROUP = "__grp__"


class CacheManager(ABC):
    """The files of one key."""

    def __init__(self, key: str, override: bool = False, dump: bool = False) -> None:
        self.key = key

    @abstractmethod
    def get_file(self, filename: str) -> str | None:
        """Return the path of a file, or None if there is none."""

    @abstractmethod
    def put(self, data: bytes | str, filename: str, binary: bool = True) -> str:
        """Store a file, and return its path."""

    @abstractmethod
    def get_group(self, filename: str) -> dict[str, str] | None:
        """Return the paths of a group of files by name, or None if one is missing."""

    @abstractmethod
    def put_group(self, filename: str, group: Mapping[str, str]) -> str:
        """Store the paths of a group of files."""


class FileCacheManager(CacheManager):
    """The files of one key, in a folder of `TRITON_CACHE_DIR` or of dumps or overrides."""

    def __init__(self, key: str, override: bool = False, dump: bool = False) -> None:
        super().__init__(key, override, dump)
        folders = knobs.cache
        root = folders.override_dir if override else folders.dump_dir if dump else folders.dir
        self.cache_dir = str(Path(root) / key)
        if not override:
            Path(self.cache_dir).mkdir(parents=True, exist_ok=True)

    def _make_path(self, filename: str) -> str:
        return str(Path(self.cache_dir) / filename)

    def has_file(self, filename: str) -> bool:
        """Return True if there is a file."""
        return Path(self._make_path(filename)).exists()

    def get_file(self, filename: str) -> str | None:
        return self._make_path(filename) if self.has_file(filename) else None

    def put(self, data: Any, filename: str, binary: bool = True) -> str:
        content = data if isinstance(data, bytes) else str(data).encode()
        write_atomically(Path(self._make_path(filename)), content)
        return self._make_path(filename)

    def get_group(self, filename: str) -> dict[str, str] | None:
        path = self.get_file(GROUP + filename)
        if path is None:
            return None
        try:
            paths: dict[str, str] = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return paths if all(Path(one).exists() for one in paths.values()) else None

    def put_group(self, filename: str, group: Mapping[str, str]) -> str:
        return self.put(json.dumps(dict(group)), GROUP + filename, binary=False)


class RemoteCacheBackend(ABC):
    """A store of files on another machine, which `tile` does not use."""

    def __init__(self, key: str) -> None:
        self.key = key

    @abstractmethod
    def get(self, filenames: list[str]) -> dict[str, bytes]:
        """Return the files that the store has."""

    @abstractmethod
    def put(self, filename: str, data: bytes) -> None:
        """Store a file."""


def _base32(key: str) -> str:
    """Return a hexadecimal key as the name of a folder."""
    return base64.b32encode(bytes.fromhex(key)).decode().rstrip("=")


def _manager(key: str, **kind: bool) -> CacheManager:
    manager = knobs.cache.manager_class or FileCacheManager
    return manager(_base32(key), **kind)


def get_cache_manager(key: str) -> CacheManager:
    """Return the files of a hexadecimal key."""
    return _manager(key)


def get_override_manager(key: str) -> CacheManager:
    """Return the files of a hexadecimal key that replace stages."""
    return _manager(key, override=True)


def get_dump_manager(key: str) -> CacheManager:
    """Return the dumped files of a hexadecimal key."""
    return _manager(key, dump=True)


def make_so_cache_key(
    version_hash: str, signature: Mapping[Any, str], constants: Any, ids: Any, **kwargs: Any
) -> str:
    """Return the key of a shared library for a signature."""
    types = ["ptr" if kind.startswith("*") else kind for kind in signature.values()]
    text = "-".join([version_hash, *types, str(constants), str(ids), *map(str, kwargs.values())])
    return _base32(hashlib.sha256(text.encode()).hexdigest())


def triton_key() -> str:
    """Return the version of the compiler: of `tile` with all of its files, Python and NumPy.

    TorchInductor's pool asks for it before it forks its workers.
    """
    if forks_workers():
        load_compiler()
    text = f"{tile.__version__}\n{compiler_identity()}"
    return hashlib.sha256(text.encode()).hexdigest()
