"""The stages of compiled kernels as files: written, printed, or replaced by those of a user.

    TILE_DUMP_STAGES=stages python program.py    # stages/GZ2T.../add.ttir, .ttgir, .llir, .ptx
    cp -r stages mine                            # edit the PTX, and remove the other files
    TILE_OVERRIDE_STAGES=mine python program.py

The folder of a kernel is named by its source, types, constants, options and target, which
`kernel.txt` there lists, and not by the compiler: it stays the same if the compiler changes. File
names end as those of Triton do.
"""

from __future__ import annotations

import base64
import hashlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tile.backends.base import Artifact, Backend
from tile.cache.disk_cache import write_atomically
from tile.config import config
from tile.errors import ArgumentValueError, UnsupportedError
from tile.ir.compilation_context import compilation
from tile.ir.parser import parse_module
from tile.runtime.kernel_metadata import TRITON_STAGES

EXTENSIONS = {stage: name for name, stage in TRITON_STAGES.items()}
REPLACED = ("tile", "ptx")
_LONGEST = 150  # of a kernel's name in that of a file, as in Triton


@dataclass(frozen=True)
class StageFiles:
    """The files of a kernel that `description` identifies."""

    kernel: str
    description: str

    @property
    def folder(self) -> str:
        """The name of the folder."""
        digest = hashlib.sha256(self.description.encode()).digest()
        return base64.b32encode(digest).decode().rstrip("=")

    def file(self, root: str, stage: str) -> Path:
        """Return the path of a stage's file under a root."""
        extension = EXTENSIONS.get(stage, stage)
        return Path(root, self.folder, f"{self.kernel[:_LONGEST]}.{extension}")

    def write(self, artifact: Artifact, root: str) -> None:
        """Write a file for each stage."""
        try:
            Path(root, self.folder).mkdir(parents=True, exist_ok=True)
            description = f"{self.description}\n".encode()
            write_atomically(Path(root, self.folder, "kernel.txt"), description)
            for stage, text in artifact.stages.items():
                content = text if isinstance(text, bytes) else text.encode()
                write_atomically(self.file(root, stage), content)
        except OSError as error:
            raise ArgumentValueError(
                f"TILE_DUMP_STAGES={root}: cannot write the stages of `{self.kernel}` there: "
                f"{error.strerror}"
            ) from error

    def replacements(self, artifact: Artifact, root: str) -> Iterator[tuple[str, str, Path]]:
        """Yield the stages with a file of another text than the kernel's, the text and the file."""
        for stage, text in artifact.stages.items():
            path = self.file(root, stage)
            if path.is_file() and (other := path.read_text(encoding="utf-8")) != text:
                yield stage, other, path

    def replaced(self, artifact: Artifact, backend: Backend, root: str) -> Artifact:
        """Return the kernel with the stages that lie under a root.

        Raises `UnsupportedError` for a stage from which a kernel cannot be made.
        """
        edited = list(self.replacements(artifact, root))
        if edited and edited[0][0] == "tile":
            text, path = edited[0][1:]
            artifact = self._compiled(artifact, backend, text, path)
            edited = [one for one in self.replacements(artifact, root) if one[0] != "tile"]
        for stage, text, path in edited:
            if stage not in REPLACED:
                raise UnsupportedError(
                    f"{path} is not the {EXTENSIONS.get(stage, stage)} of `{self.kernel}`, and "
                    "only .ttir and .ptx can replace a stage",
                    notes=["remove the file, or restore it from a dump"],
                )
            if stage == "ptx":
                self._tell(path)
                artifact = replace(artifact, stages={**artifact.stages, stage: text})
        return artifact

    def _compiled(self, artifact: Artifact, backend: Backend, text: str, path: Path) -> Artifact:
        self._tell(path)
        target, options = artifact.target, artifact.options
        with compilation(self.kernel, lambda: f"{path}\n{target}\n{options}\n\n{text}"):
            made = backend.compile(parse_module(text), target, options)
        return replace(made, stops=artifact.stops)

    def _tell(self, path: Path) -> None:
        sys.stdout.write(f"\nOverriding kernel with file {path}\n")


def observe(artifact: Artifact, backend: Backend, describe: Callable[[], str]) -> Artifact:
    """Replace, write and print the stages of a compiled kernel, as configured."""
    files = StageFiles(artifact.kernel, describe())
    if config.override_stages:
        artifact = files.replaced(artifact, backend, config.override_stages)
    if config.dump_stages:
        files.write(artifact, config.dump_stages)
    if config.print_llvm and "llvm" in artifact.stages:
        sys.stderr.write(f"; LLVM IR of {artifact.kernel}\n{_text(artifact, 'llvm')}\n")
    if config.print_ptx and "ptx" in artifact.stages:
        sys.stdout.write(f"// -----// NVPTX Dump //----- //\n{_text(artifact, 'ptx')}\n")
    return artifact


def _text(artifact: Artifact, stage: str) -> str:
    text = artifact.stages[stage]
    assert isinstance(text, str)
    return text
