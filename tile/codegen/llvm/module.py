"""The parts of an LLVM module around its functions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tile.ir.core import Function
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
