"""A function under construction: its lines, and the LLVM values of its IR values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tile.codegen.emitter import FunctionEmitter
from tile.codegen.llvm.module import ModuleText
from tile.codegen.llvm.types import llvm_type
from tile.ir.core import Function, Operation, Value
from tile.ir.op_definition import OpDef
from tile.ir.types import count_of

Registers = list[str]
Rule = Callable[[Any, Operation], None]  # of a target's `FunctionBuilder` and an operation
THREAD = "%thread"  # the number of the thread, which every function has from its start


class FunctionBuilder(FunctionEmitter[Registers]):
    """Writes the lines of one function.

    An IR value is a list of LLVM operands, one for each register: names such as `%v7`, or
    constants.
    """

    def __init__(self, module: ModuleText, function: Function, rules: Mapping[OpDef, Rule]) -> None:
        super().__init__(module.backend, function, rules)
        self.module = module
        self.lines: list[str] = []
        # Names of sums and XORs of a name with a constant: (name, constant).
        self.constant_offsets: dict[str, tuple[str, int]] = {}
        self.constant_xors: dict[str, tuple[str, int]] = {}
        # Available expressions by their text, and the order in which they came, to forget them.
        self._available: dict[str, str] = {}
        self._available_order: list[str] = []
        self.entry_lines: list[str] = []  # lines at the start of the function
        self.prologue: list[str] = []  # lines after those and the thread's number
        self.block = "entry"  # label of the block that lines are appended to
        self.scope: int | None = None
        self._file = function.loc.file if function.loc else ""
        self.debug_suffix = ""  # what ends each line: its source location
        self._count = 0

    # -- lines

    def name(self) -> str:
        """Return an unused name."""
        self._count += 1
        return f"%v{self._count}"

    def new(self, text: str) -> str:
        """Append an instruction whose result depends on its operands alone, and return its name.

        If the same instruction dominates this point, return its name instead.
        """
        name = self._available.get(text)
        if name is None:
            name = self._available[text] = self.new_unique(text)
            self._available_order.append(text)
        return name

    def in_prologue(self, text: str) -> str:
        """Append an instruction to the function's prologue, and return its name.

        Its operands are the thread's number and the results of others of the prologue. It is for
        what LLVM does not move out of loops, such as calls that all lanes have to make.
        """
        name = self._available.get(text)
        if name is None:
            self._count += 1
            name = self._available[text] = f"%v{self._count}"
            self.prologue.append(f"  {name} = {text}{self.debug_suffix}")
        return name

    def cached(self, key: str, make: Callable[[], str]) -> str:
        """Return what `make` returned for this key where that dominates, else call it."""
        name = self._available.get(key)
        if name is None:
            name = self._available[key] = make()
            self._available_order.append(key)
        return name

    def new_unique(self, text: str) -> str:
        """Append an instruction whose result depends on more than its operands; return its name."""
        self._count += 1
        name = f"%v{self._count}"
        self.lines.append(f"  {name} = {text}{self.debug_suffix}")
        return name

    def do(self, text: str) -> None:
        """Append an instruction without a result."""
        self.lines.append(f"  {text}{self.debug_suffix}")

    def label(self, prefix: str) -> str:
        """Return an unused label that begins with a prefix."""
        self._count += 1
        return f"{prefix}{self._count}"

    def start_block(self, label: str) -> None:
        """Begin an LLVM block."""
        self.lines.append(f"{label}:")
        self.block = label

    def jump(self, label: str) -> None:
        """End a block by an unconditional branch."""
        self.do(f"br label %{label}")

    def branch(self, condition: str, then: str, orelse: str, suffix: str = "") -> None:
        """End a block by a conditional branch."""
        self.do(f"br i1 {condition}, label %{then}, label %{orelse}{suffix}")

    def phi(self, ty: str, incoming: Iterable[tuple[str, str]]) -> str:
        """Append a phi of (value, label) pairs."""
        choices = ", ".join(f"[ {value}, %{label} ]" for value, label in incoming)
        return self.new_unique(f"phi {ty} {choices}")

    def call(self, name: str, result: str, *operands: tuple[str, str], pure: bool = True) -> str:
        """Call a function outside the module, and declare it at its first call.

        `pure`: the result depends on the operands alone.
        """
        types = ", ".join([ty for ty, _ in operands])
        self.module.declare(name, f"declare {result} {name}({types})")
        arguments = ", ".join([f"{ty} {value}" for ty, value in operands])
        text = f"call {result} {name}({arguments})"
        if result == "void":
            self.do(text)
            return ""
        return self.new(text) if pure else self.new_unique(text)

    # -- scopes and locations

    @contextmanager
    def dominance_scope(self) -> Iterator[None]:
        """Forget, at the end, the expressions that became available inside.

        For lines that not every path passes through: they do not dominate what follows.
        """
        before = len(self._available_order)
        yield
        for text in self._available_order[before:]:
            del self._available[text]
        del self._available_order[before:]

    def locate(self, op: Operation) -> None:
        """Attribute the lines from here on to an operation."""
        loc = op.loc or self.function.loc
        if self.scope is None or loc is None:
            return
        self.debug_suffix = f", !dbg !{self.module.debug_location(loc, self.scope, self._file)}"


def types_of(values: Sequence[Value]) -> list[str]:
    """Return the LLVM type of every register of some values, in order."""
    types: list[str] = []
    for value in values:
        element = llvm_type(value.type.element)
        types += [element] * count_of(value.type)
    return types
