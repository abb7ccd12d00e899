"""Callbacks around launches and compilations, for benchmarks, checks and profilers.

While there is a launch callback, no launch takes the fast path, so all others pay nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from tile.backends.base import Executable, Grid, Options, Target
from tile.frontend.python.source import DeviceFunction
from tile.runtime.specialize import Leaf


class LaunchEvent(NamedTuple):
    """A launch: the kernel, the grid, and the caller's values of all parameters by name."""

    kernel: Any
    grid: Grid
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class CompileEvent:
    """A compilation of a jitted function; `warmup` is True if no launch follows."""

    function: DeviceFunction
    leaves: Mapping[str, Leaf]
    target: Target
    options: Options
    warmup: bool


LaunchCallback = Callable[[LaunchEvent], Callable[[], object] | None]
"""Called before a launch; the function that it returns, if any, is called after the launch."""

LAUNCH_CALLBACKS: list[LaunchCallback] = []
"""Called at each launch, in its thread."""


class CompileCallback(Protocol):
    """Called before and after a kernel is compiled or loaded from the disk cache."""

    def before(self, event: CompileEvent) -> object:
        """Return a true value if the kernel is not to be compiled; its launch does nothing."""

    def after(self, event: CompileEvent, kernel: Any) -> object: ...


COMPILE_CALLBACKS: list[CompileCallback] = []

AUTOTUNE_LISTENERS: list[Callable[..., object]] = []
"""Called after an autotuner has chosen a configuration, with the keyword arguments `fn`, `key`,
`best_config`, `configs_timings`, `duration` (s; None for stored times) and `cache_hit`."""


class HookChain:
    """Functions that are called one after the other, in the order they were added or in reverse.

    `changed` is called after each change of the chain.
    """

    def __init__(
        self,
        reversed: bool = False,  # noqa: A002 - Triton's name
        changed: Callable[[], object] = lambda: None,
    ) -> None:
        self.calls: list[Callable[..., object]] = []
        self.reversed = reversed
        self._changed = changed

    def add(self, func: Callable[..., object]) -> None:
        """Add a function, unless the chain has it."""
        if func not in self.calls:
            self.calls.append(func)
            self._changed()

    def remove(self, func: Callable[..., object]) -> None:
        """Remove a function, if the chain has it."""
        if func in self.calls:
            self.calls.remove(func)
            self._changed()

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        for call in reversed(self.calls) if self.reversed else list(self.calls):
            call(*args, **kwargs)


@contextmanager
def on_launch(callback: LaunchCallback) -> Iterator[None]:
    """Call a function at each launch inside the `with` block, by any thread."""
    LAUNCH_CALLBACKS.append(callback)
    try:
        yield
    finally:
        LAUNCH_CALLBACKS.remove(callback)


@contextmanager
def recorded_launches() -> Iterator[list[Executable]]:
    """Record the kernels that are launched inside the `with` block, in order, by any thread."""
    launched: list[Executable] = []
    with on_launch(lambda event: launched.append(event.kernel.executable)):
        yield launched


def launch_started(
    kernel: Any, grid: Grid, values: Sequence[Any]
) -> Sequence[Callable[[], object]]:
    """Call the launch callbacks, and return the functions to call after the launch."""
    if not LAUNCH_CALLBACKS:
        return ()
    event = LaunchEvent(kernel, grid, dict(zip(kernel.leaves, values, strict=False)))
    done = [callback(event) for callback in list(LAUNCH_CALLBACKS)]
    return [function for function in reversed(done) if function is not None]


def compilation_refused(event: CompileEvent) -> bool:
    """Call the compile callbacks, and return True if one of them wants no compilation."""
    refusals = [callback.before(event) for callback in list(COMPILE_CALLBACKS)]
    return any(refusals)


def compilation_done(event: CompileEvent, kernel: Any) -> None:
    """Call the compile callbacks after a compilation."""
    for callback in list(COMPILE_CALLBACKS):
        callback.after(event, kernel)
