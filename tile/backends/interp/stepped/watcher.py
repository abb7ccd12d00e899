"""What a debugger is to a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

from tile.errors import TileError

if TYPE_CHECKING:
    from tile.backends.interp.stepped.launch import SteppedLaunch
    from tile.backends.interp.wave import Wave


class RerunError(Exception):
    """The watcher wants the launch again from its beginning, with memory as it was then."""


class Watcher(Protocol):
    """Who watches runs; each method returns when the programs shall go on.

    It may raise what shall end the run: `RerunError` has it begin again.
    """

    @property
    def muted(self) -> bool:
        """Whether programs print nothing: they do again what they did before."""

    def begin(self, launch: SteppedLaunch) -> None:
        """A launch begins, for the first time or again."""

    def step(self, batch: Wave) -> None:
        """The programs of a wave stand at a step."""

    def stop(self, batch: Wave) -> None:
        """The programs of a wave stand at a `breakpoint()`."""

    def fault(self, batch: Wave, error: TileError) -> None:
        """A wave is at fault; the error is raised afterwards."""

    def end(self, launch: SteppedLaunch) -> None:
        """All programs have ended."""


class Nobody:
    """A watcher that lets all programs run."""

    muted = False

    def begin(self, launch: SteppedLaunch) -> None: ...

    def step(self, batch: Wave) -> None: ...

    def stop(self, batch: Wave) -> None: ...

    def fault(self, batch: Wave, error: TileError) -> None: ...

    def end(self, launch: SteppedLaunch) -> None: ...


_WATCHER: ContextVar[Watcher | None] = ContextVar("tile_watcher", default=None)


def watcher() -> Watcher | None:
    """Who watches all launches here, if anybody does."""
    return _WATCHER.get()


@contextmanager
def watched(by: Watcher) -> Iterator[None]:
    """Let somebody watch all launches of kernels with steps inside the `with` block."""
    token = _WATCHER.set(by)
    try:
        yield
    finally:
        _WATCHER.reset(token)
