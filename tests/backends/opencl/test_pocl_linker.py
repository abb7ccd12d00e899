"""The linker that stands for `ld` where PoCL finds none: what it links, and what it refuses."""

from __future__ import annotations

import ctypes
import platform
import struct
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyopencl")
from tile.backends.opencl.pocl_linker import SYMTAB, LinkError, link, main

llvm = pytest.importorskip("llvmlite.binding")
pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="PoCL's for x86-64"
)

COUNTER = """
@counter = internal global i32 5
declare double @sqrt(double)
define i32 @next() {
  %old = load i32, ptr @counter
  %new = add i32 %old, 1
  store i32 %new, ptr @counter
  ret i32 %new
}
define double @root(double %x) {
  %y = call double @sqrt(double %x)
  ret double %y
}
"""


def object_of(text: str) -> bytes:
    """Compile LLVM IR to a position-independent object file."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple("x86_64-unknown-linux-gnu")
    machine = target.create_target_machine(opt=0, reloc="pic", codemodel="small")
    parsed = llvm.parse_assembly(text)
    parsed.triple = "x86_64-unknown-linux-gnu"
    compiled: bytes = machine.emit_object(parsed)
    return compiled


def test_a_library_loads_and_runs(tmp_path: Path) -> None:
    source, library = tmp_path / "kernel.o", tmp_path / "kernel.so"
    source.write_bytes(object_of(COUNTER))
    assert main(["-shared", "-o", str(library), str(source)]) == 0
    loaded = ctypes.CDLL(str(library))
    assert [loaded.next(), loaded.next()] == [6, 7]
    loaded.root.restype, loaded.root.argtypes = ctypes.c_double, [ctypes.c_double]
    assert loaded.root(9.0) == 3.0


def test_other_files_are_refused() -> None:
    with pytest.raises(LinkError, match="not an object file for x86-64"):
        link(b"\x7fELF\x01\x01" + bytes(64))


def test_an_object_without_symbols_is_refused() -> None:
    data = bytearray(object_of(COUNTER))
    (table,) = struct.unpack_from("<Q", data, 40)
    (count,) = struct.unpack_from("<H", data, 60)
    for number in range(count):
        if struct.unpack_from("<I", data, table + 64 * number + 4) == (SYMTAB,):
            struct.pack_into("<I", data, table + 64 * number + 4, 1)
    with pytest.raises(LinkError, match="no symbols"):
        link(bytes(data))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "@x = thread_local global i32 5 define ptr @f() { ret ptr @x }",
            r"relocation \d+ in \.text",
        ),
        (
            "@x = common global i32 0 define i32 @f() { %v = load i32, ptr @x ret i32 %v }",
            "symbol 'x' has no address",
        ),
    ],
    ids=["thread-local", "common"],
)
def test_what_it_does_not_link_is_refused(text: str, message: str) -> None:
    with pytest.raises(LinkError, match=message):
        link(object_of(text))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "out.so", "a.o", "b.o"], "it links one object into one library, not -o out.so a.o"),
        (["a.o"], "it links one object into one library, not a.o"),
        (["-o", "out.so", "absent.o"], "No such file or directory"),
    ],
)
def test_wrong_arguments_are_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert error.startswith("tile's linker: ") and message in error
