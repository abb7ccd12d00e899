"""Bytecode: what the executor runs.

A function is translated (see `translate.py`) to blocks of instructions over numbered registers. An
instruction holds the Python function that performs its operation; the operations of control flow
hold none, because the executor performs them itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from tile.analysis.exit_slice import ExitSlice
from tile.ir.core import Function, Operation
from tile.ir.module import Module
from tile.ir.op_definition import OpDef

R = TypeVar("R", bound=Callable[..., Any])


def rule_in(rules: dict[OpDef, R]) -> Callable[..., Callable[[R], R]]:
    """Return a decorator that adds the rule of some operations to a table."""

    def rule(*defns: OpDef) -> Callable[[R], R]:
        def declare(function: R) -> R:
            rules.update(dict.fromkeys(defns, function))
            return function

        return declare

    return rule


# The function of an instruction: from the batch and operands to one result, several, or None.
Run = Callable[..., Any]


def runs_in(
    rules: dict[OpDef, Callable[[Operation], Run]], check: Run | None = None
) -> Callable[..., Callable[[R], R]]:
    """Return a decorator of functions that run operations: from an operation, batch and operands.

    check: runs before them, with the batch and the operation; it raises if one cannot run.
    """

    def checked(function: Run, op: Operation, batch: Any, *operands: Any) -> Any:
        if check is not None:
            check(batch, op)
        return function(op, batch, *operands)

    def runs(*defns: OpDef) -> Callable[[R], R]:
        def declare(function: R) -> R:
            run = function if check is None else partial(checked, function)
            rules.update(dict.fromkeys(defns, partial(partial, run)))
            return function

        return declare

    return runs


ABSENT = -1  # the register of an operand that is absent: the last one, which is never written


@dataclass(eq=False)
class Instruction:
    """An operation with its registers. `run` is None for control flow, left to the executor."""

    op: Operation
    operands: tuple[int, ...]
    results: tuple[int, ...]
    frees: tuple[int, ...] = ()
    run: Run | None = None
    regions: tuple[BlockCode, ...] = ()
    exits: ExitSlice | None = None  # of a `while`: the slice that decides its end
    result: int | None = field(init=False)  # the only one of `results`

    def __post_init__(self) -> None:
        self.result = self.results[0] if len(self.results) == 1 else None


@dataclass(eq=False)
class BlockCode:
    """The code of a block: the registers of its arguments, and its instructions."""

    args: tuple[int, ...]
    instructions: list[Instruction] = field(default_factory=list)


@dataclass(eq=False)
class FunctionCode:
    """The code of a function; `registers` is the number that a call needs."""

    function: Function
    body: BlockCode
    registers: int


@dataclass(eq=False)
class Code:
    """The code of a module."""

    module: Module
    kernel: FunctionCode
    functions: dict[str, FunctionCode]
    polls: bool  # True if programs may wait for each other in a loop
    largest_value: int  # bytes of the largest value of a program, or thread

    def instructions(self) -> Iterator[Instruction]:
        """Yield all instructions with those of their regions."""
        pending = [function.body for function in self.functions.values()]
        while pending:
            for instruction in pending.pop().instructions:
                yield instruction
                pending += instruction.regions
