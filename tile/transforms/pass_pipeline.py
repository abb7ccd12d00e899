"""The target-independent pass pipeline: verification and optimization that all backends share.

Importing this file declares every pass on tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tile.analysis.alias import written_arguments
from tile.ir.linker import refuse_unresolved
from tile.ir.module import Module
from tile.ir.passes import PASSES, Pass, parse_pipeline, run_pipeline
from tile.ir.printer import print_module
from tile.ir.verifier import verify
from tile.transforms import (
    canonicalize,
    check_blocks,
    cse,
    dce,
    descriptors_to_pointers,
    expand_inline_asm,
    find_blocks,
    fold,
    fold_ranges,
    infer_eviction_priorities,
    infer_readonly,
    inline,
    licm,
    look_up_choices,
    merge_carried,
    pad_extents,
    peel_loops,
    print_analysis,
    strip_debug_info,
    unroll,
    warn_spin_loops,
)

# The passes that every backend runs first. Inlined functions are removed early to save time.
TILE: tuple[Pass, ...] = tuple(
    parse_pipeline(
        "strip-debug-info,inline,dce,warn-spin-loops,canonicalize,cse,licm,canonicalize,cse,dce"
    )
)
# Passes after them for the interpreter, to which each operation on indices costs a call; LLVM does
# the same for GPUs.
INTERPRETED: tuple[Pass, ...] = tuple(parse_pipeline("merge-carried,cse,dce"))
# The pass before them, which depends on whether the backend executes PTX.
INLINE_ASM = PASSES["expand-inline-asm"]


@dataclass(frozen=True)
class OptimizedModule:
    """The result of `optimize`.

    `stages` are the texts of the module's stages so far, `parameters` the names of the kernel's
    parameters, and `written` those through which it writes memory.
    """

    stages: dict[str, str | bytes]
    parameters: tuple[str, ...]
    written: frozenset[str]


def optimize(
    module: Module,
    passes: Sequence[Pass] | None = None,
    *,
    after: Sequence[Pass] = (),
    ptx: bool = False,
) -> OptimizedModule:
    """Run passes over a TILE module, in place: those of `TILE` if None, and those `after` them.

    `ptx`: the backend executes inline PTX; for others it is expanded first, always. Raises
    `LinkError` if the module calls a function that it only declares.
    """
    verify(module)
    refuse_unresolved(module)
    parameters = tuple(value.name for value in module.kernel.args)
    stages: dict[str, str | bytes] = {"tile": print_module(module)}
    inline_asm = Pass(INLINE_ASM, {"ptx": ptx})
    run_pipeline(module, (inline_asm, *(TILE if passes is None else passes), *after))
    verify(module)
    stages["tile-optimized"] = print_module(module)
    return OptimizedModule(stages, parameters, written_arguments(module, module.kernel))
