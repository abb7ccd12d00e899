"""Kernels compiled to THREAD IR: compilation, loading and launch."""

from __future__ import annotations

from collections.abc import Sequence

from tile.backends.base import Artifact, Grid, LaunchArgument, Options, Target
from tile.backends.interp.thread.code import ThreadCode
from tile.backends.interp.thread.counters import Counters
from tile.backends.interp.thread.run import launch, prepare, run_threads
from tile.errors import ArgumentValueError, BackendError
from tile.ir.core import Module
from tile.ir.levels import Level
from tile.ir.printer import print_module
from tile.ir.verifier import verify
from tile.simt.pipeline import lower
from tile.simt.target import SimtTarget


class ThreadKernel:
    """A loaded kernel of THREAD IR."""

    def __init__(self, code: ThreadCode) -> None:
        self.code = code

    def launch(self, grid: Grid, arguments: Sequence[LaunchArgument]) -> None:
        """Run it over a grid; see `tile/backends/base.py`."""
        launch(self.code, grid, arguments)

    def count(self, grid: Grid, arguments: Sequence[LaunchArgument], counters: Counters) -> None:
        """Run it over a grid, and add its instructions and memory accesses to `counters`."""
        code = self.code
        run_threads(code.code.module, code.target, code.num_warps, grid, arguments, counters)


def simt_target(target: Target) -> SimtTarget:
    """Return the simulated GPU that a target names. Raises `BackendError` for an unknown name."""
    try:
        return SimtTarget.parse(target.arch)
    except ArgumentValueError as error:
        raise BackendError(
            f"{error.message}; the interpreter runs tiles, or simulates one of these"
        ) from error


def compile(  # noqa: A001 - as a backend
    module: Module, target: Target, options: Options
) -> tuple[str, ThreadCode]:
    """Lower an optimized TILE module to THREAD in place, and translate it to code.

    Returns its text and the code. Raises `OutOfResourcesError` if it does not fit the target.
    """
    simt = simt_target(target)
    lower(module, simt, **options.lowering)
    verify(module, Level.THREAD)
    code = prepare(module, simt, options.num_warps)
    return print_module(module), code


def load(artifact: Artifact) -> ThreadKernel:
    """Load a compiled kernel."""
    if artifact.code is not None:
        return ThreadKernel(artifact.code)
    assert artifact.module is not None
    return ThreadKernel(
        prepare(artifact.module, simt_target(artifact.target), artifact.options.num_warps)
    )
