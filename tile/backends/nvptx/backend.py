"""NVIDIA's GPUs as a backend: the lowering for one thread, LLVM, PTX, and the driver."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tile.backends.base import Artifact, Options, Target
from tile.backends.nvptx import driver
from tile.backends.nvptx.emit.functions import Emitted, emit_module
from tile.backends.nvptx.launch import LoadedKernel
from tile.backends.nvptx.ptx import to_ptx
from tile.backends.nvptx.target import Architecture, architecture
from tile.backends.optimised import optimise
from tile.ir.core import Module
from tile.ir.ops import linalg
from tile.ir.printer import print_module
from tile.ir.types import BF16
from tile.simt.pipeline import lower
from tile.simt.target import SimtTarget


@dataclass(frozen=True, eq=False)
class NvptxArtifact(Artifact):
    """A kernel in PTX, with what the launcher must know of it."""

    emitted: Emitted | None = None


class NvptxBackend:
    """Compiles without a device, for any architecture that the target names."""

    name = "nvptx"
    devices = frozenset({"cuda"})

    def compile(self, module: Module, target: Target, options: Options) -> NvptxArtifact:
        """Lower a TILE module, which changes, to PTX.

        Raises `OutOfResourcesError` for more shared memory than the architecture has.
        """
        arch = architecture(target.arch or driver.current_architecture())
        tiles = optimise(module)
        stages = tiles.stages
        lower(module, _machine(arch, module), **options.lowering)
        stages["thread"] = print_module(module)
        emitted = emit_module(module, arch, options)
        stages["llvm"] = emitted.text
        stages["ptx"] = to_ptx(emitted, arch)
        return NvptxArtifact(
            kernel=module.kernel.name,
            target=Target(self.name, arch.name),
            options=options,
            stages=stages,
            module=module,
            written=tiles.written,
            emitted=emitted,
        )

    def load(self, artifact: Artifact) -> LoadedKernel:
        """The kernel for whatever devices it is launched on."""
        assert isinstance(artifact, NvptxArtifact) and artifact.emitted is not None
        text = artifact.stages["ptx"]
        assert isinstance(text, str)
        names = [value.name for value in artifact.module.kernel.args]
        written = [name in artifact.written for name in names]
        together = artifact.options.launch_cooperative_grid
        return LoadedKernel(
            artifact.kernel, text, artifact.emitted, names, written, cooperative=together
        )


def _machine(arch: Architecture, module: Module) -> SimtTarget:
    """The machine to lower for.

    Before sm_80 matrix instructions take f16, but no bf16; a machine's description has their sizes
    alone, so that a kernel with products of bf16 is lowered for a machine without any.
    """
    lacking = arch.capability < 80 and any(
        op.defn is linalg.dot and op.inputs[0].type.element is BF16 for op in module.walk()
    )
    return replace(arch.simt, matrix_shapes=()) if lacking else arch.simt
