"""Modules and functions under construction: their lines, and the LLVM values of IR values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tile.codegen.emitter import FunctionEmitter
from tile.codegen.llvm.types import llvm_type
from tile.ir.core import Function, Operation, Value
from tile.ir.op_definition import OpDef
from tile.ir.types import count_of
from tile.location import Loc


@dataclass
class ModuleText:
    """A module under construction, for a target of LLVM."""

    backend: str  # the backend's name, for messages
    triple: str
    data_layout: str
    threads: int  # of a program
    enable_fp_fusion: bool = True
    functions: list[str] = field(default_factory=list)
    _symbols: dict[str, str] = field(default_factory=dict)
    _declared: dict[str, str] = field(default_factory=dict)
    _constants: dict[str, str] = field(default_factory=dict)
    _types: dict[str, str] = field(default_factory=dict)
    _metadata: list[str] = field(default_factory=list)
    _nodes: dict[object, int] = field(default_factory=dict)

    @property
    def fp_contract(self) -> str:
        """The fast-math flag that allows contraction, followed by a space; empty without fusion."""
        return "contract " if self.enable_fp_fusion else ""

    def declare(self, name: str, text: str) -> str:
        """Add a declaration or definition of a function or global, unless its name has one."""
        if name not in self._declared:
            self._declared[name] = text
        return name

    def constant(self, text: str) -> str:
        """Return the name of a global constant; constants of one definition share it."""
        name = self._constants.setdefault(text, f"@table{len(self._constants)}")
        return self.declare(name, f"{name} = {text}")

    def named_type(self, text: str) -> str:
        """Return the name of a type, which is shorter where many lines have it."""
        name = self._types.setdefault(text, f"%type{len(self._types)}")
        return self.declare(name, f"{name} = type {text}")

    def name_function(self, function: Function) -> None:
        """Choose a symbol for a function that assemblers accept."""
        plain = re.sub(r"[^A-Za-z0-9_$]", "_", function.name)
        used = set(self._symbols.values())
        name, number = f"@{plain}", 1
        while name in used:
            name, number = f"@{plain}_{number}", number + 1
        self._symbols[function.name] = name

    def symbol(self, name: str) -> str:
        """Return the symbol of a function of the module."""
        return self._symbols[name]

    # -- debug locations

    def scope(self, function: Function, symbol: str) -> int | None:
        """Return the debug-info node of a function; None if its location is unknown."""
        loc = function.loc
        if loc is None:
            return None
        file = self._file(loc.file)
        unit = self._node(
            "unit",
            f"distinct !DICompileUnit(language: DW_LANG_Python, file: !{file}, "
            'producer: "tile", isOptimized: true, runtimeVersion: 0, '
            "emissionKind: DebugDirectivesOnly)",
        )
        kind = self._node("type", "!DISubroutineType(types: !{})")
        return self._node(
            ("function", symbol),
            f'distinct !DISubprogram(name: "{symbol}", linkageName: "{symbol}", scope: !{file}, '
            f"file: !{file}, line: {loc.line}, type: !{kind}, scopeLine: {loc.line}, "
            f"spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: !{unit})",
        )

    def debug_location(self, loc: Loc, scope: int, function_file: str) -> int:
        """Return the node of a location in a function that is defined in `function_file`."""
        if loc.file != function_file:
            scope = self._node(
                ("block", scope, loc.file),
                f"!DILexicalBlockFile(scope: !{scope}, file: !{self._file(loc.file)}, "
                "discriminator: 0)",
            )
        return self._node(
            (scope, loc.line, loc.column),
            f"!DILocation(line: {loc.line}, column: {loc.column + 1}, scope: !{scope})",
        )

    def no_unroll_node(self) -> int:
        """Return a new `llvm.loop` node that disables unrolling; every loop needs its own."""
        disable = self._node("no unroll", '!{!"llvm.loop.unroll.disable"}')
        return self.node(f"distinct !{{!{len(self._metadata)}, !{disable}}}")

    def empty_node(self) -> int:
        """Return the node without contents, which `invariant.load` names."""
        return self._node("empty", "!{}")

    def node(self, text: str) -> int:
        """Add a metadata node, and return its number."""
        self._metadata.append(text)
        return len(self._metadata) - 1

    def _node(self, key: object, text: str) -> int:
        number = self._nodes.get(key)
        if number is None:
            number = self._nodes[key] = self.node(text)
        return number

    def _file(self, path: str) -> int:
        folder, _, name = path.rpartition("/")
        escaped = [part.replace("\\", "\\5C").replace('"', "\\22") for part in (name, folder)]
        return self._node(
            ("file", path), f'!DIFile(filename: "{escaped[0]}", directory: "{escaped[1]}")'
        )

    # -- the whole

    def text(self) -> str:
        """Return the whole module."""
        lines = [
            f'target datalayout = "{self.data_layout}"',
            f'target triple = "{self.triple}"',
            "",
        ]
        lines += self._declared.values()
        lines += ["", *self.functions, ""]
        lines += [f"!{number} = {text}" for number, text in enumerate(self._metadata)]
        if "unit" in self._nodes:
            version = len(self._metadata)
            lines.append(f'!{version} = !{{i32 2, !"Debug Info Version", i32 3}}')
            lines.append(f"!llvm.module.flags = !{{!{version}}}")
            lines.append(f"!llvm.dbg.cu = !{{!{self._nodes['unit']}}}")
        return "\n".join(lines) + "\n"


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
        # Names of other such sums, of signed integers and addresses; they do not overflow.
        self.sums: dict[str, tuple[str, int]] = {}
        # The constants in the first sums of two names, of several that differ by constants.
        self.constant_terms: dict[tuple[str, str, str], int] = {}
        # Of numbers that were extended: the block and the instruction.
        self.extensions: dict[str, tuple[str, str]] = {}
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
