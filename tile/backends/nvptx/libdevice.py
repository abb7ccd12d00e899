"""Functions of libdevice, NVIDIA's library of mathematical functions in LLVM bitcode.

The library is large. Only the functions that a kernel calls are linked to it. They are extracted
from the library once a process, those that many kernels call from a part of it that a process
makes once.
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Iterable
from pathlib import Path

from llvmlite import binding as llvm

from tile.backends.nvptx.architectures import DATA_LAYOUT, TRIPLE
from tile.backends.nvptx.toolkit import find_libdevice
from tile.errors import BackendError

LLVM_LOCK = threading.Lock()
"""Held while LLVM compiles or extracts functions."""


@functools.cache
def prepare_llvm() -> None:
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
    text = _with_rolled_loops(_with_answers(str(_only(names, library))))
    module = llvm.parse_assembly(text)
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


_FUNCTION = re.compile(r"^(?=define )", re.MULTILINE)
_FAST = "@__nv_fast_"


def _with_answers(text: str) -> str:
    """Answer libdevice's queries if subnormal numbers are flushed to zero: by fast functions alone.

    libdevice is distributed without optimizations. With the answers LLVM can select coefficients
    where it would branch: an `erf` takes a fifth fewer instructions, and compiles faster. The fast
    functions are approximate, and scale subnormal operands of each instruction otherwise.
    """
    names = set(_FTZ.findall(text))

    def answered(function: str) -> str:
        flushes = int(_FAST in function.partition("(")[0])

        def answer(query: re.Match[str]) -> str:
            return f"{query[1]} = add i32 0, {flushes}" if query[2] in names else query[0]

        return _QUERY.sub(answer, function)

    return "".join(map(answered, _FUNCTION.split(text)))


_UNROLLED = re.compile(r'!"llvm\.loop\.unroll\.count", i32 \d+')


def _with_rolled_loops(text: str) -> str:
    """Keep loops of libdevice from being unrolled, by LLVM and (`.pragma "nounroll"`) by ptxas.

    They reduce arguments of `sin` and others above 105615, which are rare. Unrolled, they take a
    third of the instructions of such a function, for each element of a thread.
    """
    return _UNROLLED.sub('!"llvm.loop.unroll.disable"', text)


def load() -> None:
    """Prepare what compilations share: LLVM, and the part of libdevice for most kernels."""
    with LLVM_LOCK:
        prepare_llvm()
        _common(libdevice())
