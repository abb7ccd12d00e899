"""A folder of entries: what is kept, found, damaged, removed, by one process or many."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from tests.processes import all_running
from tile.cache import CacheEntry, DiskCache, cache_folder, current_cache
from tile.config import config
from tile.errors import ArgumentValueError

ENTRY = CacheEntry(
    "add for somewhere", {"threads": 128, "names": ["x", "y"]}, {"a": b"1\n2", "b": b""}
)


@pytest.fixture
def store(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path / "made" / "when needed", 1 << 20)


def age(store: DiskCache, key: str, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(store.path(key), (then, then))


def test_a_stored_entry_is_found_again(store: DiskCache) -> None:
    assert store.get("one") is None and store.entries() == []
    store.put("one", ENTRY)
    store.put("two" * 10000, CacheEntry("other"))
    assert store.get("one") == ENTRY
    assert store.get("two" * 10000) == CacheEntry("other")
    assert {one.title for one in store.entries()} == {"add for somewhere", "other"}
    assert DiskCache(store.folder, 1).get("one") == ENTRY


def test_a_later_entry_takes_the_place_of_an_earlier_one(store: DiskCache) -> None:
    store.put("one", ENTRY)
    store.put("one", CacheEntry("again"))
    assert store.get("one") == CacheEntry("again") and len(store.entries()) == 1


@pytest.mark.parametrize("at", [0, 20, 100, -30, -1])
def test_a_changed_byte_is_detected(store: DiskCache, at: int) -> None:
    store.put("one", ENTRY)
    data = bytearray(store.path("one").read_bytes())
    data[at] ^= 1
    store.path("one").write_bytes(data)
    with pytest.warns(RuntimeWarning, match=r"in the cache is damaged \(its checksum is wrong\)"):
        assert store.get("one") is None
    with warnings.catch_warnings():  # it is said once: the file is gone
        warnings.simplefilter("error")
        assert store.get("one") is None
    store.put("one", ENTRY)
    assert store.get("one") == ENTRY


def test_every_truncated_file_is_detected(store: DiskCache) -> None:
    store.put("one", ENTRY)
    whole = store.path("one").read_bytes()
    for length in range(len(whole)):
        store.path("one").write_bytes(whole[:length])
        with pytest.warns(RuntimeWarning, match="damaged"):
            assert DiskCache(store.folder, 1 << 20).get("one") is None


def test_the_file_of_another_entry_is_detected(store: DiskCache) -> None:
    store.put("one", ENTRY)
    store.path("one").replace(store.path("two"))
    with pytest.warns(RuntimeWarning, match="it is another entry's"):
        assert store.get("two") is None


def test_what_was_not_used_for_longest_goes(tmp_path: Path) -> None:
    store = DiskCache(tmp_path, 5000)
    for number in range(4):
        store.put(str(number), CacheEntry(str(number), parts={"data": bytes(1000)}))
        age(store, str(number), 100 - number)
    assert store.get("0") is not None  # used just now
    store.put("4", CacheEntry("4", parts={"data": bytes(1000)}))
    assert {one.title for one in store.entries()} == {"0", "3", "4"}


def test_what_was_just_written_stays(tmp_path: Path) -> None:
    store = DiskCache(tmp_path, 10)
    store.put("large", ENTRY)
    assert store.get("large") == ENTRY


def test_what_nobody_finished_goes(store: DiskCache) -> None:
    store.put("one", ENTRY)
    old, young = (store.folder / f"{name}.tmp" for name in ("old", "young"))
    for path in (old, young):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    store.put("two", ENTRY)
    assert not old.exists() and young.exists()
    assert store.clear() == 2
    assert list(store.folder.iterdir()) == []


def test_an_impossible_folder_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    store = DiskCache(tmp_path / "file" / "kernels", 1 << 20)
    with pytest.warns(
        RuntimeWarning, match="add for somewhere is not stored in the cache .*TILE_CA"
    ):
        store.put("one", ENTRY)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.put("two", ENTRY)
    assert store.entries() == [] and store.clear() == 0


def test_an_entry_that_cannot_be_read_is_made_again(store: DiskCache) -> None:
    store.path("one").mkdir(parents=True)
    with pytest.warns(RuntimeWarning, match="cannot be read, and is created again"):
        assert store.get("one") is None


WRITER = """
import sys
from pathlib import Path
from tile.cache import CacheEntry, DiskCache
store = DiskCache(Path(sys.argv[1]), 1 << 14)  # smaller than all entries together
for turn in range(60):
    for key in range(8):
        found = store.get(str(key))
        assert found is None or found.parts["data"] == bytes([key]) * 4000, key
        if found is None or turn % 3 == 0:
            store.put(str(key), CacheEntry(str(key), parts={"data": bytes([key]) * 4000}))
