"""Who watches launches: `tile check` repeats them in other ways, and compares what they wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from tile.runtime.jit import JITFunction
    from tile.runtime.kernel import CompiledKernel

Constants = Mapping[str, Any]


class Attempt(NamedTuple):
    """A launch that is about to happen, and may be made several times.

    `named` has what was passed, by parameter; `run(constants)` launches, with other values for some
    constexprs; `written(constants)` are the parameters through which it writes. Where the grid is
    no function, it does not follow other constants.
    """

    function: JITFunction[..., Any]
    named: Mapping[str, Any]
    fixed_grid: bool
    run: Callable[[Constants], CompiledKernel]
    written: Callable[[Constants], frozenset[str]]


class Alternative(NamedTuple):
    """A configuration of a tuned kernel, and a launch with it on arguments as they were passed."""

    title: str
    run: Callable[[], Any]


class Observer(Protocol):
    """What is told of launches, and makes them."""

    def launch(self, attempt: Attempt) -> CompiledKernel:
        """Make a launch, at least once; arrays hold what it wrote when this returns."""

    def tuned(self, name: str, alternatives: Sequence[Alternative]) -> Any:
        """Launch a tuned kernel; the first alternative's effects are those that stay."""

    def ran(
        self, kernel: CompiledKernel, grid: tuple[int, int, int], outputs: Mapping[str, np.ndarray]
    ) -> None:
        """A kernel has run; what the arrays that it may write hold now, by their labels."""


_OBSERVER: ContextVar[Observer | None] = ContextVar("tile_observer", default=None)


def observing() -> Observer | None:
    """The observer of launches here."""
    return _OBSERVER.get()


@contextmanager
def observed(observer: Observer | None) -> Iterator[None]:
    """Let an observer make the launches inside the `with` block; None: nobody does."""
    token = _OBSERVER.set(observer)
    try:
        yield
    finally:
        _OBSERVER.reset(token)
