"""A loaded kernel with steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from tile.backends.base import Grid, LaunchArgument
from tile.backends.interp.checks.translate import CheckedCode
from tile.backends.interp.code import Rules
from tile.backends.interp.stepped.launch import SteppedLaunch
from tile.backends.interp.stepped.translate import translate_stepped
from tile.backends.interp.stepped.watcher import NullWatcher, RerunError, Watcher, watcher
from tile.backends.interp.values import Array
from tile.checks import Checks
from tile.config import config
from tile.in_force import collecting
from tile.ir.core import Module


class SteppedKernel:
    """A kernel that a debugger watches, with `checks` (None: those of the configuration).

    If no watcher is installed, `open_debugger` creates one.
    """

    def __init__(self, module: Module, rules: Rules, checks: Checks | None) -> None:
        self.module = module
        self.rules = rules
        self.checks = checks
        self.codes: dict[Checks, CheckedCode] = {}
        self.open_debugger: Callable[[], Watcher] | None = None

    def launch(self, grid: Grid, arguments: Sequence[LaunchArgument]) -> None:
        """Run it over a grid; see `tile/backends/base.py`."""
        checks = config.sanitize if self.checks is None else self.checks
        code = self.codes.get(checks)
        if code is None:
            code = self.codes[checks] = translate_stepped(self.module, self.rules, checks)
        by = watcher()
        if by is None:
            by = NullWatcher() if self.open_debugger is None else self.open_debugger()
        before = Snapshot(arguments)
        while True:
            try:
                SteppedLaunch(code, grid, arguments, collecting(), by).run()
            except RerunError:
                before.restore()
            else:
                return


class Snapshot:
    """The contents of a launch's arrays before it."""

    def __init__(self, arguments: Sequence[LaunchArgument]) -> None:
        self.saved = [
            (memory, memory.copy()) for array in _arrays(arguments) for memory in _parts(array)
        ]

    def restore(self) -> None:
        """Restore the contents."""
        for memory, copy in self.saved:
            memory[...] = copy


def _arrays(arguments: Sequence[LaunchArgument]) -> Iterator[Array]:
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            yield argument
            yield from getattr(argument, "targets", ())


def _parts(array: Array) -> Iterator[Array]:
    """Yield an array's elements, and its record of written elements if it has one."""
    if array.flags.writeable:
        yield array.view(np.ndarray)
        written_span = getattr(array, "written_span", None)
        written = None if written_span is None else written_span()
        if written is not None:
            yield written
