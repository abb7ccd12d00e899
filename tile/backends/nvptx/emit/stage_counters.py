"""Stage counters: the stage of a multi-buffer, counted from 0 to the last and around again.

The iteration modulo a number of stages that is not a power of two would be a multiplication in
every iteration, and HGMMA competes with those for register-file ports (see
`strength-reduce-pointers`). So a loop with wgmma carries a counter in addition to the iteration.
"""

from __future__ import annotations

from dataclasses import dataclass

from tile.backends.nvptx.emit.function_builder import FunctionBuilder
from tile.ir.core import Operation, Value
from tile.ir.effects import constant_of
from tile.ir.op_definition import Trait
from tile.ir.ops import arith
from tile.ir.shared_type import Shared
from tile.ir.types import I32
from tile.simt import ops


@dataclass(frozen=True)
class StageCounter:
    """A loop-carried value that each iteration adds 1 to, modulo a number of stages.

    Or modulo twice as many, where that gives the phase of an mbarrier.
    """

    value: Value
    init: Value
    stages: int

    def first(self, builder: FunctionBuilder) -> str:
        """Return the stage in the first iteration."""
        number = constant_of(self.init)
        if isinstance(number, int):
            return str(number % self.stages)
        return builder.new(f"urem i32 {builder.scalar(self.init)}, {self.stages}")

    def next(self, builder: FunctionBuilder, stage: str) -> str:
        """Return the stage in the next iteration."""
        following = builder.new(f"add i32 {stage}, 1")
        last = builder.new(f"icmp eq i32 {following}, {self.stages}")
        return builder.new(f"select i1 {last}, i32 0, i32 {following}")


def has_wgmma(loop: Operation) -> bool:
    """Return True if the body of a `for` has a wgmma."""
    return any(op.has_trait(Trait.IN_FLIGHT) for op in loop.regions[0])


def stage_counters(loop: Operation) -> list[StageCounter]:
    """Return the counters of a `for` with wgmma: one for each counted value and modulus."""
    if not has_wgmma(loop):
        return []
    (region,) = loop.regions
    carried = zip(region.args[1:], loop.inputs[3:], region.yielded, strict=True)
    return [
        StageCounter(value, init, stages)
        for value, init, following in carried
        if value.type == I32
        if _is_next(following, value)
        for stages in _moduli(value)
    ]


# Operations that take an iteration modulo the stages of their buffer (1), or modulo twice that (2).
_MODULUS_IN_STAGES = {
    ops.shared.local_subview: 1,
    ops.tma.mbarrier_arrive: 1,
    ops.cluster.mbarrier_arrive_pair: 1,
    ops.tma.mbarrier_wait: 2,
}


def _is_next(following: Value, value: Value) -> bool:
    op = following.op
    return (
        op is not None
        and op.defn is arith.add
        and op.inputs[0] is value
        and constant_of(op.inputs[1]) == 1
    )


def _moduli(iteration: Value) -> list[int]:
    """Return the moduli of an iteration's users that are not powers of two, each once."""
    moduli = (_modulus(op) for op in iteration.users)
    return [number for number in dict.fromkeys(moduli) if number & (number - 1)]


def _modulus(user: Operation) -> int:
    """Return the modulus by which an operation takes an iteration; 0 if it takes it otherwise."""
    times = _MODULUS_IN_STAGES.get(user.defn, 0)
    buffer = user.inputs[0].type
    return times * buffer.stages if times and isinstance(buffer, Shared) else 0


def stage_of(builder: FunctionBuilder, iteration: str, shift: int, stages: int) -> str:
    """Return the stage: `(iteration + shift) mod stages`."""
    stage, shift = builder.stage_counters.get((iteration, stages)), shift % stages
    if stage is None:
        number = builder.new(f"add i32 {iteration}, {shift}") if shift else iteration
        return builder.new(f"urem i32 {number}, {stages}")
    if not shift:
        return stage
    later = builder.new(f"add i32 {stage}, {shift}")
    inside = builder.new(f"icmp ult i32 {later}, {stages}")
    around = builder.new(f"sub i32 {later}, {stages}")
    return builder.new(f"select i1 {inside}, i32 {later}, i32 {around}")


def parity_of(builder: FunctionBuilder, iteration: str, shift: int, stages: int) -> str:
    """Return the parity of the phase, `(iteration + shift) / stages`: 0 or 1, an i32."""
    shift %= 2 * stages
    if (iteration, 2 * stages) in builder.stage_counters:
        stage = stage_of(builder, iteration, shift, 2 * stages)
        odd = builder.new(f"icmp uge i32 {stage}, {stages}")
        return builder.new(f"zext i1 {odd} to i32")
    number = builder.new(f"add i32 {iteration}, {shift}") if shift else iteration
    phase = builder.new(f"udiv i32 {number}, {stages}")
    return builder.new(f"and i32 {phase}, 1")
