"""Run functions of integers with control flow in NumPy and show every value that is computed.

The analyses state facts about all values of all runs; here is one run to hold them against.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tile.ir import semantics
from tile.ir.core import Block, Function, Operation, Value
from tile.ir.ops import control, debug, program
from tile.ir.types import Scalar

Array = Any
# Signed operations whose exact result may not fit.
EXACT: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "neg": np.negative,
    "shl": lambda x, y: x * 2 ** np.clip(y, 0, 40),
}


@dataclass
class Run:
    """An evaluation of a function. It calls `see` with each value as it is computed."""

    see: Callable[[Value, Array], None]
    program: tuple[int, int, int] = (0, 0, 0)
    use: Callable[[Operation, int, Array], None] = lambda op, index, array: None
    overflowed: bool = False
    divided_by_zero: bool = False
    values: dict[Value, Array] = field(default_factory=dict)

    def function(self, function: Function, arguments: Sequence[Any]) -> list[Array]:
        for value, argument in zip(function.args, arguments, strict=True):
            self.keep(value, np.asarray(argument, semantics.numpy_dtype(value.type.element)))
        with semantics.quiet():
            return self.block(function.body)

    def keep(self, value: Value, array: Array) -> None:
        self.values[value] = np.broadcast_to(array, value.type.shape)
        self.see(value, self.values[value])

    def operands(self, op: Operation) -> list[Array]:
        arrays = [self.values[value] for value in op.inputs]
        for index, array in enumerate(arrays):
            self.use(op, index, array)
        return arrays

    def block(self, block: Block) -> list[Array]:
        for op in block:
            arrays = self.operands(op)
            if op.defn.terminator:
                return arrays
            for value, array in zip(op.results, self.results(op, arrays), strict=True):
                self.keep(value, array)
        raise AssertionError("the block has no terminator")

    def enter(self, block: Block, arrays: Sequence[Array]) -> list[Array]:
        for value, array in zip(block.args, arrays, strict=True):
            self.keep(value, array)
        return self.block(block)

    def results(self, op: Operation, arrays: list[Array]) -> Sequence[Array]:
        if op.defn is control.if_:
            return self.block(op.regions[0 if arrays[0] else 1])
        if op.defn is control.for_:
            return self.for_(op, arrays)
        if op.defn is control.while_:
            return self.while_(op, arrays)
        if op.defn is program.program_id:
            return [np.array(self.program[op["axis"]], np.int32)]
        if op.defn is debug.assume:
            return []
        self.watch(op, arrays)
        assert op.defn.semantics is not None
        result = op.defn.semantics(*(array[None] for array in arrays), **op.attributes)
        results = result if isinstance(result, tuple) else (result,)
        shapes = [(1, *value.type.shape) for value in op.results]
        return [np.broadcast_to(r, s)[0] for r, s in zip(results, shapes, strict=True)]

    def for_(self, op: Operation, arrays: list[Array]) -> list[Array]:
        lower, upper, step, *carried = arrays
        for index in range(int(lower), int(upper), int(step)):
            carried = self.enter(op.regions[0], [np.array(index, lower.dtype), *carried])
        return carried

    def while_(self, op: Operation, carried: list[Array]) -> list[Array]:
        test, body = op.regions
        for _ in range(100):
            if not self.enter(test, carried)[0]:
                return carried
            carried = self.enter(body, carried)
        raise AssertionError("the loop does not end")

    def watch(self, op: Operation, arrays: list[Array]) -> None:
        """Record that signed arithmetic wrapped or a divisor was zero."""
        if op.name in ("div", "rem"):
            self.divided_by_zero |= not np.all(arrays[1])
        exact = EXACT.get(op.name)
        element = op.results[0].type.element if op.results else None
        if exact is None or not isinstance(element, Scalar) or not element.is_int_signed():
            return
        numbers = exact(*(array.astype(object) for array in arrays))
        inside = (numbers >= element.min_value) & (numbers <= element.max_value)
        self.overflowed |= not np.all(inside)
