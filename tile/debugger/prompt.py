"""The prompt: all commands in one class."""

from __future__ import annotations

import linecache

from tile.debugger.choosing import Choosing
from tile.debugger.frames import failed_frames
from tile.debugger.helping import Helping
from tile.debugger.looking import Looking
from tile.debugger.moving import Moving
from tile.debugger.reading import Reading
from tile.debugger.source import shown
from tile.debugger.stopping import Stopping


class Debugger(Moving, Stopping, Looking, Reading, Choosing, Helping):
    """A debugger at a terminal, or with `stdin` and `stdout` at other files."""

    def precmd(self, line: str) -> str:
        """Take the commands behind `;;` for later, as pdb does."""
        first, mark, rest = line.partition(";;")
        if mark:
            self.cmdqueue.insert(0, rest.lstrip())
        return first.rstrip()

    def before(self, main: str) -> None:
        """Talk with the user before a program begins."""
        linecache.checkcache(main)
        if self.main is None:
            self.say(f"{shown(main)} has not begun: `c` runs it to a breakpoint or a fault, `s` to")
            self.say("the first line of a kernel; `help` helps")
        self.main = main
        self.forget()
        self.listen()

    def failed(self, error: BaseException) -> None:
        """Talk with the user about an error that ended the program."""
        self.forget()
        self.frames = failed_frames(error)
        self.index = max(0, len(self.frames) - 1)
        self.where_now()
        self.listen()

    def forget(self) -> None:
        """Nothing runs any more."""
        self.stop = None
        self.frames = ()
        self.index = 0
        self.listed = None
        self.told = None
