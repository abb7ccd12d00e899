"""Keep loop-invariant dot operands in shared memory when registers are short."""

from __future__ import annotations

from collections.abc import Sequence

from tile.analysis.liveness import Liveness, liveness
from tile.ir.core import Block, Operation, Value
from tile.ir.module import Module
from tile.ir.op_definition import Level, Trait
from tile.ir.ops import memory
from tile.ir.passes import module_pass
from tile.ir.types import Tile
from tile.simt import ops
from tile.simt.memory.expose_shared import shared_conversion
from tile.simt.ops.layout import convert_layout
from tile.simt.ops.layout_inference import LayoutBuilder
from tile.simt.ops.mma import mma_dot
from tile.simt.schedule.dot_slices import K_AXES, tile_bytes
from tile.simt.schedule.resources import Resources, pressure, tile_registers
from tile.simt.target import GENERIC, SimtTarget


@module_pass("reload-operands", before=Level.LAID_OUT)
def reload_operands(module: Module, *, target: SimtTarget = GENERIC) -> None:
    """Keep loop-invariant dot operands in shared memory when registers are short.

    Such an operand already passes through shared memory for its layout conversion. Instead of
    holding the converted fragment in registers for the whole loop, store it once before the loop
    and load it in every iteration. The largest operands go first, until the estimated register
    pressure fits the target.

        %y = convert_layout %x                    %m = local_alloc : shared<128x64xf16, #s>
        %r = for .. {                             local_store %m, %x
          %d = mma_dot %y, %b, %c                 %r = for .. {
        }                                           %y = local_load %m
                                                    %d = mma_dot %y, %b, %c
                                                  }
    """
    for function in module:
        loops = [op for op in function.walk() if op.has_trait(Trait.LOOP)]
        invariant = {loop: _invariant_operands(loop, target) for loop in loops}
        live = liveness(function) if any(invariant.values()) else None
        left = target.shared_bytes
        for loop, conversions in invariant.items():
            conversions = [op for op in conversions if op.block]  # none of an earlier loop
            loads = [op.result for op in loop.regions[-1] if op.defn is memory.load]
            loads = [value for value in loads if isinstance(value.type, Tile)]
            if live is None or not conversions or not _are_short(loop, loads, live, target):
                continue
            left -= target.tuning.reserved_iterations * sum(map(tile_bytes, loads))
            for op in conversions:
                if tile_bytes(op.result) <= left:
                    left -= tile_bytes(op.result)
                    _store(op, target)


def _invariant_operands(loop: Operation, target: SimtTarget) -> list[Operation]:
    """Return the conversions in front of a loop that only dots of loops use, as operands.

    Only conversions through shared memory, the largest first. Attention often has a loop for keys
    that a mask leaves whole, and one for others, with the same queries.
    """
    dots = [op for op in loop.regions[-1] if op.defn is mma_dot]
    makers = dict.fromkeys(value.op for dot in dots for value in dot.inputs[: len(K_AXES)])
    conversions = [
        op
        for op in makers
        if op is not None
        and op.defn is convert_layout
        and op.block is loop.block
        and all(_is_dot_of_loop(user, loop.block) for user in op.result.users)
        and shared_conversion(op, target)
    ]
    return sorted(conversions, key=lambda op: tile_registers(op.result), reverse=True)


def _is_dot_of_loop(op: Operation, block: Block | None) -> bool:
    """Return True if an operation is a dot of a loop of a block."""
    loop = op.parent
    in_loop = loop is not None and loop.has_trait(Trait.LOOP) and loop.block is block
    return in_loop and op.defn is mma_dot


def _are_short(loop: Operation, loads: Sequence[Value], live: Liveness, target: SimtTarget) -> bool:
    """Return True if registers do not suffice for all tiles in a loop, and those loaded early."""
    ahead = 0 if target.cp_async_bytes else sum(map(tile_registers, loads))
    return Resources(target).are_short(pressure(loop, live, target) + ahead)


def _store(op: Operation, target: SimtTarget) -> None:
    """Store the operand of a conversion in a buffer, and load it in front of each use."""
    plan, result = shared_conversion(op, target), op.result
    assert plan is not None
    mem = LayoutBuilder.before(op).store(op.inputs[0], plan.layout, result.name)
    for user, index in list(result.uses):
        load = LayoutBuilder.before(user)(ops.shared.local_load, mem, result=result.type)
        load.name = result.name
        user.set_operand(index, load)
    op.erase()
