"""Compilation for NVIDIA GPUs: lowering to THREAD IR, LLVM IR, PTX."""

from __future__ import annotations

from dataclasses import replace

from tile.backends.base import Artifact, Options, Target
from tile.backends.nvptx import libdevice
from tile.backends.nvptx.emit.functions import emit_module
from tile.backends.nvptx.ptx import to_ptx
from tile.backends.nvptx.target import architecture
from tile.backends.optimised import optimise
from tile.ir.compilation import compilation
from tile.ir.core import Module
from tile.ir.parser import parse_module
from tile.ir.printer import print_module
from tile.simt.pipeline import lower


def compile_module(
    module: Module, target: Target, options: Options, *, use_tma: bool = True
) -> Artifact:
    """Lower a TILE module, in place, to PTX; see `NvptxBackend.compile`.

    Without `use_tma` the kernel takes no tensor maps.
    """
    arch = architecture(target.arch)
    tiles = optimise(module)
    stages = tiles.stages
    simt = arch.simt if use_tma else replace(arch.simt, bulk_copies=False)
    lower(module, simt, **options.lowering)
    stages["thread"] = print_module(module)
    emitted = emit_module(module, arch, options)
    stages["llvm"] = emitted.text
    stages["ptx"] = to_ptx(emitted, arch)
    return Artifact(
        kernel=module.kernel.name,
        target=target,
        options=options,
        stages=stages,
        parameters=tiles.parameters,
        written=tiles.written,
        facts=emitted.metadata.data(),
        inputs=(libdevice.path(),) if emitted.libdevice_functions else (),
    )


def without_maps(artifact: Artifact) -> Artifact:
    """Compile the same kernel without tensor maps."""
    text = artifact.stages["tile"]
    assert isinstance(text, str)
    target, options = artifact.target, artifact.options
    with compilation(
        artifact.kernel, lambda: f"{target}, without tensor maps\n{options}\n\n{text}"
    ):
        return compile_module(parse_module(text), target, options, use_tma=False)
