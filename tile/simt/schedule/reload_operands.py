"""Keep loop-invariant dot operands in shared memory when registers are short."""

from __future__ import annotations

from tile.analysis.liveness import Liveness, liveness
from tile.ir.core import Function, Operation, Value
from tile.ir.module import Module
from tile.ir.op_definition import Level, Trait
from tile.ir.ops import memory
from tile.ir.passes import module_pass
from tile.ir.types import Tile
from tile.simt import ops
from tile.simt.layouts.conversion import SharedConversion
from tile.simt.memory.expose_shared import plan_tile_conversion
from tile.simt.ops.layout import convert_layout
from tile.simt.ops.layout_inference import LayoutBuilder, layout_of
from tile.simt.ops.mma import mma_dot
from tile.simt.schedule.dot_slices import K_AXES
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
        _Reloading(function, target).run()


class _Reloading:
    def __init__(self, function: Function, target: SimtTarget) -> None:
        self.function = function
        self.target = target
        self.left = target.shared_bytes
        self.stored: set[Operation] = set()

    def run(self) -> None:
        loops = [op for op in self.function.walk() if op.has_trait(Trait.LOOP)]
        invariant = {loop: self.invariant_operands(loop) for loop in loops}
        if not any(invariant.values()):
            return
        live = liveness(self.function)
        for loop, conversions in invariant.items():
            conversions = [op for op in conversions if op not in self.stored]
            if conversions:
                self.reload(loop, conversions, live)

    def invariant_operands(self, loop: Operation) -> list[Operation]:
        """Return the conversions in front of a loop that only dots of loops use, as operands.

        Only conversions through shared memory, the largest first. Attention often has a loop for
        keys that a mask leaves whole, and one for others, with the same queries.
        """
        makers = dict.fromkeys(
            value.op
            for op in loop.regions[-1]
            if op.defn is mma_dot
            for value in op.inputs[: len(K_AXES)]
        )
        conversions = [op for op in makers if op is not None and self.can_reload(op, loop)]
        return sorted(conversions, key=lambda op: tile_registers(op.result), reverse=True)

    def can_reload(self, op: Operation, loop: Operation) -> bool:
        if op.defn is not convert_layout or op.block is not loop.block:
            return False
        for user in op.result.users:
            around = user.parent
            if user.defn is not mma_dot or around is None or not around.has_trait(Trait.LOOP):
                return False
            if around.block is not op.block:
                return False
        return isinstance(self.plan(op), SharedConversion)

    def plan(self, op: Operation) -> object:
        (value,) = op.inputs
        bits = value.type.element.storage_bits
        return plan_tile_conversion(layout_of(value), layout_of(op.result), bits, self.target)

    def reload(self, loop: Operation, conversions: list[Operation], live: Liveness) -> None:
        """Store the operands that fit in shared memory, if registers do not suffice for all."""
        loads = [op.result for op in loop.regions[-1] if op.defn is memory.load]
        ahead = 0 if self.target.cp_async_bytes else sum(map(tile_registers, loads))
        if not Resources(self.target).are_short(pressure(loop, live, self.target) + ahead):
            return
        self.left -= self.target.tuning.reserved_iterations * sum(map(_bytes, loads))
        for op in conversions:
            size = _bytes(op.result)
            if size <= self.left:
                self.left -= size
                self.store(op)

    def store(self, op: Operation) -> None:
        """Store the operand of a conversion in a buffer, and load it in front of each use."""
        (value,) = op.inputs
        plan = self.plan(op)
        assert isinstance(plan, SharedConversion)
        self.stored.add(op)
        mem = LayoutBuilder.before(op).store(value, plan.layout, op.result.name)
        for user, index in list(op.result.uses):
            user.set_operand(index, self.read(op.result, mem, user))
        op.erase()

    def read(self, value: Value, mem: Value, user: Operation) -> Value:
        load = LayoutBuilder.before(user)(ops.shared.local_load, mem, result=value.type)
        load.name = value.name
        return load


def _bytes(value: Value) -> int:
    ty = value.type
    return ty.of.bytes_of(ty.numel) if isinstance(ty, Tile) else 0
