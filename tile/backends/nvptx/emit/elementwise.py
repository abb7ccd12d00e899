"""Operations on each register alone."""

from __future__ import annotations

from collections.abc import Callable

from tile.backends.nvptx.emit.body import Body, Registers
from tile.ir.core import Operation


def each(body: Body, op: Operation, compute: Callable[..., str]) -> None:
    """The result's registers, one at a time; `compute` takes a register of each operand.

    What is filled with one scalar is computed once.
    """
    columns = [body.values[value] for value in op.inputs]
    known: dict[tuple[str, ...], str] = {}
    results: Registers = []
    for registers in zip(*columns, strict=True):
        found = known.get(registers)
        if found is None:
            found = known[registers] = compute(*registers)
        results.append(found)
    body.values[op.results[0]] = results


def instruction(body: Body, op: Operation, text: str) -> None:
    """One instruction of LLVM for each register, such as `add i32`."""
    new = body.new
    each(body, op, lambda *registers: new(f"{text} {', '.join(registers)}"))


def function(body: Body, op: Operation, name: str, ty: str) -> None:
    """One call for each register, of a function of `ty` alone."""
    each(body, op, lambda *registers: body.call(name, ty, *[(ty, r) for r in registers]))
