"""The compilation cache on disk: compiled kernels, and programs that drivers built.

entries   a cache entry, and its file format, whose checksum detects partial files
files     atomic writes of files
store     a folder of entries: lookup, insertion, eviction of the least recently used
place     the folder, and the cache that the settings select
"""

from __future__ import annotations

from tile.cache.disk_cache import Entry, Kept, Store, current, folder

__all__ = ["Entry", "Kept", "Store", "current", "folder"]
