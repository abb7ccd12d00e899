"""The interpreter's backend: NumPy over all programs of the grid at once."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tile._lazy import lazy_import
from tile.analysis.alias import disjoint_parameters
from tile.backends.base import (
    Artifact,
    DeviceMemory,
    Executable,
    Grid,
    LaunchArgument,
    Options,
    Target,
)
from tile.backends.capabilities import Diagnostics, Requirement
from tile.backends.interp.bytecode import Code
from tile.backends.interp.descriptor_rules import RULES as DESCRIPTOR_RULES
from tile.backends.interp.launch import Launch
from tile.backends.interp.repeated import RULES as REPEATED_RULES
from tile.backends.interp.rules import RULES as BASE_RULES
from tile.backends.interp.translate import translate
from tile.backends.interp.tuning import TUNING
from tile.checks import ALL, ALWAYS, Checks
from tile.config import config
from tile.instrumentation import active_report, active_trace
from tile.ir.debug_info import DebugSteps
from tile.ir.module import Module
from tile.ir.ops.debug import debug_step
from tile.transforms.pass_pipeline import INTERPRETED, optimize

if TYPE_CHECKING:
    from tile.backends.interp.sanitizer.launch import CheckedCode, CheckedLaunch, translate_checked
    from tile.backends.interp.stepping import SteppedKernel
    from tile.backends.interp.tracing.recorder import launch_traced, translate_traced
    from tile.simt.target import SimtTarget
else:
    CheckedLaunch = lazy_import("tile.backends.interp.sanitizer.launch", "CheckedLaunch")
    translate_checked = lazy_import("tile.backends.interp.sanitizer.launch", "translate_checked")
    launch_traced = lazy_import("tile.backends.interp.tracing.recorder", "launch_traced")
    translate_traced = lazy_import("tile.backends.interp.tracing.recorder", "translate_traced")
    SteppedKernel = lazy_import("tile.backends.interp.stepping", "SteppedKernel")

RULES = {**BASE_RULES, **DESCRIPTOR_RULES}
UNCHECKED = {**RULES, **REPEATED_RULES}
"""The rules of runs that nobody watches."""

# The architecture of kernels that a debugger follows from their beginning, as in `interp:steps`.
STEPS = "steps"

# The settings that launches respect: on tiles, on threads and under a debugger.
_ORDER = frozenset({"interp_level", "interp_order", "chunk_bytes"})
_ON_TILES = Diagnostics(ALL, collects=True, traces=True, settings=_ORDER)
_ON_THREADS = Diagnostics(ALWAYS, settings=_ORDER | {"interp_target", "interp_races"})
_STEPPED = Diagnostics(ALL, collects=True, settings=_ORDER)


class InterpreterBackend:
    """Runs TILE IR, or THREAD IR for the GPU that a target names, as in `interp:generic`.

    `interp:steps` runs TILE IR statement by statement, for a debugger.
    """

    name = "interp"
    devices: frozenset[str] = frozenset()

    def resolve(self, target: Target, arrays: Iterable[DeviceMemory] = ()) -> Target:
        """Return the target unchanged, as it determines everything."""
        return target

    def identity(self, target: Target) -> None:
        """Return None: its artifacts are IR in memory, which is not cached on disk."""

    def steps(self, target: Target) -> DebugSteps:
        """Return which kernels a debugger can follow: those with `breakpoint()` on a terminal."""
        if target.arch:
            return DebugSteps.ALWAYS if target.arch == STEPS else DebugSteps.NEVER
        able = config.python_breakpoint != "0" and sys.stdin is not None and sys.stdin.isatty()
        return DebugSteps.AT_BREAKPOINTS if able else DebugSteps.NEVER

    def compile(self, module: Module, target: Target, options: Options) -> Artifact:
        """Optimize a module; if the target is a GPU, lower it and translate it to code.

        TILE IR needs only the machine-independent passes, and a module with steps none but the
        expansion of inline PTX.
        """
        steps = target.arch == STEPS or any(op.defn is debug_step for op in module.kernel.body)
        threads = bool(target.arch) and not steps
        if threads:
            options.refuse_checks(target, ALWAYS)
        after = () if steps or threads else INTERPRETED
        tiles = optimize(module, () if steps else None, after=after)
        stages = tiles.stages
        code: Any = _translation(module)
        if threads:
            stages["thread"], code = _threads().compile(module, target, options)
        return Artifact(
            kernel=module.kernel.name,
            target=target,
            options=options,
            stages=stages,
            parameters=tiles.parameters,
            written=tiles.written,
            launch_metadata={STEPS: True} if steps else {},
            noalias=_noalias(module),
            disjoint=disjoint_parameters(module.kernel),
            module=module,
            code=code,
        )

    def diagnostics(self, artifact: Artifact) -> Diagnostics:
        """Return the supported diagnostics: all checks on tiles, only the basic ones on threads."""
        if artifact.launch_metadata.get(STEPS):
            return _STEPPED
        return _ON_THREADS if artifact.target.arch else _ON_TILES

    def lowering_target(self, target: Target) -> SimtTarget:
        """Return the description of a simulated machine."""
        simulated: SimtTarget = _threads().simt_target(target)
        return simulated

    def survey(self) -> Sequence[Requirement]:
        """Return versions of packages, and the targets of the SIMT simulator."""
        requirements: Sequence[Requirement] = _threads().survey()
        return requirements

    def load(self, artifact: Artifact) -> Executable:
        """Load a kernel."""
        _keep_heap()
        assert artifact.module is not None
        if artifact.launch_metadata.get(STEPS):
            return SteppedKernel(artifact.module, RULES, artifact.options.checks)
        if artifact.target.arch:
            kernel: Executable = _threads().load(artifact)
            return kernel
        code = artifact.code or _translation(artifact.module)  # not pickled
        return InterpretedKernel(artifact.module, code, artifact.options.checks)


def _translation(module: Module) -> Callable[[], Code]:
    """Return a function that translates a module when it is first called.

    Launches with checks, on threads or under a debugger never call it.
    """
    return functools.cache(functools.partial(translate, module, UNCHECKED))


def _noalias(module: Module) -> frozenset[str]:
    """Return the kernel's parameters that are declared not to alias: each launch is checked."""
    kernel = module.kernel
    pairs = zip(kernel.args, kernel.arguments, strict=True)
    return frozenset(value.name for value, argument in pairs if argument.noalias)


