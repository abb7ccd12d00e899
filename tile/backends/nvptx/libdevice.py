"""libdevice: NVIDIA's library of mathematical functions, in LLVM bitcode.

The library is large. The functions that kernels call are extracted from it once a process, in a few
milliseconds, and only these are linked to a kernel.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path

from cuda import pathfinder
from llvmlite import binding as llvm

from tile.backends.nvptx.emit.module import DATA_LAYOUT, TRIPLE
from tile.errors import BackendError


@functools.cache
def path() -> Path:
    """Return the path of the library: in a CUDA toolkit, or in the wheel `nvidia-nvvm`."""
    try:
        return Path(pathfinder.find_bitcode_lib("device"))
    except pathfinder.BitcodeLibNotFoundError as error:
        raise BackendError(
            "libdevice.10.bc, in which exp, log, sin and others are, was not found; "
            "pip install nvidia-nvvm brings it"
        ) from error


def functions(names: Iterable[str]) -> llvm.ModuleRef:
    """Return a new module with these functions and what they call, to be linked to another."""
    return llvm.parse_bitcode(_extract(frozenset(names)))


@functools.cache
def _extract(names: frozenset[str]) -> bytes:
    # parsing again is faster than copying a parsed module
    module = llvm.parse_bitcode(path().read_bytes())
    module.triple = TRIPLE
    module.data_layout = DATA_LAYOUT
    for function in module.functions:
        if not function.is_declaration and function.name not in names:
            function.linkage = llvm.Linkage.internal
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine(cpu="sm_70")
    builder = llvm.create_pass_builder(machine, options)
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, builder)
    for function in module.functions:
        if function.name in names:
            function.linkage = llvm.Linkage.linkonce_odr
    bitcode: bytes = module.as_bitcode()
    return bitcode
