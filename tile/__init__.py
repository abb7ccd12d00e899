"""A language and compiler for tile programs: kernels are Python functions over blocks of data.

    import tile
    import tile.language as tl

    @tile.jit
    def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = offsets < n
        total = tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
        tl.store(out_ptr + offsets, total, mask=mask)

    add[(tile.cdiv(x.size, 1024),)](x, y, out, x.size, BLOCK=1024)

The arrays are NumPy's, torch's, or any other library's; errors derive from `TileError`.
"""

from typing import TYPE_CHECKING

from tile import errors, language, runtime
from tile._import_hooks import call_after_import
from tile._lazy import LazyNames
from tile.errors import PerformanceWarning, TileError
from tile.frontend.python.constexpr_function import constexpr_function
from tile.runtime.arguments.adapt import MockArray, pointers
from tile.runtime.arguments.device_arrays import PointerArray
from tile.runtime.arguments.tensor_descriptor import TensorDescriptor
from tile.runtime.arguments.uninitialized import empty, uninitialized
from tile.runtime.compile import compile  # noqa: A004 - the name that programs use
from tile.runtime.grid import cdiv, next_power_of_2
from tile.runtime.jit import JITFunction, jit
from tile.runtime.kernel import CompiledKernel
from tile.runtime.target_selection import backend
from tile.version import VERSION

if TYPE_CHECKING:
    from tile import testing
    from tile.diagnostics.sanitize import sanitize
    from tile.diagnostics.trace import trace
    from tile.frontend.python.aggregates import aggregate, aggregate_replace
    from tile.runtime.autotuning.autotuner import Autotuner
    from tile.runtime.autotuning.configs import Config
    from tile.runtime.autotuning.decorator import autotune
    from tile.runtime.autotuning.heuristics import Heuristics, heuristics
    from tile.runtime.autotuning.space import Space
else:
    _TUNING = "tile.runtime.autotuning"
    __getattr__ = LazyNames(
        __name__,
        {
            "testing": "tile.testing",
            "torch": "tile.torch",
            "sanitize": "tile.diagnostics.sanitize",
            "trace": "tile.diagnostics.trace",
            **dict.fromkeys(("aggregate", "aggregate_replace"), "tile.frontend.python.aggregates"),
            "Autotuner": f"{_TUNING}.autotuner",
            "autotune": f"{_TUNING}.decorator",
            **dict.fromkeys(("Heuristics", "heuristics"), f"{_TUNING}.heuristics"),
            "Config": f"{_TUNING}.configs",
            "Space": f"{_TUNING}.space",
        },
    )
    __dir__ = __getattr__.names

__version__ = VERSION

# Launches in functions that torch.compile compiles.
call_after_import("torch._dynamo", "tile.torch.dynamo", "register")

__all__ = [
    "Autotuner",
    "CompiledKernel",
    "Config",
    "Heuristics",
    "JITFunction",
    "MockArray",
    "PerformanceWarning",
    "PointerArray",
    "Space",
    "TensorDescriptor",
    "TileError",
    "aggregate",
    "aggregate_replace",
    "autotune",
    "backend",
    "cdiv",
    "compile",
    "constexpr_function",
    "empty",
    "errors",
    "heuristics",
    "jit",
    "language",
    "next_power_of_2",
    "pointers",
    "runtime",
    "sanitize",
    "testing",
    "trace",
    "uninitialized",
]
