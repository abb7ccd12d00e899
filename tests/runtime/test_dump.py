"""TILE_DUMP and TILE_PRINT_AFTER of kernels: a folder each, from any thread or process."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.processes import all_running
from tile.config import config
from tile.errors import ArgumentValueError
from tile.tools.cli import main

ROOT = Path(__file__).parents[2]


def source(factor: int) -> str:
    return f"""\
import tile
import tile.language as tl


@tile.jit
def scale(x_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(x_ptr + i, tl.load(x_ptr + i) * {factor})
"""


@tile.jit
def scale(x_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(x_ptr + i, tl.load(x_ptr + i) * 2)


def compiled(kernel: tile.JITFunction = scale, B: int = 8, target: str = "interp:generic") -> None:
    tile.compile(kernel, {"x_ptr": "*fp32:16"}, {"B": B}, target=target)


def folders(dumped: Path) -> list[Path]:
    return sorted(dumped.iterdir())


def passes(folder: Path) -> Sequence[str]:
    return [path.stem for path in sorted(folder.glob("[0-9]*.tile"))]


def test_a_folder_has_all_passes_of_a_kernel_in_order(tmp_path: Path) -> None:
    with config.scope(dump=str(tmp_path)):
        compiled()
    (folder,) = folders(tmp_path)
    assert folder.name.startswith("scale-")
    names = passes(folder)
    assert [int(name.partition("-")[0]) for name in names] == list(range(len(names)))
    bare = [name.partition("-")[2] for name in names]
    assert bare[0] == "input" and "assign-layouts" in bare and "distribute" in bare
    assert bare.index("inline") < bare.index("assign-layouts")
    lines = (folder / "kernel.txt").read_text().splitlines()
    assert lines[0] == "scale(x_ptr: *fp32:16, B=8) for interp:generic"
    assert lines[1].startswith("Options(num_warps=4,") and "test_dump.py:" in lines[2]


def test_each_specialization_has_a_folder(tmp_path: Path) -> None:
    with config.scope(dump=str(tmp_path)):
        for _ in range(2):
            for B in (8, 16):
                compiled(B=B)
        compiled(target="interp")
    names = [folder.name for folder in folders(tmp_path)]
    assert len(names) == 5
    assert len({name.partition(".")[0] for name in names}) == 3
    assert sum(name.endswith(".2") for name in names) == 2


def test_kernels_of_one_name_in_two_modules_have_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    for name, factor in (("mine_one", 3), ("mine_other", 5)):
        (tmp_path / f"{name}.py").write_text(source(factor))
    import mine_one
    import mine_other

    dumped = tmp_path / "dumped"
    with config.scope(dump=str(dumped)):
        compiled(mine_one.scale)
        compiled(mine_other.scale)
    lines = [(folder / "kernel.txt").read_text() for folder in folders(dumped)]
    assert sorted("mine_one" in text for text in lines) == [False, True]


def test_threads_that_compile_at_once_do_not_meet(tmp_path: Path) -> None:
    def one(B: int) -> None:
        with config.scope(dump=str(tmp_path)):
            compiled(B=B)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one, [8, 16, 32, 8, 16, 32, 8, 16]))
    every = folders(tmp_path)
    assert len(every) == 8
    assert len({tuple(passes(folder)) for folder in every}) == 1
    for folder in every:
        width = (folder / "kernel.txt").read_text().partition("B=")[2].partition(")")[0]
        assert f"{width}xf32" in (folder / "00-input.tile").read_text()


def test_processes_that_compile_at_once_do_not_meet(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        source(2) + "\n\ntile.compile(scale, {'x_ptr': '*fp32:16'}, {'B': 8})\n"
    )
    dumped = tmp_path / "dumped"
    settings = {"TILE_DUMP": str(dumped), "PYTHONPATH": str(ROOT), "PATH": ""}
    with all_running([sys.executable, "program.py"], 3, cwd=tmp_path, env=settings) as running:
        assert [process.wait() for process in running] == [0, 0, 0]
    every = folders(dumped)
    name = every[0].name
    assert [folder.name for folder in every] == [name, f"{name}.2", f"{name}.3"]
    assert len({tuple(passes(folder)) for folder in every}) == 1


def test_a_kernel_under_a_debugger_has_a_folder_too(tmp_path: Path) -> None:
    with config.scope(dump=str(tmp_path)):
        compiled(target="interp:steps")
    (folder,) = folders(tmp_path)
    assert passes(folder) == ["00-input", "01-expand-inline-asm"]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with (
        config.scope(dump=str(file)),
        pytest.raises(ArgumentValueError, match="cannot write the IR of `scale` there"),
    ):
        compiled(target="interp")


def test_tile_explain_dumps_one_folder_for_its_lowering(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "program.py").write_text(source(2))
    dumped = tmp_path / "dumped"
    monkeypatch.setenv("TILE_DUMP", str(dumped))
    assert main(["explain", f"{tmp_path}/program.py:scale", "x_ptr=fp32[8]", "B=8"]) == 0
    optimized, lowered = sorted(folders(dumped), key=lambda folder: len(passes(folder)))
    assert not any("distribute" in name for name in passes(optimized))
    assert any("distribute" in name for name in passes(lowered))


@pytest.mark.parametrize("target", ["interp", "interp:generic"])
def test_unknown_passes_are_refused_with_those_there_are(target: str) -> None:
    with (
        config.scope(print_after=("dce", "distribut")),
        pytest.raises(
            ArgumentValueError,
            match=r"TILE_PRINT_AFTER: no pass is named `distribut`; there are all, .*distribute",
        ),
    ):
        compiled(target=target)


def test_a_pass_that_a_backend_lacks_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    with config.scope(print_after=("distribute",)):
        compiled(target="interp:generic")
        assert capsys.readouterr().err.startswith("// after distribute")
        compiled(target="interp")
    assert capsys.readouterr().err.startswith(
        "// `scale` was compiled without distribute; passes: "
    )
    assert scale.cache == {}
    x = np.ones(8, np.float32)
    scale[(1,)](x, B=8)
    assert x.sum() == 16
