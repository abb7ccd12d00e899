"""Compiling and launching kernels from Python: the public names of `tile.runtime`."""

from typing import TYPE_CHECKING

from tile._lazy import LazyNames
from tile.runtime.arguments.adapt import MockArray
from tile.runtime.arguments.device_arrays import PointerArray
from tile.runtime.jit import JITFunction
from tile.runtime.kernel import CompiledKernel

if TYPE_CHECKING:
    from tile.runtime.autotuning.autotuner import Autotuner
    from tile.runtime.autotuning.configs import Config
    from tile.runtime.autotuning.heuristics import Heuristics
else:
    _TUNING = "tile.runtime.autotuning"
    __getattr__ = LazyNames(
        __name__,
        {
            "Autotuner": f"{_TUNING}.autotuner",
            "Config": f"{_TUNING}.configs",
            "Heuristics": f"{_TUNING}.heuristics",
        },
    )
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
