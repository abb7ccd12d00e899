"""A launch that is recorded, with or without checks."""

from __future__ import annotations

from collections.abc import Sequence

from tile.accesses import Trace
from tile.backends.base import Grid, LaunchArgument
from tile.backends.interp.checks.launch import CheckedLaunch
from tile.backends.interp.checks.translate import CheckedCode, translate_checked
from tile.backends.interp.code import Code, Rules, translate
from tile.backends.interp.launch import Launch
from tile.backends.interp.report import view_of
from tile.backends.interp.tracing.instrument import instrument
from tile.backends.interp.tracing.recorder import Recorder
from tile.checks import Checks
from tile.in_force import collecting
from tile.ir.core import Module
from tile.transforms.expand_descriptors import expand_descriptors


def translate_traced(module: Module, rules: Rules, checks: Checks | None) -> Code | CheckedCode:
    """Translate a module to instrumented code, with `checks` (None: without).

    Descriptor accesses are expanded to pointer accesses first.
    """
    if checks is not None:
        checked = translate_checked(module, rules, checks)
        instrument(checked.code)
        return checked
    module = module.clone()
    expand_descriptors(module, simplify=False)
    return instrument(translate(module, rules))


def launch_traced(
    code: Code | CheckedCode, grid: Grid, arguments: Sequence[LaunchArgument], trace: Trace
) -> None:
    """Run code of `translate_traced` over a grid; if it fails, what ran before is recorded."""
    if isinstance(code, CheckedCode):
        launch: Launch = CheckedLaunch(code, grid, arguments, collecting())
    else:
        launch = Launch(code, grid, arguments)
    views = tuple(map(view_of, launch.memory.buffers))
    use = trace.begin(launch.name, grid, views)
    launch.recorder = Recorder(use, launch.memory.buffers, trace.timeline)
    launch.run()
