"""The interpreter as a backend: NumPy over all programs of the grid at once."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tile.analysis.alias import written_arguments
from tile.backends.base import (
    Artifact,
    DeviceMemory,
    Diagnostics,
    Executable,
    Finding,
    Grid,
    LaunchArgument,
    Options,
    Target,
)
from tile.backends.interp.boxes import RULES as BOXES
from tile.backends.interp.code import Code, translate
from tile.backends.interp.launch import Launch
from tile.backends.interp.rules import RULES as PLAIN
from tile.backends.optimised import optimise
from tile.checks import ALL, ALWAYS, Checks
from tile.config import config
from tile.in_force import collecting, tracing
from tile.ir.core import Module
from tile.ir.ops.debug import step
from tile.ir.passes import run_pipeline
from tile.ir.printer import print_module
from tile.ir.steps import Steps
from tile.ir.verifier import verify
from tile.late import late

if TYPE_CHECKING:
    from tile.backends.interp.checks.launch import CheckedLaunch
    from tile.backends.interp.checks.translate import CheckedCode, translate_checked
    from tile.backends.interp.stepped.kernel import SteppedKernel
    from tile.backends.interp.survey import survey
    from tile.backends.interp.tracing.launch import launch_traced, translate_traced
else:
    CheckedLaunch = late("tile.backends.interp.checks.launch", "CheckedLaunch")
    translate_checked = late("tile.backends.interp.checks.translate", "translate_checked")
    launch_traced = late("tile.backends.interp.tracing.launch", "launch_traced")
    translate_traced = late("tile.backends.interp.tracing.launch", "translate_traced")
    SteppedKernel = late("tile.backends.interp.stepped.kernel", "SteppedKernel")
    survey = late("tile.backends.interp.survey", "survey")

RULES = {**PLAIN, **BOXES}

# The target of kernels that a debugger follows from their beginning, as in `interp:steps`.
STEPS = "steps"

# The settings that launches follow: on tiles, on threads and under a debugger.
_ORDER = frozenset({"interp_level", "interp_order", "chunk_bytes"})
_ON_TILES = Diagnostics(ALL, collects=True, traces=True, settings=_ORDER)
_ON_THREADS = Diagnostics(ALWAYS, settings=_ORDER | {"interp_target", "interp_races"})
_STEPPED = Diagnostics(ALL, collects=True, settings=_ORDER)

# Just below DEFAULT_MMAP_THRESHOLD_MAX of 64-bit glibc.
_HEAP_KEPT = (32 << 20) - (64 << 10)


class InterpreterBackend:
    """Runs TILE IR, or THREAD IR for the machine that a target names, as in `interp:generic`.

    `interp:steps` runs TILE IR statement by statement, for a debugger.
    """

    name = "interp"
    devices: frozenset[str] = frozenset()

    def resolve(self, target: Target, arrays: Iterable[DeviceMemory] = ()) -> Target:
        """The target as it is: it says all."""
        return target

    def identity(self, target: Target) -> None:
        """Nothing: what it runs is IR in memory, which is not kept on disk."""

    def steps(self, target: Target) -> Steps:
        """Which kernels a debugger can follow; those with `breakpoint()`, where it can open."""
        if target.arch:
            return Steps.ALWAYS if target.arch == STEPS else Steps.NEVER
        able = config.python_breakpoint != "0" and sys.stdin is not None and sys.stdin.isatty()
        return Steps.AT_BREAKPOINTS if able else Steps.NEVER

    def compile(self, module: Module, target: Target, options: Options) -> Artifact:
        """Optimise a module, lower it if need be, and make sure that all in it can be run.

        To run TILE IR only the machine-independent passes are needed.
        """
        if target.arch == STEPS or any(op.defn is step for op in module.kernel.body):
            return _as_it_is(module, target, options)
        if target.arch:
            options.refuse_checks(target, ALWAYS)
        tiles = optimise(module)
        stages = tiles.stages
        if target.arch:
            stages["thread"], code = _threads().compile(module, target, options)
        else:
            code = translate(module, RULES)
        return Artifact(
            kernel=module.kernel.name,
            target=target,
            options=options,
            stages=stages,
            parameters=tiles.parameters,
            written=tiles.written,
            module=module,
            code=code,
        )

    def diagnostics(self, artifact: Artifact) -> Diagnostics:
        """All checks on tiles; on threads those without which they could not run."""
        if artifact.facts.get(STEPS):
            return _STEPPED
        return _ON_THREADS if artifact.target.arch else _ON_TILES

    def survey(self) -> Sequence[Finding]:
        """Packages, and the machines whose threads it can run."""
        return survey()

    def load(self, artifact: Artifact) -> Executable:
        """Make a kernel ready to run."""
        _keep_heap()
        assert artifact.module is not None
        if artifact.facts.get(STEPS):
            return SteppedKernel(artifact.module, RULES, artifact.options.checks)
        if artifact.target.arch:
            kernel: Executable = _threads().load(artifact)
            return kernel
        code = artifact.code or translate(artifact.module, RULES)  # not pickled
        return InterpretedKernel(code, artifact.options.checks)


def _as_it_is(module: Module, target: Target, options: Options) -> Artifact:
    """A module with steps, which no pass changes."""
    verify(module)
    run_pipeline(module, "")  # for who asked to see it
    translate(module, RULES)
    return Artifact(
        kernel=module.kernel.name,
        target=target,
        options=options,
        stages={"tile": print_module(module)},
        parameters=tuple(value.name for value in module.kernel.args),
        written=written_arguments(module, module.kernel),
        facts={STEPS: True},
        module=module,
    )


def _threads() -> Any:
    """The machine for threads, `tile/backends/interp/thread/kernel.py`.

    It is loaded when it is first asked for, since the passes that it needs are most of the compiler
    and few programs that run tiles need them.
    """
    return importlib.import_module("tile.backends.interp.thread.kernel")


def _keep_heap() -> None:
    """Let freed arrays of up to some megabytes be reused without asking the system for memory.

    When more than twice the largest block is free that it ever returned by munmap, glibc gives the
    top of its heap back (`M_TRIM_THRESHOLD` adjusts itself; mallopt(3)). Every page that comes back
    is cleared anew, which costs several times what most operations do. A block of nearly the
    largest size that it takes into account, never touched, raises that bound; elsewhere this does
    nothing.
    """
    np.empty(_HEAP_KEPT, np.uint8)


class InterpretedKernel:
    """A kernel that is ready to run, with `checks`, or those that are in force (None)."""

    def __init__(self, code: Code, checks: Checks | None) -> None:
        self.code = code
        self.module = code.module
        self.checks = checks
        self.checked: dict[Checks, CheckedCode] = {}
        self.traced: dict[Checks | None, Code | CheckedCode] = {}

    def launch(self, grid: Grid, arguments: Sequence[LaunchArgument]) -> None:
        """Run it over a grid; see `tile/backends/base.py`."""
        checks = config.sanitize if self.checks is None else self.checks
        report = collecting()
        trace = tracing()
        if trace is not None:
            wanted = None if checks <= ALWAYS and report is None else checks
            if wanted not in self.traced:
                self.traced[wanted] = translate_traced(self.module, RULES, wanted)
            launch_traced(self.traced[wanted], grid, arguments, trace)
            return
        if checks <= ALWAYS and report is None:
            Launch(self.code, grid, arguments).run()
            return
        code = self.checked.get(checks)
        if code is None:
            code = self.checked[checks] = translate_checked(self.module, RULES, checks)
        CheckedLaunch(code, grid, arguments, report).run()
