"""Loop invariant code motion."""

from __future__ import annotations

from collections.abc import Iterator

from tile.ir.core import Block, Function, Operation
from tile.ir.effects import MAY_STOP, effects, is_plain_load, is_pure, iterations
from tile.ir.module import Module
from tile.ir.op_definition import Effect, Trait
from tile.ir.ops import arith, control, memory
from tile.ir.passes import module_pass

# Effects of a loop that prevent hoisting its loads.
PINS_LOADS = Effect.WRITE | Effect.SYNC
# Operations that are never speculated: a loop might take long, a hint might not hold.
NOT_SPECULATED = frozenset({control.while_, control.for_, arith.hint})


@module_pass("licm", before=None)
def licm(module: Module) -> None:
    """Hoist loop-invariant operations.

    Pure operations are hoisted, and loads from loops that run at least once and do not write
    memory. A loop with `disable_licm` is unchanged.

        for %i = %a to %b step %c {               %s = splat %x {shape = (8)} : tile<8xf32>
          %s = splat %x {shape = (8)} : ...       for %i = %a to %b step %c {
          store %p, %s                              store %p, %s
          yield                                     yield
        }                                         }
    """
    for function in module:
        for loop in list(_innermost_first(function)):
            if not loop.attributes.get("disable_licm"):
                _hoist(loop)


def _innermost_first(function: Function) -> Iterator[Operation]:
    loops = [op for op in function.walk() if op.has_trait(Trait.LOOP)]
    return reversed(loops)


def _hoist(loop: Operation) -> None:
    inside = {*loop.blocks()}
    loads = not effects(loop) & PINS_LOADS
    for region in loop.regions:
        executes = _always_runs(loop, region)
        for op in region:
            if _is_hoistable(op, executes, loads) and _is_invariant(op, inside):
                op.move_before(loop)
                inside.difference_update(op.blocks())
            elif effects(op) & MAY_STOP:
                executes = False  # the operations after it may never run


def _always_runs(loop: Operation, region: Block) -> bool:
    """Return True if a region of a loop runs at least once whenever the loop does."""
    if loop.defn is control.while_:
        return region is loop.regions[0]
    return bool(iterations(loop))


def _is_hoistable(op: Operation, executes: bool, loads: bool) -> bool:
    """Return True if an operation may be hoisted once it is invariant.

    executes: the operation is guaranteed to execute. loads: the loop does not write memory.
    """
    if op.defn is memory.load:
        return executes and loads and is_plain_load(op)
    if not is_pure(op):
        return False
    return executes or not any(nested.defn in NOT_SPECULATED for nested in op.walk())


def _is_invariant(op: Operation, inside: set[Block]) -> bool:
    own = {*op.blocks()}
    return all(
        value.block not in inside or value.block in own
        for nested in op.walk()
        for value in nested.inputs
    )
