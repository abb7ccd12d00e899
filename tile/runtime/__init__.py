"""Compiling and launching kernels from Python: what programs look for under `tile.runtime`."""

from tile.runtime.arguments import MockArray
from tile.runtime.autotune import Autotuner, Config, Heuristics
from tile.runtime.jit import JITFunction
from tile.runtime.kernel import CompiledKernel
from tile.runtime.pointers import PointerArray

__all__ = [
    "Autotuner",
    "CompiledKernel",
    "Config",
    "Heuristics",
    "JITFunction",
    "MockArray",
    "PointerArray",
]