def _threads() -> Any:
    """Return the SIMT simulator's module, `tile/backends/interp/simulator/thread_kernel.py`.

    It is loaded on first use: its passes are most of the compiler, and programs that run tiles
    rarely need them.
    """
    return importlib.import_module("tile.backends.interp.simulator.thread_kernel")


def _keep_heap() -> None:
    """Make glibc reuse freed arrays of up to some megabytes without system calls.

    glibc returns the top of its heap to the system when it is larger than twice the largest block
    that was freed by munmap (`M_TRIM_THRESHOLD` is dynamic; mallopt(3)). Every page that is
    allocated again is cleared, which costs several times as much as most operations. Allocating and
    freeing a block of nearly the largest size that glibc considers, without touching it, raises the
    threshold. With other allocators this has no effect.
    """
    np.empty(TUNING.heap_reserve, np.uint8)


class InterpretedKernel:
    """A loaded kernel of TILE IR, with `checks` (None: those of the configuration)."""

    def __init__(self, module: Module, code: Callable[[], Code], checks: Checks | None) -> None:
        self.module = module
        self.code = code
        self.checks = checks
        self.checked: dict[Checks, CheckedCode] = {}
        self.traced: dict[Checks | None, Code | CheckedCode] = {}

    def launch(self, grid: Grid, arguments: Sequence[LaunchArgument]) -> None:
        """Run it over a grid; see `tile/backends/base.py`."""
        checks = config.sanitize if self.checks is None else self.checks
        report = active_report()
        trace = active_trace()
        if trace is not None:
            traced_checks = None if checks <= ALWAYS and report is None else checks
            if traced_checks not in self.traced:
                self.traced[traced_checks] = translate_traced(self.module, RULES, traced_checks)
            launch_traced(self.traced[traced_checks], grid, arguments, trace)
            return
        if checks <= ALWAYS and report is None:
            Launch(self.code(), grid, arguments).run()
            return
        code = self.checked.get(checks)
        if code is None:
            code = self.checked[checks] = translate_checked(self.module, RULES, checks)
        CheckedLaunch(code, grid, arguments, report).run()
