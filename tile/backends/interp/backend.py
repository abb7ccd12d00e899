"""The interpreter as a backend: NumPy over all programs of the grid at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tile.analysis.alias import written_arguments
from tile.backends.base import Artifact, Grid, LaunchArgument, Options, Target
from tile.backends.interp.code import Code, translate
from tile.backends.interp.launch import Launch
from tile.backends.interp.rules import RULES
from tile.errors import BackendError
from tile.ir.core import Module
from tile.ir.passes import run_pipeline
from tile.ir.printer import print_module
from tile.ir.verifier import verify
from tile.transforms.pipeline import TILE

# Just below DEFAULT_MMAP_THRESHOLD_MAX of 64-bit glibc.
_HEAP_KEPT = (32 << 20) - (64 << 10)


class InterpreterBackend:
    """Runs TILE IR. Compiling is only the machine-independent passes."""

    name = "interp"

    def compile(self, module: Module, target: Target, options: Options) -> Artifact:
        """Optimise a module and make sure that everything in it can be run."""
        if target.arch:
            raise BackendError(f"the interpreter has no architectures, such as `{target.arch}`")
        verify(module)
        stages: dict[str, str | bytes] = {"tile": print_module(module)}
        run_pipeline(module, TILE)
        verify(module)
        stages["tile-optimized"] = print_module(module)
        written = written_arguments(module, module.kernel)
        translate(module, RULES)
        return Artifact(module.kernel.name, target, options, stages, module, written)

    def load(self, artifact: Artifact) -> InterpretedKernel:
        _keep_heap()
        return InterpretedKernel(translate(artifact.module, RULES))


def _keep_heap() -> None:
    """Let freed arrays of up to some megabytes be reused without asking the system for memory.

    When more than twice the largest block is free that it ever returned by munmap, glibc gives the
    top of its heap back (`M_TRIM_THRESHOLD` adjusts itself; mallopt(3)). Every page that comes back
    is cleared anew, which costs several times what most operations do. A block of nearly the
    largest size that it takes into account, never touched, raises that bound; elsewhere this does
    nothing.
    """
    np.empty(_HEAP_KEPT, np.uint8)


class InterpretedKernel:
    """A kernel that is ready to run."""

    def __init__(self, code: Code) -> None:
        self.code = code

    def launch(self, grid: Grid, arguments: Sequence[LaunchArgument]) -> None:
        Launch(self.code, grid, arguments).run()
