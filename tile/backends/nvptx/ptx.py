"""From the text of an LLVM module to PTX, by llvmlite.

The build of LLVM in llvmlite ends the process when its code generator meets what it cannot select:
`emit` writes only what is known to work, and the tests assemble all of it for several chips.
"""

from __future__ import annotations

import functools
import re
import threading

from llvmlite import binding as llvm

from tile.backends.nvptx import libdevice
from tile.backends.nvptx.emit.functions import Emitted
from tile.backends.nvptx.emit.module import TRIPLE
from tile.backends.nvptx.target import Architecture
from tile.errors import BackendError

_LOCK = threading.Lock()


@functools.cache
def _prepare() -> None:
    """Make LLVM ready, once a process.

    Pointers to shared memory have 32 bits: their arithmetic then takes half the registers. This is
    a switch of the process, which nothing but code generators for NVPTX looks at. So is the other:
    straight-line strength reduction takes several times as long as all other passes together, and
    changes nothing in what ptxas makes of our kernels.
    """
    llvm.set_option("", "--nvptx-short-ptr")
    if llvm.llvm_version_info >= (22,):  # an option that LLVM does not know would end the process
        llvm.set_option("", "--opt-disable=slsr")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


@functools.cache
def _machine(arch: Architecture) -> llvm.TargetMachine:
    target = llvm.Target.from_triple(TRIPLE)
    return target.create_target_machine(cpu=arch.name, features=arch.features, opt=2)


def to_ptx(emitted: Emitted, arch: Architecture) -> str:
    """Assemble, link with what is called of libdevice, and generate code."""
    with _LOCK:
        _prepare()
        module = _parse(emitted.text)
        if emitted.libraries:
            module.link_in(libdevice.functions(emitted.libraries))
        if emitted.libraries or emitted.inlined:
            _inline(module, arch)
        text: str = _machine(arch).emit_assembly(module)
        module.close()
        return _by_complement(text)


_NEGATION = re.compile(r"\tneg\.s32 \t(%r\d+), (%r\d+);")


def _by_complement(text: str) -> str:
    """PTX in which integers are negated by two instructions.

    sm_90 and sm_100 have minima and maxima of three integers. Assemblers and drivers from CUDA 12.8
    to 13.3 take a negation of the second of them for a part of that, and it is lost; what is for
    an older architecture may run there, too. LLVM would make one instruction of ours again.
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
    """Put the functions of libdevice, and our own, in the place of their calls, and drop them."""
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    builder = llvm.create_pass_builder(_machine(arch), options)
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, builder)
