"""Compiling for NVIDIA's GPUs: the lowering for one thread, LLVM, PTX."""

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
    module: Module, target: Target, options: Options, *, bulk_copies: bool = True
) -> Artifact:
    """Lower a TILE module, which changes, to PTX. See `NvptxBackend.compile`.

    Without `bulk_copies` it takes no tensor maps.
    """
    arch = architecture(target.arch)
    tiles = optimise(module)
    stages = tiles.stages
    simt = arch.simt if bulk_copies else replace(arch.simt, bulk_copies=False)
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
        facts=emitted.facts.data(),
        inputs=(libdevice.path(),) if emitted.libraries else (),
    )


def without_maps(artifact: Artifact) -> Artifact:
    """The same kernel compiled so that it takes no tensor maps."""
    text = artifact.stages["tile"]
    assert isinstance(text, str)
    target, options = artifact.target, artifact.options
    with compilation(
        artifact.kernel, lambda: f"{target}, without tensor maps\n{options}\n\n{text}"
    ):
        return compile_module(parse_module(text), target, options, bulk_copies=False)
