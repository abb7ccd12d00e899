"""The session on the page about finding faults is one that was recorded: it comes out again."""

from __future__ import annotations

import re
from pathlib import Path

from tests.debugger.sessions import session

PAGE = Path(__file__).parents[2] / "docs" / "debugging.md"
RECORDED = re.compile(
    r"```py\n(.*?)```.*?```console\n\$ tile debug kernel\.py\n(.*?)```", re.DOTALL
)
COMMAND = re.compile(r"^\(tile\) (.*)$", re.MULTILINE)


def test_the_recorded_session_comes_out_again(tmp_path: Path) -> None:
    section = PAGE.read_text("utf-8").partition("\n## The debugger\n")[2]
    ((code, recorded),) = RECORDED.findall(section)
    assert session(tmp_path, code, *COMMAND.findall(recorded)) == recorded
