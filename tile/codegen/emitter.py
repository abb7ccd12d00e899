"""The base of function builders: the registers of values, and a rule for each operation.

A value of the IR is a list of registers, whatever a register is to an emitter: the name of a
variable, or a constant. Functions are emitted block by block, in order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from tile.errors import UnsupportedError, stamp
from tile.ir.core import Block, Function, Operation, Value
from tile.ir.op_definition import OpDef

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
