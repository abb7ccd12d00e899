"""The debugger's prompt, which joins the commands of all classes.

`open_debugger` opens it at a `breakpoint()` in a program that `tile debug` did not start.

command_base   what the classes of commands share
running        commands that run programs on
breakpoints    commands on breakpoints
data           commands that print values, and that select among programs
stack          commands that print the call stack and the source; `help`
"""

from __future__ import annotations

import bdb
import linecache
from functools import cache

from tile.debugger.commands.breakpoints import BreakpointCommands
from tile.debugger.commands.command_base import QuitError
from tile.debugger.commands.data import DataCommands, ProgramCommands
from tile.debugger.commands.running import RunCommands
from tile.debugger.commands.stack import HelpCommands, StackCommands
from tile.debugger.frames import failed_frames
from tile.debugger.session import Session, Stop
from tile.debugger.source_files import display_path


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


class PlainDebugger(Debugger):
    """Quits by raising `bdb.BdbQuit`, as Python's `breakpoint()` does.

    The program is not the debugger's own.
    """

    def stopped(self, stop: Stop) -> None:
        """Read commands at a stop; raises `bdb.BdbQuit` when the user quits."""
        try:
            super().stopped(stop)
        except QuitError:
            raise bdb.BdbQuit from None


@cache
def debugger() -> PlainDebugger:
    """Return the debugger of this process, whose breakpoints persist between launches."""
    return PlainDebugger()


def open_debugger() -> Session:
    """Return the session that follows a launch of a kernel that calls `breakpoint()`."""
    return debugger().session
