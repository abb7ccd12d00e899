"""Compile a module for NVIDIA GPUs: lower it to THREAD IR, emit LLVM IR, and translate that to PTX.

llvmlite translates the text of the LLVM module. Its LLVM ends the process if the code generator
cannot select an instruction: `emit` writes only what is known to work, and the tests assemble all
of it for several architectures.
"""

from __future__ import annotations

import functools
import re
from dataclasses import replace

from llvmlite import binding as llvm

from tile.analysis.alias import disjoint_parameters
from tile.backends.base import Artifact, Options, Target
from tile.backends.nvptx.architectures import TRIPLE, has_dependent_launches
from tile.backends.nvptx.emit import lowering_target
from tile.backends.nvptx.emit.functions import EmittedModule, emit_module
from tile.backends.nvptx.libdevice import LLVM_LOCK, functions, libdevice, prepare_llvm
from tile.backends.nvptx.target import Architecture, architecture
from tile.errors import BackendError
from tile.ir.compilation_context import compilation
from tile.ir.module import Module
from tile.ir.parser import parse_module
from tile.ir.printer import print_module
from tile.simt.lower.infer_invariant_loads import invariant_parameters
from tile.simt.lower.warn_slow_code import warn_slow_code
from tile.simt.pass_pipeline import lower
from tile.transforms.pass_pipeline import optimize


@functools.cache
def _machine(arch: Architecture) -> llvm.TargetMachine:
    target = llvm.Target.from_triple(TRIPLE)
    return target.create_target_machine(cpu=arch.name, features=arch.features, opt=2)


def to_ptx(emitted: EmittedModule, arch: Architecture) -> str:
    """Parse the module, link the libdevice functions that it calls, and generate code."""
    with LLVM_LOCK:
        prepare_llvm()
        module = _parse(emitted.text)
        if emitted.libdevice_functions:
            module.link_in(functions(emitted.libdevice_functions))
        if emitted.libdevice_functions or emitted.has_alwaysinline:
            _inline(module, arch)
        text: str = _machine(arch).emit_assembly(module)
        module.close()
        return _without_neg(text)


_NEGATION = re.compile(r"\tneg\.s32 \t(%r\d+), (%r\d+);")


def _without_neg(text: str) -> str:
    """Replace each negation of an i32 by two instructions, as a workaround for a bug of ptxas.

    sm_90 and sm_100 have minima and maxima of three integers. ptxas and drivers from CUDA 12.8 to
    13.3 fold a negation of the second operand into these instructions, and lose it; code for an
    older architecture may run there, too. The replacement is made in the PTX, because LLVM would
    combine the two instructions again.
    """
    return _NEGATION.sub(r"\tnot.b32 \t\1, \2;\n\tadd.s32 \t\1, \1, 1;", text)


def _parse(text: str) -> llvm.ModuleRef:
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise BackendError(
            "LLVM refuses the code that the nvptx backend made; this is a fault of the backend",
            notes=str(error).splitlines()[:4],
        ) from error
    return module


def _inline(module: llvm.ModuleRef, arch: Architecture) -> None:
    """Inline the functions of libdevice and our own `alwaysinline` ones, and remove them."""
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    builder = llvm.create_pass_builder(_machine(arch), options)
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, builder)


def compile_module(
    module: Module, target: Target, options: Options, *, use_tma: bool = True
) -> Artifact:
    """Lower a TILE module, in place, to PTX; see `NvptxBackend.compile`.

    Without `use_tma` the kernel takes no tensor maps.
    """
    arch = architecture(target.arch)
    tiles = optimize(module, ptx=True)
    stages = tiles.stages
    simt = lowering_target(arch)
    if not use_tma:
        simt = replace(simt, has_tma=False)
    if options.launch_pdl and has_dependent_launches(arch.capability):
        # Such loads could move above the wait for the launch before.
        simt = replace(simt, invariant_loads=False)
    lower(module, simt, **options.lowering)
    warn_slow_code(module, target=simt)
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
        noalias=invariant_parameters(module.kernel),
        disjoint=disjoint_parameters(module.kernel),
        launch_metadata=emitted.metadata.data(),
        inputs=(libdevice(),) if emitted.libdevice_functions else (),
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
