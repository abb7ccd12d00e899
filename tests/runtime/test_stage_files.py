"""TILE_DUMP_STAGES, TILE_OVERRIDE_STAGES, TILE_PRINT_PTX and TILE_PRINT_LLVM."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tile
import tile.language as tl
from tile.config import config
from tile.errors import ArgumentValueError, UnsupportedError
from tile.runtime.kernel import CompiledKernel

TYPES = {"x_ptr": "*fp32:16"}


@tile.jit
def scale(x_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(x_ptr + i, tl.load(x_ptr + i) * 2)


def compiled(target: str = "interp:generic", B: int = 8) -> CompiledKernel:
    return tile.compile(scale, TYPES, {"B": B}, target=target)


def folder(root: Path) -> Path:
    (only,) = root.iterdir()
    return only


def dumped(root: Path, target: str = "interp:generic") -> Path:
    with config.scope(dump_stages=str(root)):
        compiled(target)
    return folder(root)


def test_stages_are_named_as_by_triton(tmp_path: Path) -> None:
    pytest.importorskip("llvmlite")
    files = dumped(tmp_path, "nvptx:sm_90a")
    kernel = compiled("nvptx:sm_90a")
    for stage in ("ttir", "ttgir", "llir", "ptx"):
        assert (files / f"scale.{stage}").read_text() == kernel.asm[stage]
    text = (files / "kernel.txt").read_text()
    assert "scale(x_ptr: *fp32:16, B=8)" in text and "tl.store(x_ptr + i" in text


def test_kernels_have_folders_that_stay(tmp_path: Path) -> None:
    with config.scope(dump_stages=str(tmp_path)):
        compiled()
        first = folder(tmp_path)
        compiled()
        assert folder(tmp_path) == first
        compiled(B=16)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_kernel_of_the_cache_is_dumped(tmp_path: Path) -> None:
    with config.scope(cache=True, cache_dir=str(tmp_path / "cache")):
        compiled()
        assert (dumped(tmp_path / "stages") / "scale.ttir").exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        config.scope(dump_stages=str(tmp_path / "file")),
        pytest.raises(ArgumentValueError, match=r"TILE_DUMP_STAGES=.*file: cannot write"),
    ):
        compiled()


def test_tile_ir_replaces_that_of_a_kernel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = dumped(tmp_path / "stages") / "scale.ttir"
    edited = file.read_text().replace("2.0", "3.0")
    assert edited != file.read_text()
    own = tmp_path / "own" / file.parent.name
    own.mkdir(parents=True)
    (own / "scale.ttir").write_text(edited)
    x = np.ones(8, np.float32)
    with config.scope(override_stages=str(tmp_path / "own")):
        compiled()[(1,)](x, 8)
    assert x.tolist() == [3.0] * 8
    assert f"Overriding kernel with file {own / 'scale.ttir'}" in capsys.readouterr().out


def test_ptx_replaces_that_of_a_kernel(tmp_path: Path) -> None:
    pytest.importorskip("llvmlite")
    files = dumped(tmp_path, "nvptx:sm_90a")
    edited = f"{(files / 'scale.ptx').read_text()}// by hand\n"
    (files / "scale.ptx").write_text(edited)
    with config.scope(override_stages=str(tmp_path)):
        assert compiled("nvptx:sm_90a").asm["ptx"] == edited
    assert compiled("nvptx:sm_90a").asm["ptx"] != edited


def test_a_copy_that_is_not_edited_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dumped(tmp_path)
    with config.scope(override_stages=str(tmp_path)):
        compiled()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("stage", ["ttgir", "llir"])
def test_other_stages_are_not_replaced(tmp_path: Path, stage: str) -> None:
    pytest.importorskip("llvmlite")
    file = dumped(tmp_path, "nvptx:sm_90a") / f"scale.{stage}"
    file.write_text(f"{file.read_text()}\n")
    with (
        config.scope(override_stages=str(tmp_path)),
        pytest.raises(UnsupportedError, match=rf"{stage} is not the {stage} of `scale`") as refused,
    ):
        compiled("nvptx:sm_90a")
    assert "remove the file, or restore it from a dump" in refused.value.notes


def test_kernels_for_overlapping_arrays_are_dumped_too(tmp_path: Path) -> None:
    pytest.importorskip("llvmlite")
    kernel = compiled("nvptx:sm_90a")
    with config.scope(dump_stages=str(tmp_path)):
        assert kernel._for_overlap.asm["ttir"] == (folder(tmp_path) / "scale.ttir").read_text()


def test_llvm_ir_and_ptx_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("llvmlite")
    with config.scope(print_llvm=True, print_ptx=True):
        kernel = compiled("nvptx:sm_90a")
    printed = capsys.readouterr()
    assert printed.err == f"; LLVM IR of scale\n{kernel.asm['llir']}\n"
    assert printed.out == f"// -----// NVPTX Dump //----- //\n{kernel.asm['ptx']}\n"
