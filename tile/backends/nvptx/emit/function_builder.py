"""Modules and functions under construction, with what is NVIDIA's: shared memory, packed values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tile.backends.base import Assertion, Options
from tile.backends.nvptx.architectures import DATA_LAYOUT, TRIPLE, has_dependent_launches
from tile.backends.nvptx.launch_metadata import TensorMap
from tile.backends.nvptx.target import Architecture
from tile.codegen.llvm import function_builder as llvm
from tile.codegen.llvm.function_builder import Rule
from tile.ir.core import Function, Operation, Value
from tile.ir.op_definition import OpDef

_PLACE = re.compile(r"\$(\d+)")  # of an operand in inline PTX


class ModuleText(llvm.ModuleText):
    """A module under construction."""

    def __init__(
        self, arch: Architecture, options: Options, threads: int, producer_threads: int = 0
    ) -> None:
        super().__init__("nvptx", TRIPLE, DATA_LAYOUT, threads, options.enable_fp_fusion)
        self.arch = arch
        self.options = options
        self.assertions: list[Assertion] = []
        self.libdevice_functions: set[str] = set()  # names of those called
        self.maps: list[TensorMap] = []
        self.producer_threads = producer_threads
        self._globals: dict[str, str] = {}

    @property
    def all_threads(self) -> int:
        """The threads of a program and of the producer partition besides it."""
        return self.threads + self.producer_threads

    @property
    def dependent_launch(self) -> bool:
        """True if programs start before the launch that precedes theirs is complete."""
        return self.options.launch_pdl and has_dependent_launches(self.arch.capability)

    @property
    def has_alwaysinline(self) -> bool:
        """True if the module defines functions that must be inlined."""
        return any(" alwaysinline " in text for text in self._declared.values())

    def tensor_map(self, description: TensorMap) -> str:
        """Return the kernel parameter that is this tensor map; maps follow all other parameters."""
        if description not in self.maps:
            self.maps.append(description)
        return f"%map{self.maps.index(description)}"

    def string(self, text: str) -> str:
        """Return a generic pointer to a string constant."""
        raw = text.encode() + b"\0"
        name = self._globals.get(text)
        if name is None:
            name = self._globals[text] = f"@text{len(self._globals)}"
            escaped = "".join(
                chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in raw
            )
            self.declare(
                name,
                f"{name} = private unnamed_addr addrspace(1) constant [{len(raw)} x i8] "
                f'c"{escaped}"',
            )
        return f"addrspacecast (ptr addrspace(1) {name} to ptr)"


@dataclass(frozen=True)
class SharedAddress:
    """The address of a buffer in shared memory: `base`, an i32 operand, plus `offset` bytes.

    `alignment` is a power of two that divides `base`.
    """

    base: str
    offset: int
    alignment: int = 1 << 30


@dataclass(frozen=True)
class Elected:
    """Instructions for one thread, in a line of the function. The first operand is an i1.

    branches: True if the other threads branch around them.
    """

    line: int
    instructions: tuple[str, ...]
    operands: tuple[tuple[str, str], ...]  # types and values
    branches: bool

    def followed_by(self, other: Elected) -> Elected:
        """Return both instructions, in the other's line; their first operand is the same."""

        def place(match: re.Match[str]) -> str:
            number = int(match[1])
            return f"${number and number + len(self.operands) - 1}"

        renamed = [_PLACE.sub(place, text) for text in other.instructions]
        operands = (*self.operands, *other.operands[1:])
        return Elected(other.line, (*self.instructions, *renamed), operands, self.branches)


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
        self.elected: Elected | None = None  # the latest instructions for one thread
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