"""


def test_many_processes_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", WRITER, str(tmp_path)]
    with all_running(command, 4, stderr=subprocess.PIPE) as running:
        for process in running:
            _, errors = process.communicate(timeout=120)
            assert process.returncode == 0, errors
    store = DiskCache(tmp_path, 1 << 14)
    assert sum(one.size for one in store.entries()) <= 1 << 14
    assert not list(tmp_path.glob("*.tmp"))


posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs owners and modes of POSIX")


@posix
def test_folders_are_made_for_their_owner_alone(store: DiskCache) -> None:
    before = os.umask(0)
    try:
        store.put("one", ENTRY)
    finally:
        os.umask(before)
    modes = [store.folder, store.folder.parent, store.path("one")]
    assert [path.stat().st_mode & 0o777 for path in modes] == [0o700, 0o700, 0o644]


@posix
@pytest.mark.parametrize("mode", [0o020, 0o002])
@pytest.mark.parametrize("place", ["folder", "parent", "entry"])
def test_what_others_can_write_is_not_used(store: DiskCache, place: str, mode: int) -> None:
    store.put("one", ENTRY)
    path = {"folder": store.folder, "parent": store.folder.parent, "entry": store.path("one")}[
        place
    ]
    path.chmod(path.stat().st_mode & 0o777 | mode)
    with pytest.warns(RuntimeWarning, match=f"not used.*can write to {path} .mode 0.*go-w"):
        assert store.get("one") is None
    with warnings.catch_warnings():  # it is said once
        warnings.simplefilter("error")
        assert store.get("one") is None
        store.put("two", ENTRY)
    assert store.path("two").exists() == (place == "entry")
    path.chmod(path.stat().st_mode & 0o755)
    assert store.get("one") == ENTRY


@posix
def test_a_folder_with_the_sticky_bit_may_hold_one_of_ours(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    store = DiskCache(tmp_path / "kernels", 1 << 20)
    store.put("one", ENTRY)
    assert store.get("one") == ENTRY
    store.folder.chmod(0o1777)  # others could add entries here
    with pytest.warns(RuntimeWarning, match="other users can write"):
        assert store.get("one") is None


@posix
@pytest.mark.parametrize("place", ["folder", "parent", "entry"])
def test_what_another_user_owns_is_not_used(
    store: DiskCache, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("one", ENTRY)
    path = {"folder": store.folder, "parent": store.folder.parent, "entry": store.path("one")}[
        place
    ]
    plain_stat, user = Path.stat, os.geteuid() + 1

    def stat(self: Path, **options: bool) -> os.stat_result:
        status = plain_stat(self, **options)
        return os.stat_result([*status[:4], user, *status[5:]]) if self == path else status

    monkeypatch.setattr(Path, "stat", stat)
    with pytest.warns(RuntimeWarning, match=f"not used.*{path} belongs to user {user}"):
        assert store.get("one") is None
    user = 0  # the administrator's
    assert store.get("one") == ENTRY


def test_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILE_CACHE_DIR", str(tmp_path))
    with config.scope(cache=False):
        assert current_cache() is None
    with config.scope(cache=True):
        monkeypatch.setenv("TILE_CACHE_LIMIT", "3M")
        store = current_cache()
        assert store is not None and store.folder.parent == cache_folder() == tmp_path
        assert store.limit == 3 << 20 and current_cache() is store
        for wrong in ("lots", "G", "1.5G", "-3"):
            monkeypatch.setenv("TILE_CACHE_LIMIT", wrong)
            with pytest.raises(
                ArgumentValueError, match="number of bytes, such as 4096, 500M or 2G"
            ):
                current_cache()
    monkeypatch.delenv("TILE_CACHE_DIR")
    assert cache_folder().name == "tile"


def test_what_has_to_do_with_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    before = config.cache_key_settings
    with config.scope(cache=False, backend="interp", dump="somewhere"):
        assert config.cache_key_settings == before
        assert config.observes_compiler
    assert not config.observes_compiler


def test_every_setting_is_in_the_documentation() -> None:
    text = Path(__file__).parents[2].joinpath("docs", "running.md").read_text()
    assert [v.name for v in config.variables().values() if f"`{v.name}`" not in text] == []


def a_fifo(path: Path) -> None:
    os.mkfifo(path)


def a_socket(path: Path) -> None:
    outside = socket.socket(socket.AF_UNIX)
    here = Path.cwd()
    os.chdir(path.parent)  # the names of sockets are short
    try:
        outside.bind(path.name)
    finally:
        os.chdir(here)
        outside.close()


ODD = {
    "a FIFO": a_fifo,
    "a socket": a_socket,
    "a folder": Path.mkdir,
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="POSIX has these")
@pytest.mark.parametrize("make", ODD.values(), ids=ODD)
def test_what_is_no_file_is_no_entry_and_nobody_waits_for_it(store: DiskCache, make) -> None:
    store.put("one", ENTRY)
    store.put("two", ENTRY)
    odd = store.path("one")
    odd.unlink()
    make(odd)
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        assert store.get("one") is None
        assert sorted(one.title for one in store.entries()) == ["", "add for somewhere"]
        store.put("one", ENTRY)
    assert store.get("two") == ENTRY
    assert odd.is_dir() or store.get("one") == ENTRY
    assert store.clear() == 2 - odd.is_dir()
