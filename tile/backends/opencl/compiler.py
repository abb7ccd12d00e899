"""Compile a module for an OpenCL device: lower it to THREAD IR and emit OpenCL C."""

from __future__ import annotations

from tile.backends.base import Artifact, Options, Target
from tile.backends.opencl.capabilities import Capabilities
from tile.backends.opencl.emit.functions import emit_module
from tile.backends.optimised import optimise
from tile.ir.core import Module
from tile.ir.printer import print_module
from tile.simt.pipeline import lower


def compile_module(module: Module, target: Target, options: Options, can: Capabilities) -> Artifact:
    """Lower a TILE module to OpenCL C, modifying it. See `OpenclBackend.compile`."""
    tiles = optimise(module)
    stages = tiles.stages
    lower(module, can.simt, **options.lowering)
    stages["thread"] = print_module(module)
    text, launch_metadata = emit_module(module, can, options)
    stages["opencl"] = text
    return Artifact(
        kernel=module.kernel.name,
        target=target,
        options=options,
        stages=stages,
        parameters=tiles.parameters,
        written=tiles.written,
        facts=launch_metadata.data(),
    )
