"""Removal of debug information."""

from __future__ import annotations

from tile.config import config
from tile.ir.core import Operation
from tile.ir.module import Module
from tile.ir.ops.debug import breakpoint_, debug_step
from tile.ir.passes import module_pass
from tile.tracebacks import warn

DEBUG_OPS = (breakpoint_, debug_step)


@module_pass("strip-debug-info")
def strip_debug_info(module: Module) -> None:
    """Remove debug steps and breakpoints, so that values used only by them are dead.

    Under a debugger, the interpreter runs kernels without any pass and keeps them. Elsewhere they
    have no effect; a warning at the first `breakpoint` says that execution does not stop there.

        debug_step %x {kind = line, variables = ("x")}    %y = add %x, %x : f32
        %y = add %x, %x : f32                             store %p, %y
        breakpoint
        store %p, %y
    """
    debug_ops = [op for op in module.walk() if op.defn in DEBUG_OPS]
    breakpoints = [op for op in debug_ops if op.defn is breakpoint_]
    if breakpoints and config.python_breakpoint != "0":
        _warn_ignored(breakpoints[0])
    for op in debug_ops:
        op.erase()


def _warn_ignored(stop: Operation) -> None:
    warn(
        f"`breakpoint()` at {stop.loc} is ignored: the debugger opens only if the interpreter "
        "runs the kernel (TILE_BACKEND=interp) at a terminal, or by `tile debug`",
        stop.loc,
    )
