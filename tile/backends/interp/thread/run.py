"""Run THREAD IR."""

from __future__ import annotations

from collections.abc import Sequence

from tile.backends.base import Grid, LaunchArgument
from tile.backends.interp.thread.code import ThreadCode, thread_code
from tile.backends.interp.thread.costs import count_instructions
from tile.backends.interp.thread.counters import Counters
from tile.backends.interp.thread.launch import ThreadLaunch
from tile.backends.interp.thread.rules import RULES
from tile.ir.core import Module
from tile.simt.target import SimtTarget


def prepare(
    module: Module, target: SimtTarget, num_warps: int, *, counted: bool = False
) -> ThreadCode:
    """Translate a THREAD module to code, with or without counters.

    Raises `UnsupportedError` for an operation that the target does not have.
    """
    code = thread_code(module, target, num_warps, RULES)
    if counted:
        count_instructions(code.code)
    return code


def run_threads(
    module: Module,
    target: SimtTarget,
    num_warps: int,
    grid: Grid,
    arguments: Sequence[LaunchArgument],
    counters: Counters | None = None,
) -> None:
    """Run the kernel of a THREAD module over a grid; arrays are accessed in place.

    Raises the `ExecutionError` of the first fault, and `UnsupportedError` for an operation that the
    target does not have.
    """
    code = prepare(module, target, num_warps, counted=counters is not None)
    launch(code, grid, arguments, counters)


def launch(
    code: ThreadCode,
    grid: Grid,
    arguments: Sequence[LaunchArgument],
    counters: Counters | None = None,
) -> None:
    """Run code; `counters` needs code that was prepared with `counted=True`."""
    if counters is not None:
        counters.shared_bytes = max(counters.shared_bytes, code.shared_bytes)
    ThreadLaunch(code, grid, arguments, counters).run()
