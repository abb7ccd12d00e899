"""Uniformity analysis: the values that are the same for all programs.

A value is *uniform* if all programs that compute it, in the same iteration of the enclosing loops,
compute the same elements. Variation starts at sources (`program_id`, atomics) and propagates along
uses and through control flow: the results of an `if` or loop vary if programs diverge in it.

`launch_value` finds values that are known at launch: a kernel's arguments, constants, and these
multiplied or negated. `launch_address` finds pointers that are: arguments, with such a value added.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from tile.analysis.dataflow import Forward
from tile.ir.core import Block, Function, Operation, Value
from tile.ir.effects import constant_of, effects
from tile.ir.op_definition import Effect
from tile.ir.ops import arith, control, memory, program
from tile.ir.ops.inline_asm import inline_asm
from tile.ir.types import Scalar, Type

_POINTER_BITS = 64


class Variation(enum.Enum):
    """The lattice of the analysis: uniform or varying."""

    UNIFORM = "uniform"
    VARYING = "varying"

    def __or__(self, other: Variation) -> Variation:
        return self if self is Variation.VARYING else other


# The operations whose results differ between programs.
SOURCES = frozenset(
    {
        program.program_id,
        program.multiprocessor_id,
        program.global_timer,
        program.cluster_gather,
        memory.atomic_rmw,
        memory.atomic_cas,
        inline_asm,
        control.call,
    }
)


def uniformity(function: Function, axis: int | None = None) -> dict[Value, Variation]:
    """Return the variation of all values.

    A kernel's arguments are uniform; a device function's may vary. With `axis`, the programs are
    those that differ along that axis of the grid alone.
    """
    return _Uniformity(function, axis).run(function)


class _Uniformity(Forward[Variation]):
    def __init__(self, function: Function, axis: int | None) -> None:
        super().__init__()
        self.axis = axis
        changed = Effect.WRITE | Effect.SYNC
        self.stable_memory = not any(effects(op) & changed for op in function.body)

    def argument(self, function: Function, index: int) -> Variation:
        return Variation.UNIFORM if function.kernel else Variation.VARYING

    def unknown(self, ty: Type) -> Variation:
        return Variation.VARYING

    def join(self, x: Variation, y: Variation) -> Variation:
        return x | y

    def transfer(self, op: Operation) -> Sequence[Variation]:
        return [self.result(op)] * len(op.results)

    def result(self, op: Operation) -> Variation:
        unstable = op.defn.effect is Effect.READ and (
            op.attributes.get("volatile", False) or not self.stable_memory
        )
        if op.defn is program.program_id and self.axis not in (None, op["axis"]):
            return Variation.UNIFORM
        if unstable or op.defn in SOURCES:
            return Variation.VARYING
        return self.any_of(self.present(op))

    def any_of(self, facts: Sequence[Variation]) -> Variation:
        return Variation.VARYING if Variation.VARYING in facts else Variation.UNIFORM

    def index(self, op: Operation) -> Variation:
        """Return the induction variable's variation; programs that exited early do not matter."""
        return self.fact(op, 0) | self.fact(op, 2)

    def merge(self, op: Operation, index: int, then: Variation, orelse: Variation) -> Variation:
        first, second = (region.yielded[index] for region in op.regions)
        if first is second:
            return then
        return self.fact(op, 0) | then | orelse

    def loop_result(self, op: Operation, index: int, fact: Variation) -> Variation:
        return fact | self.exit(op)

    def exit(self, op: Operation) -> Variation:
        """Return VARYING if programs may exit a loop after different numbers of iterations."""
        if op.defn is control.for_:
            return self.any_of(self.present(op)[:3])
        end = op.regions[0].last
        assert end is not None
        return self.fact(end, 0)


@dataclass(frozen=True)
class LaunchExpression:
    """A value known at launch: kernel arguments multiplied with each other and with a constant.

    The multiplications wrap to `bits` bits.
    """

    arguments: tuple[Value, ...]
    multiplier: int
    bits: int

    @property
    def may_wrap(self) -> bool:
        """True unless it is an argument or a constant."""
        return len(self.arguments) + (self.multiplier != 1) > 1


def launch_value(value: Value) -> LaunchExpression | None:
    """Return the kernel arguments and the constant whose multiplication gives a scalar, or None.

    Looks through sign extensions and hints.
    """
    while value.op is not None and (value.op.defn is arith.hint or _widens(value)):
        value = value.op.inputs[0]
    bits = value.type.bits if isinstance(value.type, Scalar) else _POINTER_BITS
    constant = constant_of(value)
    if isinstance(constant, int):
        return LaunchExpression((), constant, bits)
    if value.op is not None:
        return _multiplied(value.op, bits) if value.op.defn in (arith.mul, arith.neg) else None
    block = value.owner
    if not isinstance(block, Block) or block.owner is None or not block.owner.kernel:
        return None
    return LaunchExpression((value,), 1, bits)


def launch_address(value: Value) -> tuple[Value, LaunchExpression] | None:
    """Return the kernel argument and the elements after it to which a pointer points, or None.

    Looks through hints.
    """
    while value.op is not None and value.op.defn is arith.hint:
        value = value.op.inputs[0]
    offset: LaunchExpression | None = LaunchExpression((), 0, _POINTER_BITS)
    if value.op is not None and value.op.defn is memory.addptr:
        value, index = value.op.inputs
        offset = launch_value(index) if index.type.element.is_int_signed() else None
    base = launch_value(value)
    return None if offset is None or base is None else (base.arguments[0], offset)


def _multiplied(op: Operation, bits: int) -> LaunchExpression | None:
    """Return the expression of a `mul` or `neg`; None if an operand may wrap in fewer bits."""
    if not isinstance(op.result.type, Scalar) or not op.result.type.is_int_signed():
        return None
    arguments: tuple[Value, ...] = ()
    multiplier = -1 if op.defn is arith.neg else 1
    for operand in map(launch_value, op.inputs):
        if operand is None or (operand.may_wrap and operand.bits < bits):
            return None
        arguments += operand.arguments
        multiplier *= operand.multiplier
    return LaunchExpression(arguments, multiplier, bits)


def _widens(value: Value) -> bool:
    """Return True if a value is a sign extension (or a cast of the same width)."""
    op, ty = value.op, value.type
    if op is None or op.defn is not arith.cast:
        return False
    before = op.inputs[0].type
    if not (isinstance(ty, Scalar) and isinstance(before, Scalar)):
        return False
    return before.is_int_signed() and ty.is_int_signed() and before.bits <= ty.bits
