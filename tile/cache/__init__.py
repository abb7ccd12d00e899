"""The compilation cache on disk: compiled kernels, and programs that drivers built.

disk_cache   entries with a checksum, atomic writes, eviction of the least recently used
"""

from __future__ import annotations

from tile.cache.disk_cache import (
    CacheEntry,
    CacheFile,
    DiskCache,
    cache_folder,
    current_cache,
    digest,
)

__all__ = ["CacheEntry", "CacheFile", "DiskCache", "cache_folder", "current_cache", "digest"]
