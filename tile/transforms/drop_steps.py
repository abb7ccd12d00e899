"""What is for a debugger alone goes."""

from __future__ import annotations

from tile.ir.core import Module
from tile.ir.ops.debug import breakpoint_, step
from tile.ir.passes import module_pass

FOR_DEBUGGERS = (breakpoint_, step)


@module_pass("drop-steps")
def drop_steps(module: Module) -> None:
    """Remove the places where a debugger stops, and with them what only they look at.

    The interpreter runs kernels with these under a debugger, without any pass; for all others they
    mean nothing.

        step %x {kind = line, variables = ("x")}      %y = add %x, %x : f32
        %y = add %x, %x : f32                         store %p, %y
        breakpoint
        store %p, %y
    """
    for op in module.walk():
        if op.defn in FOR_DEBUGGERS:
            op.erase()
