"""Kernels of THREAD IR in the simulator: compilation, loading and launch; the survey of targets."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata

from tile.backends.base import Artifact, Grid, LaunchArgument, Options, Target
from tile.backends.capabilities import Requirement
from tile.backends.interp.simulator.access_cost import count_instructions
from tile.backends.interp.simulator.counters import Counters
from tile.backends.interp.simulator.launch import ThreadCode, ThreadLaunch, thread_code
from tile.backends.interp.simulator.rules import RULES
from tile.errors import ArgumentValueError, BackendError
from tile.ir.module import Module
from tile.ir.op_definition import Level
from tile.ir.printer import print_module
from tile.ir.verifier import verify
from tile.simt.pass_pipeline import lower
from tile.simt.target import TARGETS, SimtTarget


def run_threads(
    module: Module,
    target: SimtTarget,
    num_warps: int,
    grid: Grid,
    arguments: Sequence[LaunchArgument],
    counters: Counters | None = None,
    num_ctas: int = 1,
) -> None:
    """Run the kernel of a THREAD module over a grid; arrays are accessed in place.

    `num_ctas` programs form a cluster, if the grid is a multiple of it.

    Raises the `ExecutionError` of the first fault, and `UnsupportedError` for an operation that the
    target does not have.
    """
    code = thread_code(module, target, num_warps, RULES, num_ctas)
    if counters is not None:
        count_instructions(code.code)
        counters.shared_bytes = max(counters.shared_bytes, code.shared_bytes)
    ThreadLaunch(code, grid, arguments, counters).run()


class ThreadKernel:
    """A loaded kernel of THREAD IR."""

    def __init__(self, code: ThreadCode) -> None:
        self.code = code

    def launch(self, grid: Grid, arguments: Sequence[LaunchArgument]) -> None:
        """Run it over a grid; see `tile/backends/base.py`."""
        ThreadLaunch(self.code, grid, arguments).run()

    def count(self, grid: Grid, arguments: Sequence[LaunchArgument], counters: Counters) -> None:
        """Run it over a grid, and add its instructions and memory accesses to `counters`."""
        code = self.code
        module, warps = code.code.module, code.num_warps
        run_threads(module, code.target, warps, grid, arguments, counters, code.num_ctas)


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
    code = thread_code(module, simt, options.num_warps, RULES, options.num_ctas)
    return print_module(module), code


def load(artifact: Artifact) -> ThreadKernel:
    """Load a compiled kernel."""
    if artifact.code is not None:
        return ThreadKernel(artifact.code)
    assert artifact.module is not None
    target = simt_target(artifact.target)
    options = artifact.options
    code = thread_code(artifact.module, target, options.num_warps, RULES, options.num_ctas)
    return ThreadKernel(code)


def survey() -> list[Requirement]:
    """Return the versions of packages, and the targets of the SIMT simulator."""
    packages = tuple(f"{name} {metadata.version(name)}" for name in ("numpy", "ml_dtypes"))
    targets = f"{', '.join(TARGETS)}, as in interp:{next(iter(TARGETS))}"
    return [Requirement("packages", packages), Requirement("simulated GPUs", (targets,))]
