"""The text of an LLVM module to PTX, by llvmlite.

The LLVM in llvmlite ends the process if its code generator cannot select an instruction: `emit`
writes only what is known to work, and the tests assemble all of it for several architectures.
"""

from __future__ import annotations

import functools
import re
import threading

from llvmlite import binding as llvm

from tile.backends.nvptx import libdevice
from tile.backends.nvptx.emit.functions import EmittedModule
from tile.backends.nvptx.emit.module import TRIPLE
from tile.backends.nvptx.target import Architecture
from tile.errors import BackendError

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
            module.link_in(libdevice.functions(emitted.libdevice_functions))
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
