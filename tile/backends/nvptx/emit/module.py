"""The parts of an LLVM module around its functions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tile.backends.base import Assertion, Options
from tile.backends.nvptx.launch_metadata import TensorMap
from tile.backends.nvptx.target import Architecture
from tile.ir.core import Function
from tile.location import Loc

# Pointers to shared, constant and local memory have 32 bits; see `compiler.py`.
DATA_LAYOUT = (
    "e-p:64:64:64-p3:32:32:32-p4:32:32:32-p5:32:32:32-p6:32:32:32-p7:32:32:32-i1:8:8-i8:8:8-"
    "i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-f128:128:128-v16:16:16-"
    "v32:32:32-n16:32:64"
)
TRIPLE = "nvptx64-nvidia-cuda"


@dataclass
class ModuleText:
    """A module under construction."""

    arch: Architecture
    options: Options
    threads: int
    functions: list[str] = field(default_factory=list)
    assertions: list[Assertion] = field(default_factory=list)
    libdevice_functions: set[str] = field(default_factory=set)  # names of those called
    maps: list[TensorMap] = field(default_factory=list)
    _symbols: dict[str, str] = field(default_factory=dict)
    _declared: dict[str, str] = field(default_factory=dict)
    _globals: dict[str, str] = field(default_factory=dict)
    _metadata: list[str] = field(default_factory=list)
    _nodes: dict[object, int] = field(default_factory=dict)

    @property
    def fp_contract(self) -> str:
        """The fast-math flag that allows contraction, followed by a space; empty without fusion."""
        return "contract " if self.options.enable_fp_fusion else ""

    def declare(self, name: str, text: str) -> str:
        """Add a declaration or definition of a function or global, unless its name has one."""
        if name not in self._declared:
            self._declared[name] = text
        return name

    @property
    def has_alwaysinline(self) -> bool:
        """True if the module defines functions that must be inlined."""
        return any(" alwaysinline " in text for text in self._declared.values())

    def tensor_map(self, description: TensorMap) -> str:
        """Return the kernel parameter that is this tensor map; maps follow all other parameters."""
        if description not in self.maps:
            self.maps.append(description)
        return f"%map{self.maps.index(description)}"

    def name_function(self, function: Function) -> None:
        """Choose a symbol for a function that is valid in PTX."""
        plain = re.sub(r"[^A-Za-z0-9_$]", "_", function.name)
        used = set(self._symbols.values())
        name, number = f"@{plain}", 1
        while name in used:
            name, number = f"@{plain}_{number}", number + 1
        self._symbols[function.name] = name

    def symbol(self, name: str) -> str:
        """Return the symbol of a function of the module."""
        return self._symbols[name]

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
        lines = [f'target datalayout = "{DATA_LAYOUT}"', f'target triple = "{TRIPLE}"', ""]
        lines += self._declared.values()
        lines += ["", *self.functions, ""]
        lines += [f"!{number} = {text}" for number, text in enumerate(self._metadata)]
        if "unit" in self._nodes:
            version = len(self._metadata)
            lines.append(f'!{version} = !{{i32 2, !"Debug Info Version", i32 3}}')
            lines.append(f"!llvm.module.flags = !{{!{version}}}")
            lines.append(f"!llvm.dbg.cu = !{{!{self._nodes['unit']}}}")
        return "\n".join(lines) + "\n"
