"""A function under construction, with what is NVIDIA's: buffers in shared memory, packed values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tile.backends.nvptx.emit.module import ModuleText
from tile.codegen.llvm import function_builder as llvm
from tile.codegen.llvm.function_builder import Rule
from tile.ir.core import Function, Operation, Value
from tile.ir.op_definition import OpDef


@dataclass(frozen=True)
class SharedAddress:
    """The address of a buffer in shared memory: `base`, an i32 operand, plus `offset` bytes.

    `alignment` is a power of two that divides `base`.
    """

    base: str
    offset: int
    alignment: int = 1 << 30


class FunctionBuilder(llvm.FunctionBuilder):
    """Writes the lines of one function. A buffer is a `SharedAddress`."""

    module: ModuleText

    def __init__(self, module: ModuleText, function: Function, rules: Mapping[OpDef, Rule]) -> None:
        super().__init__(module, function, rules)
        self.buffers: dict[Value, SharedAddress] = {}
        # Iterations modulo a number of stages: by (iteration, modulus). See `StageCounter`.
        self.stage_counters: dict[tuple[str, int], str] = {}
        # The partition of what is emitted: that of a producer, or only the program (functions, and
        # what follows a `warp_specialize`).
        self.in_producer, self.in_program = False, not function.kernel
        # Vectors by their type and the names of all of their elements.
        self.vectors: dict[tuple[str, ...], str] = {}
        # Bytes that were extracted from 32-bit registers: (register, number of the byte).
        self.byte_sources: dict[str, tuple[str, int]] = {}
        self._deferred: dict[str, list[str]] = {}  # lines to write when a register is needed
        # Instructions to emit in front of an operation.
        self.before: dict[Operation, Sequence[str]] = {}

    def operation(self, op: Operation) -> None:
        """Emit one operation, after the instructions that stand before it."""
        if op in self.before:
            self.locate(op)
            for text in self.before[op]:
                self.do(text)
        super().operation(op)

    def defer(self, since: int, registers: Sequence[str]) -> None:
        """Take back the lines from number `since` on, until one of the registers is needed."""
        lines = self.lines[since:]
        del self.lines[since:]
        self._deferred.update(dict.fromkeys(registers, lines))

    def materialize(self, registers: Iterable[str]) -> None:
        """Append the lines that were deferred until one of these registers is needed."""
        for register in registers:
            lines = self._deferred.pop(register, None)
            if lines:
                self.lines += lines
                lines.clear()
