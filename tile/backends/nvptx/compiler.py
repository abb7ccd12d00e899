"""Compiling for NVIDIA's GPUs: the lowering for one thread, LLVM, PTX."""

from __future__ import annotations

from dataclasses import replace

from tile.backends.base import Artifact, Options, Target
from tile.backends.nvptx import libdevice
from tile.backends.nvptx.emit.functions import emit_module
from tile.backends.nvptx.ptx import to_ptx
from tile.backends.nvptx.target import Architecture, architecture
from tile.backends.optimised import optimise
from tile.errors import UnsupportedError
from tile.ir.core import Module
from tile.ir.ops import linalg
from tile.ir.printer import print_module
from tile.ir.types import BF16
from tile.simt.pipeline import lower
from tile.simt.target import SimtTarget


def compile_module(module: Module, target: Target, options: Options) -> Artifact:
    """Lower a TILE module, which changes, to PTX. See `NvptxBackend.compile`."""
    arch = architecture(target.arch)
    if options.num_ctas > 1 and arch.capability < 90:
        raise UnsupportedError(
            f"num_ctas={options.num_ctas} asks for clusters, which {arch.name} lacks; there are "
            "some from sm_90 on"
        )
    tiles = optimise(module)
    stages = tiles.stages
    lower(module, _machine(arch, module), **options.lowering)
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


def _machine(arch: Architecture, module: Module) -> SimtTarget:
    """The machine to lower for.

    Before sm_80 matrix instructions take f16, but no bf16; a machine's description has their sizes
    alone, so that a kernel with products of bf16 is lowered for a machine without any.
    """
    lacking = arch.capability < 80 and any(
        op.defn is linalg.dot and op.inputs[0].type.element is BF16 for op in module.walk()
    )
    return replace(arch.simt, matrix_shapes=()) if lacking else arch.simt
