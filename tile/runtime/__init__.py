"""Compiling and launching kernels from Python: the public names of `tile.runtime`."""

from typing import TYPE_CHECKING

from tile.late import LateNames
from tile.runtime.arguments import MockArray
from tile.runtime.jit import JITFunction
from tile.runtime.kernel import CompiledKernel
from tile.runtime.pointers import PointerArray

if TYPE_CHECKING:
    from tile.runtime.autotune import Autotuner, Config, Heuristics
else:
    _TUNING = ("Autotuner", "Config", "Heuristics")
    __getattr__ = LateNames(__name__, dict.fromkeys(_TUNING, "tile.runtime.autotune"))
    __dir__ = __getattr__.names

__all__ = [
    "Autotuner",
    "CompiledKernel",
    "Config",
    "Heuristics",
    "JITFunction",
    "MockArray",
    "PointerArray",
]
