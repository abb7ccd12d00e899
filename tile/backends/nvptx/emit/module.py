"""The parts of an LLVM module for NVIDIA GPUs around its functions."""

from __future__ import annotations

from tile.backends.base import Assertion, Options
from tile.backends.nvptx.architectures import DATA_LAYOUT, TRIPLE, has_dependent_launches
from tile.backends.nvptx.launch_metadata import TensorMap
from tile.backends.nvptx.target import Architecture
from tile.codegen.llvm import module as llvm


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
