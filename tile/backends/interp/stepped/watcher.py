"""The protocol between a run and the debugger that watches it."""

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
    """A request to restart the launch from its beginning, with the contents memory had then."""


class Watcher(Protocol):
    """An observer of runs; each method returns when the programs are to continue.

    A method may raise an error to end the run; `RerunError` restarts it.
    """

    @property
    def muted(self) -> bool:
        """True if programs print nothing, because they repeat what they did before."""

    def begin(self, launch: SteppedLaunch) -> None:
        """Handle the start of a launch, the first one or a restart."""

    def step(self, batch: Wave) -> None:
        """Handle a step: the programs of a batch stand at it."""

    def stop(self, batch: Wave) -> None:
        """Handle a `breakpoint()`: the programs of a batch stand at it."""

    def fault(self, batch: Wave, error: TileError) -> None:
        """Handle a fault of a batch; the error is raised afterwards."""

    def end(self, launch: SteppedLaunch) -> None:
        """Handle the end of all programs."""


class NullWatcher:
    """A watcher that lets all programs run."""

    muted = False

    def begin(self, launch: SteppedLaunch) -> None: ...

    def step(self, batch: Wave) -> None: ...

    def stop(self, batch: Wave) -> None: ...

    def fault(self, batch: Wave, error: TileError) -> None: ...

    def end(self, launch: SteppedLaunch) -> None: ...


_WATCHER: ContextVar[Watcher | None] = ContextVar("tile_watcher", default=None)


def watcher() -> Watcher | None:
    """Return the watcher of all launches in this context, if there is one."""
    return _WATCHER.get()


@contextmanager
def watched(by: Watcher) -> Iterator[None]:
    """Install a watcher of all launches of kernels with steps inside the `with` block."""
    token = _WATCHER.set(by)
    try:
        yield
    finally:
        _WATCHER.reset(token)
