"""Sessions with the debugger by script: what is typed, and the transcript that comes of it."""

from __future__ import annotations

import contextlib
import io
import linecache
import textwrap
from collections.abc import Sequence
from pathlib import Path

from tile.checks import ALL, Checks
from tile.debugger.commands import Debugger
from tile.tools.debug import Program, debug

HEAD = """\
import numpy as np
import tile
import tile.language as tl

"""


class Typed(io.StringIO):
    """Lines that are typed; each is seen on the screen, as a terminal echoes it."""

    def __init__(self, lines: Sequence[str], screen: io.StringIO) -> None:
        super().__init__("".join(f"{line}\n" for line in lines))
        self.screen = screen

    def readline(self, size: int | None = -1, /) -> str:
        line = super().readline(-1 if size is None else size)
        self.screen.write(line)
        return line


class Transcript(str):
    """All that was on the screen of a session."""

    __slots__ = ()

    def answers(self, command: str) -> list[str]:
        """Return what was printed after each use of a command, without the prompt."""
        parts = self.split("(tile) ")
        return [p.partition("\n")[2].rstrip("\n") for p in parts if p.partition("\n")[0] == command]

    def answer(self, command: str, which: int = 0) -> str:
        return self.answers(command)[which]

    @property
    def stops(self) -> list[str]:
        """The lines at which programs stopped, as `number function`, in order."""
        stops = []
        for line in self.splitlines():
            _, separator, rest = line.removeprefix("(tile) ").partition(".py(")
            if separator and line.removeprefix("(tile) ").startswith("> "):
                number, _, function = rest.partition(")")
                stops.append(f"{number} {function.partition('(')[0]}")
        return stops


def session(
    folder: Path,
    code: str,
    *commands: str,
    checks: Checks = ALL,
    arguments: Sequence[str] = (),
    first: Sequence[str] = (),
) -> Transcript:
    """Debug a program with these commands. The name of its folder is left out of the transcript.

    `code` comes behind imports, from line 5 on.
    """
    path = folder / "kernel.py"
    path.write_text(HEAD + textwrap.dedent(code).lstrip("\n"), encoding="utf-8")
    linecache.checkcache(str(path))
    screen = io.StringIO()
    debugger = Debugger(Typed(commands, screen), screen)
    with contextlib.redirect_stdout(screen):
        debug(Program(str(path), arguments), debugger, checks, first)
    return Transcript(screen.getvalue().replace(f"{path.resolve().parent}/", ""))
