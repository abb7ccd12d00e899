"""Lower tiles to per-thread fragments: from the LAID_OUT level to the THREAD level.

context           the state of a function's lowering, and the check of its fragments' size
elementwise, memory, shared, convert_layout, reduce, dot
                  the rules, by operation

Loops, branches and calls stay the same on a thread's values, as do operations on no tiles.
"""

from __future__ import annotations

from tile.ir.module import Module
from tile.ir.op_definition import Level, OpDef
from tile.ir.ops import control
from tile.ir.passes import module_pass
from tile.simt.lower.distribute import convert_layout, dot, elementwise, memory, reduce, shared
from tile.simt.lower.distribute.context import Context, Rule
from tile.simt.target import GENERIC, SimtTarget

__all__ = ["RULES", "distribute"]

_CONTROL = (
    control.for_,
    control.while_,
    control.if_,
    control.call,
    control.yield_,
    control.condition,
    control.return_,
)
RULES: dict[OpDef, Rule] = dict.fromkeys(_CONTROL, Context.clone)
for family in (elementwise, memory, shared, convert_layout, reduce, dot):
    RULES.update(family.RULES)


@module_pass("distribute", before=Level.LAID_OUT, after=Level.THREAD)
def distribute(module: Module, *, target: SimtTarget = GENERIC, num_warps: int = 4) -> None:
    """Lower a program to the code of one thread: tiles become the fragments that it holds of them.

    Threads exchange data only by shuffles and through shared memory. Where several threads hold
    copies of an element, the first one writes.

        %i = arange {start = 0, end = 256}     %i = layout_index {layout = #a} : frag<2xi32>
          : tile<256xi32, #a>
        %p = splat %x {shape = (256)}          %p = frag_splat %x {count = 2} : frag<2xptr<f32>>
          : tile<256xptr<f32>, #a>
        %q = addptr %p, %i {stride = 4}        %q = addptr %p, %i {stride = 4}
        %v = load %q : tile<256xf32, #a>       %v = load %q {vector = 2} : frag<2xf32>

    Raises `OutOfResourcesError` for a tile that takes too many registers.
    """
    for function in module:
        ctx = Context(module, function, target, num_warps, RULES)
        ctx.rewrite(function.body)
        module.functions[function.name] = ctx.new
