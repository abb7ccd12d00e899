"""The debugger of a program that runs by itself, at its `breakpoint()`."""

from __future__ import annotations

import bdb
from functools import cache

from tile.debugger.prompt import Debugger
from tile.debugger.session import Session, Stop
from tile.debugger.talk import QuitError


class PlainDebugger(Debugger):
    """Leaves by an error, as Python's `breakpoint()` does: the program is not the debugger's."""

    def stopped(self, stop: Stop) -> None:
        """Talk with the user; raises `bdb.BdbQuit` when he leaves."""
        try:
            super().stopped(stop)
        except QuitError:
            raise bdb.BdbQuit from None


@cache
def debugger() -> PlainDebugger:
    """The one of this process, whose breakpoints last."""
    return PlainDebugger()


def open_debugger() -> Session:
    """Who follows a launch of a kernel that calls `breakpoint()`."""
    return debugger().session
