"""What is for a debugger alone goes."""

from __future__ import annotations

from tile.config import config
from tile.ir.core import Module, Operation
from tile.ir.ops.debug import breakpoint_, step
from tile.ir.passes import module_pass
from tile.warn import warn

FOR_DEBUGGERS = (breakpoint_, step)


@module_pass("drop-steps")
def drop_steps(module: Module) -> None:
    """Remove the places where a debugger stops, and with them what only they look at.

    The interpreter runs kernels with these under a debugger, without any pass; for all others they
    mean nothing. Of the first `breakpoint` a warning says that nothing stops there.

        step %x {kind = line, variables = ("x")}      %y = add %x, %x : f32
        %y = add %x, %x : f32                         store %p, %y
        breakpoint
        store %p, %y
    """
    found = [op for op in module.walk() if op.defn in FOR_DEBUGGERS]
    stops = [op for op in found if op.defn is breakpoint_]
    if stops and config.python_breakpoint != "0":
        _say(stops[0])
    for op in found:
        op.erase()


def _say(stop: Operation) -> None:
    warn(
        f"`breakpoint()` at {stop.loc} is passed over: the debugger opens where the interpreter "
        "runs the kernel (TILE_BACKEND=interp) at a terminal, or by `tile debug`",
        stop.loc,
    )
