"""The debugger's prompt: the commands of all classes in one."""

from __future__ import annotations

import linecache

from tile.debugger.choosing import ProgramCommands
from tile.debugger.frames import failed_frames
from tile.debugger.helping import HelpCommands
from tile.debugger.looking import DataCommands
from tile.debugger.moving import RunCommands
from tile.debugger.reading import StackCommands
from tile.debugger.source import display_path
from tile.debugger.stopping import BreakpointCommands


class Debugger(
    RunCommands, BreakpointCommands, DataCommands, StackCommands, ProgramCommands, HelpCommands
):
    """A debugger at a terminal, or with `stdin` and `stdout` at other files."""

    def precmd(self, line: str) -> str:
        """Queue the commands after `;;`, as pdb does."""
        first, separator, rest = line.partition(";;")
        if separator:
            self.cmdqueue.insert(0, rest.lstrip())
        return first.rstrip()

    def before(self, main: str) -> None:
        """Read commands before a program begins."""
        linecache.checkcache(main)
        if self.main is None:
            name = display_path(main)
            self.say(f"{name} has not begun: `c` runs it to a breakpoint or a fault, `s` to")
            self.say("the first line of a kernel; `help` helps")
        self.main = main
        self.forget()
        self.listen()

    def failed(self, error: BaseException) -> None:
        """Read commands after an error that ended the program."""
        self.forget()
        self.frames = failed_frames(error)
        self.index = max(0, len(self.frames) - 1)
        self.print_stop()
        self.listen()

    def forget(self) -> None:
        """Reset to the state in which no program runs."""
        self.stop = None
        self.frames = ()
        self.index = 0
        self.listed = None
        self.described = None
