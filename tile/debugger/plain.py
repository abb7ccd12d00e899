"""The debugger that a `breakpoint()` opens in a program that `tile debug` did not start."""

from __future__ import annotations

import bdb
from functools import cache

from tile.debugger.prompt import Debugger
from tile.debugger.session import Session, Stop
from tile.debugger.talk import QuitError


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
