"""Launch hooks: `tile check` runs launches in several configurations and compares the results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from tile.backends.base import Target
from tile.frontend.python.source import DeviceFunction
from tile.instrumentation import Scoped

Constants = Mapping[str, Any]


class LaunchedKernel(Protocol):
    """The protocol of compiled kernels, as far as observers read them."""

    @property
    def name(self) -> str:
        """The name of the kernel."""

    @property
    def target(self) -> Target:
        """The target that the kernel is compiled for."""


Kernel = TypeVar("Kernel", bound=LaunchedKernel)


class PendingLaunch(NamedTuple, Generic[Kernel]):
    """A launch that is about to happen, and may be run several times.

    named: the arguments, by parameter.
    run: `run(constants)` launches, with other values for some constexprs, and returns the kernel.
    written: `written(constants)` returns the parameters through which it writes.
    fixed_grid: True if the grid is not a function, and so does not depend on the constants.
    """

    function: DeviceFunction
    named: Mapping[str, Any]
    fixed_grid: bool
    run: Callable[[Constants], Kernel]
    written: Callable[[Constants], frozenset[str]]


class TunedLaunch(NamedTuple):
    """A configuration of a tuned kernel, and a launch with it on the original arguments."""

    title: str
    run: Callable[[], Any]


class Observer(Protocol):
    """An observer of launches, which also makes them."""

    def launch(self, attempt: PendingLaunch[Kernel]) -> Kernel:
        """Run a launch at least once, and return its kernel.

        The arrays hold the results of the launch when this returns.
        """

    def launch_tuned(self, name: str, alternatives: Sequence[TunedLaunch]) -> Any:
        """Launch a tuned kernel; the final results are those of the first alternative."""

    def launch_done(
        self, kernel: LaunchedKernel, grid: tuple[int, int, int], outputs: Mapping[str, np.ndarray]
    ) -> None:
        """Handle the end of a run; `outputs` are the arrays that it may write, by label."""


class NoLaunches:
    """An observer that makes no launch, for functions that run on arrays without memory."""

    def launch(self, attempt: PendingLaunch[Any]) -> Any:
        return None

    def launch_tuned(self, name: str, alternatives: Sequence[TunedLaunch]) -> Any:
        return None

    def launch_done(
        self, kernel: LaunchedKernel, grid: tuple[int, int, int], outputs: Mapping[str, np.ndarray]
    ) -> None:
        return None


# The active observer of launches; None disables observation.
active_observer: Scoped[Observer | None] = Scoped("tile_observer", None)
