"""Compile a module for NVIDIA GPUs: lower it to THREAD IR, emit LLVM IR, and translate that to PTX.

llvmlite translates the text of the LLVM module. Its LLVM ends the process if the code generator
cannot select an instruction: `emit` writes only what is known to work, and the tests assemble all
of it for several architectures.

Mathematical functions come from libdevice, NVIDIA's library in LLVM bitcode. The library is large.
Only the functions that a kernel calls are linked to it. They are extracted from the library once a
process, those that many kernels call from a part of it that a process makes once.
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from llvmlite import binding as llvm

from tile.analysis.alias import disjoint_parameters
from tile.backends.base import Artifact, Options, Target
from tile.backends.nvptx.emit import lowering_target
from tile.backends.nvptx.emit.functions import EmittedModule, emit_module
from tile.backends.nvptx.emit.module import DATA_LAYOUT, TRIPLE
from tile.backends.nvptx.target import Architecture, architecture
from tile.backends.nvptx.toolkit import find_libdevice
from tile.errors import BackendError
from tile.ir.compilation_context import compilation
from tile.ir.module import Module
from tile.ir.parser import parse_module
from tile.ir.printer import print_module
from tile.simt.lower.infer_invariant_loads import invariant_parameters
from tile.simt.lower.warn_slow_code import warn_slow_code
from tile.simt.pass_pipeline import lower
from tile.transforms.pass_pipeline import optimize


def libdevice() -> Path:
    """Return the path of libdevice. Raises `BackendError` if there is none."""
    path = find_libdevice()
    if path is None:
        raise BackendError(
            "libdevice.10.bc, which defines exp, log, sin and others, was not found; "
            "pip install nvidia-nvvm brings it"
        )
    return path


def functions(names: Iterable[str]) -> llvm.ModuleRef:
    """Return a new module with these functions and what they call, to be linked to another."""
    return llvm.parse_bitcode(_extract(frozenset(names), libdevice()))


# Functions of f32 that many kernels call, a tenth of the library.
_NAMES = """
fabs ceil cos erf exp exp2 expm1 floor fma fmax fmin log log10 log1p log2 nearbyint pow rint round
rsqrt sin sqrt tanh trunc
"""
COMMON = frozenset(f"__nv_{name}f" for name in _NAMES.split())


@functools.cache
def _extract(names: frozenset[str], path: Path) -> bytes:
    library = _common(path) if names <= COMMON else path.read_bytes()
    module = llvm.parse_assembly(_without_ftz(str(_only(names, library))))
    passes = llvm.create_new_module_pass_manager()
    passes.add_sccp_pass()
    passes.add_simplify_cfg_pass()
    _run(passes, module)
    for function in module.functions:
        if function.name in names:
            function.linkage = llvm.Linkage.linkonce_odr
    bitcode: bytes = module.as_bitcode()
    return bitcode


@functools.cache
def _common(path: Path) -> bytes:
    bitcode: bytes = _only(COMMON, path.read_bytes()).as_bitcode()
    return bitcode


def _only(names: frozenset[str], library: bytes) -> llvm.ModuleRef:
    """Return a module of some functions of a library."""
    module = llvm.parse_bitcode(library)  # again, which is faster than copying a parsed module
    module.triple = TRIPLE
    module.data_layout = DATA_LAYOUT
    for function in module.functions:
        if not function.is_declaration and function.name not in names:
            function.linkage = llvm.Linkage.internal
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    _run(passes, module)
    return module


def _run(passes: llvm.ModulePassManager, module: llvm.ModuleRef) -> None:
    """Run passes on a module for any architecture.

    A pass builder is for one run: in llvmlite it keeps callbacks to objects of the run, which a
    second run would call after their end.
    """
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine(cpu="sm_70")
    passes.run(module, llvm.create_pass_builder(machine, options))


_FTZ = re.compile(r'@(\S+) = .*c"__CUDA_FTZ\\00"')
_QUERY = re.compile(r"(%\S+) = call i32 @__nvvm_reflect\(ptr(?: \w+)* @([^\s)]+)\)(?: #\d+)?")


def _without_ftz(text: str) -> str:
    """Answer libdevice's queries if subnormal numbers are flushed to zero: they never are.

    libdevice is distributed without optimizations. With the answers LLVM can select coefficients
    where it would branch: an `erf` takes a fifth fewer instructions, and compiles faster.
    """
    names = set(_FTZ.findall(text))

    def answer(query: re.Match[str]) -> str:
        return f"{query[1]} = add i32 0, 0" if query[2] in names else query[0]

    return _QUERY.sub(answer, text)


_LOCK = threading.Lock()


@functools.cache
def _prepare() -> None:
    """Initialize LLVM, once a process.

    Pointers to shared memory have 32 bits, which halves the registers of their arithmetic. The
    option is global to the process, but only NVPTX code generators read it. So is the second
    option: straight-line strength reduction takes several times as long as all other passes
    together, and changes nothing in what ptxas makes of our kernels.
    """
    llvm.set_option("", "--nvptx-short-ptr")
    if llvm.llvm_version_info >= (22,):  # LLVM ends the process at an unknown option
        llvm.set_option("", "--opt-disable=slsr")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


@functools.cache
def _machine(arch: Architecture) -> llvm.TargetMachine:
    target = llvm.Target.from_triple(TRIPLE)
    return target.create_target_machine(cpu=arch.name, features=arch.features, opt=2)


def to_ptx(emitted: EmittedModule, arch: Architecture) -> str:
    """Parse the module, link the libdevice functions that it calls, and generate code."""
    with _LOCK:
        _prepare()
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
