"""The parts of an LLVM module around its functions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tile.backends.assertions import Assertion
from tile.backends.base import Options
from tile.backends.nvptx.facts import TensorMap
from tile.backends.nvptx.target import Architecture
from tile.errors import Loc
from tile.ir.core import Function

# 32-bit pointers to shared memory, constants and local memory; see `ptx.py`.
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
    libraries: set[str] = field(default_factory=set)  # functions of libdevice
    maps: list[TensorMap] = field(default_factory=list)
    _symbols: dict[str, str] = field(default_factory=dict)
    _declared: dict[str, str] = field(default_factory=dict)
    _globals: dict[str, str] = field(default_factory=dict)
    _metadata: list[str] = field(default_factory=list)
    _nodes: dict[object, int] = field(default_factory=dict)

    @property
    def fused(self) -> str:
        """The flag of float operations that may be fused with others, with a space behind it."""
        return "contract " if self.options.enable_fp_fusion else ""

    def declare(self, name: str, text: str) -> str:
        """Make a function or global known; `text` is its declaration or definition."""
        if name not in self._declared:
            self._declared[name] = text
        return name

    @property
    def inlined(self) -> bool:
        """Whether there are functions that are put in the place of their calls."""
        return any(" alwaysinline " in text for text in self._declared.values())

    def tensor_map(self, wanted: TensorMap) -> str:
        """The kernel's parameter that is a tensor map; they come behind the others."""
        if wanted not in self.maps:
            self.maps.append(wanted)
        return f"%map{self.maps.index(wanted)}"

    def name_function(self, function: Function) -> None:
        """Give a function a symbol that PTX can have."""
        plain = re.sub(r"[^A-Za-z0-9_$]", "_", function.name)
        taken = set(self._symbols.values())
        name, number = f"@{plain}", 1
        while name in taken:
            name, number = f"@{plain}_{number}", number + 1
        self._symbols[function.name] = name

    def symbol(self, name: str) -> str:
        """The symbol of a function of the module."""
        return self._symbols[name]

    def string(self, text: str) -> str:
        """A pointer to a text in constant memory, in the generic address space."""
        raw = text.encode() + b"\0"
        name = self._globals.get(text)
        if name is None:
            name = self._globals[text] = f"@text{len(self._globals)}"
            spelled = "".join(
                chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in raw
            )
            self.declare(
                name,
                f"{name} = private unnamed_addr addrspace(1) constant [{len(raw)} x i8] "
                f'c"{spelled}"',
            )
        return f"addrspacecast (ptr addrspace(1) {name} to ptr)"

    # -- places in the source

    def scope(self, function: Function, symbol: str) -> int | None:
        """The node of a function's place in the source; None where that is not known."""
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

    def place(self, loc: Loc, scope: int, home: str) -> int:
        """The node of a location in a function whose own file is `home`."""
        if loc.file != home:
            scope = self._node(
                ("block", scope, loc.file),
                f"!DILexicalBlockFile(scope: !{scope}, file: !{self._file(loc.file)}, "
                "discriminator: 0)",
            )
        return self._node(
            (scope, loc.line, loc.column),
            f"!DILocation(line: {loc.line}, column: {loc.column + 1}, scope: !{scope})",
        )

    def kept_loop(self) -> int:
        """A node for the end of a loop that is not to be unrolled: each loop has its own."""
        kept = self._node("kept", '!{!"llvm.loop.unroll.disable"}')
        return self.node(f"distinct !{{!{len(self._metadata)}, !{kept}}}")

    def node(self, text: str) -> int:
        """A node of its own."""
        self._metadata.append(text)
        return len(self._metadata) - 1

    def _node(self, key: object, text: str) -> int:
        found = self._nodes.get(key)
        if found is None:
            found = self._nodes[key] = self.node(text)
        return found

    def _file(self, path: str) -> int:
        folder, _, name = path.rpartition("/")
        spelled = [part.replace("\\", "\\5C").replace('"', "\\22") for part in (name, folder)]
        return self._node(
            ("file", path), f'!DIFile(filename: "{spelled[0]}", directory: "{spelled[1]}")'
        )

    # -- the whole

    def text(self) -> str:
        """The module."""
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
