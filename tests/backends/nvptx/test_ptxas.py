"""The settings of ptxas: its path, further options, and what it reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from tile.backends.nvptx import ptxas
from tile.config import config
from tile.errors import BackendError

DRIVER = 13000
PTX = "no PTX: the program below takes any text\n"
PROGRAM = """\
#!/bin/sh
echo "$@" >>"$0.calls"
echo "ptxas info    : Used 20 registers" >&2
for option in "$@"; do
    [ "$option" != --refused ] || exit 1
    output=$option
done
echo code >"$output"
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program in place of ptxas, which notes its arguments."""
    path = tmp_path / "ptxas"
    path.write_text(PROGRAM)
    path.chmod(0o755)
    return path


def calls(program: Path) -> list[str]:
    path = program.with_suffix(".calls")
    return path.read_text().splitlines() if path.exists() else []


def cubin() -> bytes | None:
    return ptxas.cubin(PTX, "kernel", "sm_90a", DRIVER)


def test_the_program_and_options_that_are_set(program: Path, tmp_path: Path) -> None:
    cached = {"cache": True, "cache_dir": str(tmp_path / "cache"), "ptxas": str(program)}
    with config.scope(**cached):
        assert cubin() == cubin() == b"code\n"
        assert len(calls(program)) == 1 and "--opt-level" not in calls(program)[0]
    with config.scope(**cached, ptxas_options="--opt-level 0 -G"):
        assert cubin() == cubin() == b"code\n"
        assert len(calls(program)) == 2
        assert "-arch=sm_90a --opt-level 0 -G " in calls(program)[1]


def test_the_report_is_printed_each_time(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with config.scope(cache=True, cache_dir=str(tmp_path), ptxas=str(program), print_ptxas=True):
        cubin(), cubin()
    assert capsys.readouterr().out == "ptxas info    : Used 20 registers\n" * 2


def test_options_have_their_effect_without_a_cache(program: Path) -> None:
    with config.scope(cache=False, ptxas=str(program)):
        assert cubin() is None and calls(program) == []
        with config.scope(ptxas_options="-O1"):
            assert cubin() == b"code\n"


def test_options_that_ptxas_refuses_are_an_error(program: Path) -> None:
    with (
        config.scope(cache=False, ptxas=str(program), ptxas_options="--refused"),
        pytest.raises(BackendError, match="refuses a kernel for sm_90a"),
    ):
        cubin()


def test_options_without_ptxas_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ptxas, "default", lambda: None)
    with config.scope(cache=False):
        assert cubin() is None
        with (
            config.scope(print_ptxas=True),
            pytest.raises(BackendError, match="ptxas, of which options or the output"),
        ):
            cubin()


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    with (
        config.scope(ptxas=str(tmp_path / "none")),
        pytest.raises(BackendError, match=r"TILE_PTXAS=.*none: there is no such file"),
    ):
        ptxas.find()


def test_the_variables_of_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILE_TRITON", "3.8.0")
    monkeypatch.setenv("DISABLE_PTXAS_OPT", "1")
    assert config.ptxas_options == "--opt-level 0"
    monkeypatch.setenv("PTXAS_OPTIONS", "-G")
    assert config.ptxas_options == "-G --opt-level 0"
    monkeypatch.setenv("DISABLE_PTXAS_OPT", "0")
    assert config.ptxas_options == "-G"
    monkeypatch.setenv("TRITON_PTXAS_PATH", "/somewhere/ptxas")
    monkeypatch.setenv("TRITON_DUMP_PTXAS_LOG", "1")
    assert config.ptxas == "/somewhere/ptxas" and config.print_ptxas
    monkeypatch.delenv("TILE_TRITON")
    assert config.ptxas_options == config.ptxas == "" and not config.print_ptxas
