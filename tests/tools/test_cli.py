"""The command line: which modules a command imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tile
from tile.tools.cli import COMMANDS, main

CODE = """
import sys
from pathlib import Path
from tile.tools.cli import main
status = main({words!r})
print(*sorted(name for name in sys.modules if name.startswith("tile.tools.")), file=sys.stderr)
sys.exit(status)
"""


def imported(*words: str) -> set[str]:
    """Return the commands that a command line imports."""
    code = CODE.format(words=list(words))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = {name.removeprefix("tile.tools.") for name in done.stderr.split()}
    return modules & set(COMMANDS)


def test_a_command_imports_no_other() -> None:
    assert imported("triton", "--path") == {"triton"}


def test_the_help_lists_all_commands() -> None:
    code = "from tile.tools.cli import main; main(['--help'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    listed = [line.split()[0] for line in done.stdout.splitlines() if line.startswith("    ")]
    assert [word for word in listed if word in COMMANDS] == list(COMMANDS)


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"tile {tile.__version__}\n"


def test_programs_for_triton_start_without_the_parser_of_ir(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import sys, triton\nprint('tile.ir.parser' in sys.modules)\n")
    command = [sys.executable, "-m", "tile", "triton", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
