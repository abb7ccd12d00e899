"""Compiling and launching kernels from Python: the public names of `tile.runtime`."""

from typing import TYPE_CHECKING

from tile._lazy import LazyNames
from tile.runtime.arguments.adapt import MockArray
from tile.runtime.arguments.device_arrays import PointerArray
from tile.runtime.jit import JITFunction
from tile.runtime.kernel import CompiledKernel

if TYPE_CHECKING:
    from tile.runtime.autotuning.autotuner import Autotuner, Config, Heuristics
else:
    _TUNING = ("Autotuner", "Config", "Heuristics")
    __getattr__ = LazyNames(__name__, dict.fromkeys(_TUNING, "tile.runtime.autotuning.autotuner"))
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
