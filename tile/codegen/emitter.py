"""Parts of every emitter: the base of function builders, and rules of fragments and operands.

A value of the IR is a list of registers, whatever a register is to an emitter: the name of a
variable, or a constant. Functions are emitted block by block, in order.

Fragments become lists of names. To fill, to pick and to extract a register is then to choose from
lists, and emits nothing. The image of a thread under a layout is the XOR of a few masked shifts of
the thread number (`terms`), and of a constant for each register.

A load of a whole dot operand from shared memory holds all of its registers until the last dot.
Emitters therefore load a part of it where an instruction takes that part.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from tile.errors import UnsupportedError, stamp
from tile.ir.core import Block, Function, Operation, Value
from tile.ir.effects import only_reads
from tile.ir.op_definition import OpDef
from tile.ir.ops import memory, program
from tile.ir.ops.dot import is_multiplied, takes_registers
from tile.simt import ops
from tile.simt.layouts.axes import Registers, sums
from tile.simt.layouts.dims import LANE, REGISTER, WARP
from tile.simt.layouts.f2 import union
from tile.simt.layouts.linear_layout import LinearLayout

R = TypeVar("R", bound=Sequence[str])
Rules = Mapping[OpDef, Callable[[Any, Operation], None]]  # of a builder and an operation


class FunctionEmitter(ABC, Generic[R]):
    """A function under construction, for an emitter whose values are lists of type `R`."""

    def __init__(self, backend: str, function: Function, rules: Rules) -> None:
        self.backend = backend  # its name, for messages
        self.function = function
        self.rules = rules
        self.values: dict[Value, R] = {}

    # -- values

    def of(self, value: Value) -> R:
        """Return the registers of a value."""
        return self.values[value]

    def scalar(self, value: Value) -> str:
        """Return the only register of a value."""
        return self.values[value][0]

    def set(self, op: Operation, registers: R) -> None:
        """Set the registers of an operation's only result."""
        self.values[op.results[0]] = registers

    def flat(self, values: Sequence[Value]) -> list[str]:
        """Return the registers of values, in order."""
        return [register for value in values for register in self.of(value)]

    def masks(self, op: Operation, count: int) -> Sequence[str]:
        """Return the masks of `count` registers, all `true` without a mask operand."""
        mask = op["mask"]
        return ["true"] * count if mask is None else self.of(mask)

    # -- operations

    def emit(self, block: Block) -> None:
        """Emit the operations of a block except its terminator."""
        for op in block:
            if op.defn.terminator:
                self.locate(op)
                return
            self.operation(op)

    def operation(self, op: Operation) -> None:
        """Emit one operation."""
        self.locate(op)
        rule = self.rules.get(op.defn)
        if rule is None:
            raise UnsupportedError(
                f"the {self.backend} backend has no code for `{op.name}`", loc=op.loc
            )
        with stamp(op.loc):
            rule(self, op)

    @abstractmethod
    def locate(self, op: Operation) -> None:
        """Attribute the next lines to an operation."""


Unrolled = FunctionEmitter[list[str]]


def fill(builder: Unrolled, op: Operation) -> None:
    """Repeat one scalar in all registers."""
    builder.set(op, builder.of(op.inputs[0]) * op["count"])


def pick(builder: Unrolled, op: Operation) -> None:
    """Select registers by constant numbers."""
    every = [register for value in op.inputs for register in builder.of(value)]
    builder.set(op, [every[number] for number in op["registers"]])


def nothing(builder: FunctionEmitter[Any], op: Operation) -> None:
    """Emit no code."""


def forward(builder: FunctionEmitter[Any], op: Operation) -> None:
    """Take the registers of the first operand: of a hint, or of a buffer that is viewed."""
    builder.set(op, builder.of(op.inputs[0]))


def element(builder: FunctionEmitter[Any], op: Operation) -> None:
    """Select one register."""
    builder.set(op, [builder.of(op.inputs[0])[op["register"]]])


# Rules for an emitter's table.
RULES: dict[Any, Any] = {
    program.launch_dependents: nothing,
    memory.prefetch: nothing,
    ops.thread.frag_splat: fill,
    ops.thread.frag_shuffle: pick,
    ops.thread.frag_extract: element,
}


def thread_images(layout: LinearLayout) -> tuple[int, ...]:
    """Return the images of the bits of a thread number: of its lane, then of its warp."""
    return (*layout.images(LANE), *layout.images(WARP))


def overlap(numbers: Iterable[int]) -> bool:
    """Return True if two of the numbers have a bit in common."""
    listed = list(numbers)
    return sum(number.bit_count() for number in listed) > union(listed).bit_count()


def register_offsets(layout: LinearLayout) -> Registers:
    """Return the XOR constant of each register relative to its thread; (0,) without any."""
    return sums(layout.images(REGISTER) if REGISTER in layout.in_dims else ())


def copy_bits(layout: LinearLayout) -> int:
    """Return the bits of a thread number that lead to copies of elements."""
    return sum(1 << bit for bit, image in enumerate(thread_images(layout)) if image == 0)


def is_operand_load(load: Operation, dot: OpDef | None = None) -> bool:
    """Return True if only dots of this block use a load, before the memory can be overwritten.

    They use it as operands, also through `frag_shuffle`, and no operation between the load and the
    last of them writes memory or is a barrier that makes other threads' writes visible. `dot` is
    the only operation whose rule loads parts of operands, None if all rules of dots do.
    """
    dots, following = _dots(load.result), load.next
    if dots is None or (dot is not None and any(op.defn is not dot for op in dots)):
        return False
    while dots and following is not None:
        if not (only_reads(following) or following.defn is ops.shared.local_alloc):
            return False
        dots.discard(following)
        following = following.next
    return not dots


def _dots(value: Value) -> set[Operation] | None:
    """Return the dots that take a value as an operand; None if anything else uses it."""
    dots: set[Operation] = set()
    for user, index in value.uses:
        if user.defn is ops.thread.frag_shuffle:
            through = _dots(user.result)
            if through is None:
                return None
            dots |= through
        elif takes_registers(user) and is_multiplied(user, index):
            dots.add(user)
        else:
            return None
    return dots
