"""Execution of the regions of reductions and scans, which are functions of scalars, on arrays.

A scalar of such a region is an array at run time, with one element for each of the pairs that are
combined at once; its axes are the program axis and those of the tile. The operations of the region
broadcast, so they work unchanged. If elements take different arms of an `if`, both arms run and
each element selects its own result. In runs with checks these arrays may be `CheckedValue`s, which
`select` must handle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tile.backends.interp.values import CheckedValue, Held
from tile.ir import numerics
from tile.ir.ops import control

if TYPE_CHECKING:
    from tile.backends.interp.code import BlockCode, Instruction
    from tile.backends.interp.wave import Wave


Select = Callable[[Any, Any, Any], Any]


def run_region(
    batch: Wave,
    code: BlockCode,
    registers: int,
    *arguments: Held,
    select: Select = numerics.select,
) -> list[Any]:
    """Return the results of a region, or of a function that it calls, for these arguments.

    select: chooses between the results of both arms of an `if`, element by element.
    """
    return _block(batch, code, [None] * registers, arguments, select)


def _block(
    batch: Wave, code: BlockCode, registers: list[Any], arguments: Sequence[Held], select: Select
) -> list[Any]:
    for register, value in zip(code.args, arguments, strict=True):
        registers[register] = value
    for instruction in code.instructions:
        operands = [registers[register] for register in instruction.operands]
        if instruction.op.defn.terminator:
            return operands
        results = _results(batch, instruction, registers, operands, select)
        for register, value in zip(instruction.results, results, strict=True):
            registers[register] = value
        for register in instruction.frees:
            registers[register] = None
    raise AssertionError("a region without a terminator")


def _results(
    batch: Wave,
    instruction: Instruction,
    registers: list[Any],
    operands: list[Any],
    select: Select,
) -> Sequence[Any]:
    if instruction.run is not None:
        return [instruction.run(batch, *operands)]
    if instruction.op.defn is control.call:
        callee = batch.launch.code.functions[instruction.op["callee"]]
        return run_region(batch, callee.body, callee.registers, *operands, select=select)
    (condition,) = operands
    if not isinstance(condition, CheckedValue):
        if condition.all():
            return _block(batch, instruction.regions[0], registers, (), select)
        if not condition.any():
            return _block(batch, instruction.regions[1], registers, (), select)
    then, orelse = (_block(batch, region, registers, (), select) for region in instruction.regions)
    return [select(condition, x, y) for x, y in zip(then, orelse, strict=True)]
