"""Machine code for the host: where it comes from, and where there is none."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest

from tile.backends.nvptx import host_code, host_compiler, launch_stub
from tile.backends.nvptx.host_code import member_offset
from tile.backends.nvptx.inline_cache import inline_cache
from tile.backends.nvptx.launch_stub import CONFIG, Block, Driver
from tile.cache import current_cache


def test_the_code_is_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILE_CACHE", "1")
    monkeypatch.setenv("TILE_CACHE_DIR", str(tmp_path))
    code = host_code._cached_code("launch_stub")
    cache = current_cache()
    assert cache is not None
    assert [entry.title.split(" for ")[0] for entry in cache.entries()] == ["launch_stub"]
    monkeypatch.setattr(host_code, "machine_code", lambda text: b"compiled again")
    assert host_code._cached_code("launch_stub") == code
    assert host_code._cached_code("inline_cache") == b"compiled again"
    monkeypatch.setenv("TILE_CACHE", "0")
    assert host_code._cached_code("launch_stub") == b"compiled again"


def test_code_with_symbols_is_refused() -> None:
    """Only code without relocations runs where it is copied to."""
    text = "declare void @other()\ndefine void @f() {\n  call void @other()\n  ret void\n}\n"
    with pytest.raises(RuntimeError, match="refers to symbols"):
        host_compiler.machine_code(text)


@pytest.mark.parametrize(
    "file", ["launch_stub", "inline_cache", "descriptor_maker", "address_reader"]
)
def test_code_for_an_arm_host(monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    compile_here = host_compiler.machine_code
    triple = "aarch64-unknown-linux-gnu"
    monkeypatch.setattr(host_code, "machine_code", lambda text: compile_here(text, triple))
    code = host_code._cached_code(file)
    assert len(code) % 4 == 0 and b"\xc0\x03\x5f\xd6" in code  # ret


@pytest.mark.parametrize(
    "reason", ["memfd_create", "mmap", "llvmlite", "target", "threads", "pypy"]
)
def test_a_system_without_such_code(monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    """Windows, a policy, an installation without LLVM, no target, no GIL, another Python."""

    def refuse(*arguments: Any, **options: Any) -> Any:
        raise {"llvmlite": ImportError, "target": RuntimeError}.get(reason, PermissionError)

    if reason == "memfd_create":
        monkeypatch.delattr(host_code.os, "memfd_create")
    elif reason == "mmap":
        monkeypatch.setattr(host_code.mmap, "mmap", refuse)
    elif reason in ("llvmlite", "target"):
        monkeypatch.setattr(host_code, "_cached_code", refuse)
    elif reason == "threads":
        monkeypatch.setattr(host_code.sys, "abiflags", "t")
    else:
        monkeypatch.setattr(host_code.sys.implementation, "name", reason)
    uncached = host_code.host_code.__wrapped__
    assert uncached("launch_stub", "PyErr_Clear") is None
    for module in ("launch_stub", "inline_cache"):
        monkeypatch.setattr(f"tile.backends.nvptx.{module}.host_code", uncached)
    launches: list[Any] = []
    prototype = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)
    function = prototype(lambda *arguments: len(launches.append(arguments) or ()))
    block = Block(0, bytes(CONFIG.size), 0, 0, ())
    driver = Driver(function, 1234, lambda: 7, (ctypes.c_int32 * 1)(), None)
    assert launch_stub.launch_stub(block, driver)() and len(launches) == 1

    def otherwise() -> None:
        """Stand for a launch function."""

    guards: Any = None
    assert inline_cache(guards, otherwise, bool, None, otherwise) is otherwise


def test_offsets_of_members() -> None:
    class Members:
        __slots__ = ("one", "two")

    class Plain:
        one = 1

    class More(Members):
        pass

    offsets = [member_offset(Members, name) for name in Members.__slots__]
    members: Any = Members()
    members.one, members.two = objects = "first", ("second",)
    words = [ctypes.c_uint64.from_address(id(members) + offset).value for offset in offsets]
    assert words == list(map(id, objects))
    assert (
        member_offset(Plain, "one")
        == member_offset(Members, "three")
        == member_offset(More, "one")
        == 0
    )
