"""A function under construction, for tests that call the language without a frontend."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from tests.evaluate import Array, evaluate
from tile.ir.builder import Builder
from tile.ir.core import Function
from tile.ir.module import Module
from tile.ir.ops import control
from tile.ir.printer import print_function
from tile.ir.types import Type
from tile.ir.value_parser import parse_type
from tile.ir.verifier import verify
from tile.language.base.tensor import Tensor


class Sketch:
    """Parameters `a`, `b`, ... of the types given (as IR text), and a builder behind them."""

    def __init__(self, *types: str | Type) -> None:
        parsed = [parse_type(ty) if isinstance(ty, str) else ty for ty in types]
        names = [chr(ord("a") + i) for i in range(len(parsed))]
        self.function = Function("test", parsed, names)
        self.build = Builder(self.function.body)
        self.args = [Tensor(value) for value in self.function.args]

    def end(self, *results: Any) -> None:
        """Return these values, and hold the function to the rules of the IR."""
        values = [result.value for result in results]
        self.function.result_types = tuple(value.type for value in values)
        self.build.op(control.return_, *values)
        verify(Module([self.function]))

    def run(self, results: Any, *arguments: npt.ArrayLike) -> Any:
        """End with one value or a tuple of them, and give what they are for these arguments."""
        several = isinstance(results, tuple)
        self.end(*(results if several else (results,)))
        actual: list[Array] = evaluate(self.function, *arguments)
        return actual if several else actual[0]

    def text(self) -> list[str]:
        """The operations so far, as IR text."""
        _, *lines, _ = print_function(self.function).splitlines()
        return [line.strip() for line in lines]
