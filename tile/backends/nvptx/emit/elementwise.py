"""Operations on each register by itself."""

from __future__ import annotations

from collections.abc import Callable

from tile.backends.nvptx.emit.body import FunctionBuilder, Registers
from tile.ir.core import Operation


def each(builder: FunctionBuilder, op: Operation, compute: Callable[..., str]) -> None:
    """Compute the result's registers one by one; `compute` takes one register of each operand.

    Equal operands, as in a splat, are computed once.
    """
    columns = [builder.values[value] for value in op.inputs]
    computed: dict[tuple[str, ...], str] = {}
    results: Registers = []
    for registers in zip(*columns, strict=True):
        result = computed.get(registers)
        if result is None:
            result = computed[registers] = compute(*registers)
        results.append(result)
    builder.values[op.results[0]] = results


def instruction(builder: FunctionBuilder, op: Operation, text: str) -> None:
    """Emit one LLVM instruction for each register; `text` is such as `add i32`."""
    new = builder.new
    each(builder, op, lambda *registers: new(f"{text} {', '.join(registers)}"))


def function(builder: FunctionBuilder, op: Operation, name: str, ty: str) -> None:
    """Emit one call for each register; operands and result of the function have type `ty`."""
    each(builder, op, lambda *registers: builder.call(name, ty, *[(ty, r) for r in registers]))
