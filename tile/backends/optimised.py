"""What every backend does first with a module: check it, and optimise its tiles."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

from tile.analysis.alias import written_arguments
from tile.config import config
from tile.ir.core import Module
from tile.ir.ops.debug import breakpoint_
from tile.ir.passes import run_pipeline
from tile.ir.printer import print_module
from tile.ir.verifier import verify
from tile.transforms.pipeline import TILE


@dataclass(frozen=True)
class Optimised:
    """The texts of a module's stages so far.

    And the kernel's parameters, and those of them through which it writes memory.
    """

    stages: dict[str, str | bytes]
    parameters: tuple[str, ...]
    written: frozenset[str]


def optimise(module: Module) -> Optimised:
    """Run the machine-independent passes over a TILE module, which changes."""
    verify(module)
    _pass_over_breakpoints(module)
    parameters = tuple(value.name for value in module.kernel.args)
    stages: dict[str, str | bytes] = {"tile": print_module(module)}
    run_pipeline(module, TILE)
    verify(module)
    stages["tile-optimized"] = print_module(module)
    return Optimised(stages, parameters, written_arguments(module, module.kernel))


def _pass_over_breakpoints(module: Module) -> None:
    """Say of the first `breakpoint()` of a module that nothing stops there."""
    first = next((op for op in module.walk() if op.defn is breakpoint_), None)
    if first is not None and config.python_breakpoint != "0":
        warnings.warn(
            f"`breakpoint()` at {first.loc} is passed over: the debugger opens where the "
            "interpreter runs the kernel (TILE_BACKEND=interp) at a terminal, or by `tile debug`",
            RuntimeWarning,
            stacklevel=2,
        )
