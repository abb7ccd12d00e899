"""Bytecode: what the executor runs.

A function is translated (see `translate.py`) to blocks of instructions over numbered registers. An
instruction holds the Python function that performs its operation; the operations of control flow
hold none, because the executor performs them itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tile.analysis.exit_slice import ExitSlice
from tile.ir.core import Function, Module, Operation

# The function of an instruction: from the batch and operands to one result, several, or None.
Run = Callable[..., Any]
ABSENT = -1  # the register of an operand that is absent


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
