"""`tile cache` as one uses it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tile import cache
from tile.cache.disk_cache import open_cache
from tile.tools.cli import main


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> cache.DiskCache:
    monkeypatch.setenv("TILE_CACHE_DIR", str(tmp_path))
    return open_cache(tmp_path, 1 << 30)


def test_an_empty_one(capsys) -> None:
    for action, words in (
        ("list", "entry"),
        ("size", "0 entries, 0 B of 1.0 GiB"),
        ("clear", "0 e"),
    ):
        assert main(["cache", action]) == 0
        assert words in capsys.readouterr().out


def test_what_is_there(place: cache.DiskCache, tmp_path: Path, capsys) -> None:
    place.put("one", cache.CacheEntry("add for nvptx:sm_90a", parts={"ptx": bytes(3000)}))
    place.put("two", cache.CacheEntry("sub for nvptx:sm_90a"))
    then = time.time() - 3 * 3600
    os.utime(place.path("one"), (then, then))
    damaged = place.folder / "x.entry"
    damaged.write_bytes(b"nothing that one wrote")
    assert main(["cache", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("sub for nvptx:sm_90a" in line and "just now" in line for line in lines)
    assert "add for nvptx:sm_90a" in lines[-1] and "3.1 KiB" in lines[-1]
    assert "3 hours ago" in lines[-1] and any("(damaged)" in line for line in lines)
    assert main(["cache", "size"]) == 0
    assert f"{tmp_path / 'kernels'}: 3 entries, 3.4 KiB of 1.0 GiB" in capsys.readouterr().out
    assert main(["cache", "clear"]) == 0
    assert "3 entries removed" in capsys.readouterr().out
    assert not list(place.folder.iterdir())
